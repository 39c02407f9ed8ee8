#include "routes/route_table.h"

#include <gmock/gmock.h>

#include "routes/host.h"

namespace fairlead::dataplane {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Status = HttpRoute::Status;

Tokens tokens_of(const std::string& entries) {
  std::vector<std::string> errors;
  const auto tokens =
      Tokens::parse("tokens:\n" + entries, "tokens.yaml", "relay.localhost", errors);
  EXPECT_THAT(errors, IsEmpty());
  return tokens.value_or(Tokens());
}

std::string entry(std::string_view tenant, int number, std::string_view rest) {
  std::string digits = std::to_string(number);
  return "  - {tenant: " + std::string(tenant) +
         ", sha256: " + std::string(64 - digits.size(), '0') + digits + ", " + std::string(rest) +
         "}\n";
}

// A visitor's Host header all the way to the answer; `web` of acme and nothing else is served.
HttpRoute route(const RouteTable& table, std::string_view host_header) {
  const auto host = parse_host(host_header);
  if (!host) return {};
  return table.http(host->host, [](std::string_view tenant, std::string_view service) {
    return tenant == "acme" && (service == "web" || service == "x.dev");
  });
}

TEST(RouteTable, UnknownOfflineService) {
  const RouteTable table(tokens_of(entry("acme", 1, "names: [web, api, '*.dev']") +
                                   entry("corp", 2, "names: [shop.example.com]")),
                         "relay.localhost");
  struct Case {
    std::string_view host;
    Status status;
    std::string_view tenant, service;
  };
  for (const Case& c :
       {Case{"web.relay.localhost", Status::kService, "acme", "web"},
        Case{"WEB.Relay.LocalHost.:8080", Status::kService, "acme", "web"},
        Case{"api.relay.localhost", Status::kOffline, "acme", "api"},
        Case{"other.relay.localhost", Status::kUnknown, "", ""},
        Case{"x.dev", Status::kService, "acme", "x.dev"},
        Case{"y.dev", Status::kOffline, "acme", "y.dev"}, Case{"x.y.dev", Status::kUnknown, "", ""},
        Case{"dev", Status::kUnknown, "", ""},
        Case{"shop.example.com", Status::kOffline, "corp", "shop.example.com"},
        Case{"web", Status::kUnknown, "", ""}, Case{"relay.localhost", Status::kUnknown, "", ""},
        Case{"a.web.relay.localhost", Status::kUnknown, "", ""},
        Case{"xrelay.localhost", Status::kUnknown, "", ""}, Case{"[::1]", Status::kUnknown, "", ""},
        Case{"127.0.0.1", Status::kUnknown, "", ""},
        Case{"web.relay.localhost..", Status::kUnknown, "", ""}}) {
    const HttpRoute found = route(table, c.host);
    EXPECT_EQ(found.status, c.status) << c.host;
    EXPECT_EQ(found.tenant, c.tenant) << c.host;
    EXPECT_EQ(found.service, c.service) << c.host;
  }
}

TEST(RouteTable, SameAnswersAtAnySize) {
  for (const int size : {1, 99, 100, 101, 5000}) {
    std::string entries = entry("acme", 0, "names: [web, '*.dev']");
    for (int i = 1; i < size; ++i) {
      const std::string name = "n" + std::to_string(i);
      entries += entry("t" + std::to_string(i % 7), i, "names: [" + name + ", " + name + ".test]");
    }
    const RouteTable table(tokens_of(entries), "relay.localhost");
    EXPECT_EQ(route(table, "WEB.relay.localhost.").status, Status::kService) << size;
    EXPECT_EQ(route(table, "X.DEV:80").status, Status::kService) << size;
    EXPECT_EQ(route(table, "N1.test").status, size > 1 ? Status::kOffline : Status::kUnknown);
    EXPECT_EQ(route(table, "nope.relay.localhost").status, Status::kUnknown) << size;
  }
}

TEST(RouteTable, NamesAndHostsGoBothWays) {
  const RouteTable table(Tokens(), "relay.localhost");
  for (const std::string_view service : {"web", "shop.example.com"}) {
    EXPECT_EQ(table.service_of(table.host_of(service)), service);
  }
  EXPECT_EQ(table.host_of("web"), "web.relay.localhost");
}

TEST(RouteTable, TcpPorts) {
  const RouteTable table(
      tokens_of(entry("acme", 1, "tcp: [{name: db, port: 20001}, {name: ssh, port: 20000}]")),
      "relay.localhost");
  EXPECT_THAT(table.tcp_ports(), ElementsAre(20000, 20001));
  ASSERT_NE(table.tcp(20001), nullptr);
  EXPECT_EQ(*table.tcp(20001), (TcpOwner{"acme", "db"}));
  EXPECT_EQ(table.tcp(20002), nullptr);
}

}  // namespace
}  // namespace fairlead::dataplane
