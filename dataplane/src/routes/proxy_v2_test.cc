#include "routes/proxy_v2.h"

#include <gtest/gtest.h>

namespace fairlead::dataplane {
namespace {

using Status = ProxyParse::Status;
using namespace std::string_literals;

const std::string kSignature = "\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a"s;
const std::string kTcp4Header =
    kSignature + "\x21\x11\x00\x0c\x01\x02\x03\x04\x7f\x00\x00\x01\x30\x39\x00\x50"s;
const std::string kTcp6Header =
    kSignature + "\x21\x21\x00\x24"s +
    "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"s +
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"s + "\xff\xff\x1f\x90"s;

ProxyEndpoints endpoints(std::string_view source, std::string_view destination) {
  return {*SocketAddress::parse(source), *SocketAddress::parse(destination)};
}

ProxyParse parse(std::string_view bytes) {
  return parse_proxy_v2(std::as_bytes(std::span(bytes)));
}

TEST(ProxyV2, GoldenBytes) {
  const auto v4 = endpoints("1.2.3.4:12345", "127.0.0.1:80");
  const auto v6 = endpoints("[2001:db8::1]:65535", "[::1]:8080");
  EXPECT_EQ(encode_proxy_v2(v4), kTcp4Header);
  EXPECT_EQ(encode_proxy_v2(v6), kTcp6Header);
  EXPECT_EQ(encode_proxy_v2_local(), kSignature + "\x20\x00\x00\x00"s);
  for (const auto& [bytes, expected] : {std::pair(kTcp4Header, v4), std::pair(kTcp6Header, v6)}) {
    const ProxyParse result = parse(bytes + "GET /");
    EXPECT_EQ(result.status, Status::kHeader);
    EXPECT_EQ(result.consumed, bytes.size());
    EXPECT_EQ(result.endpoints, expected);
  }
}

TEST(ProxyV2, MixedFamiliesAreWrittenAsIpv6) {
  const auto mixed = endpoints("1.2.3.4:1", "[::1]:2");
  const std::string bytes = encode_proxy_v2(mixed);
  EXPECT_EQ(bytes.size(), 52u);
  EXPECT_EQ(parse(bytes).endpoints, mixed) << "a mapped address reads back as IPv4";
}

TEST(ProxyV2, EveryPrefixOfAHeaderNeedsMore) {
  const std::string tlvs = kSignature +
                           "\x21\x11\x00\x12\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01"s +
                           "\x00\x02\x04\x00\x03\x61\x62\x63"s;
  for (const std::string& bytes : {kTcp4Header, kTcp6Header, tlvs, encode_proxy_v2_local()}) {
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_EQ(parse(bytes.substr(0, n)).status, Status::kNeedMore) << n;
    }
    EXPECT_EQ(parse(bytes).status, Status::kHeader);
    EXPECT_EQ(parse(bytes).consumed, bytes.size());
  }
}

TEST(ProxyV2, EveryOtherBeginningIsTheClientsOwn) {
  for (const std::string& bytes : {"GET / HTTP/1.1\r\n"s, "PROXY TCP4 1.2.3.4"s, "\x16\x03\x01"s}) {
    EXPECT_EQ(parse(bytes).status, Status::kNotProxy);
    EXPECT_EQ(parse(bytes.substr(0, 1)).status, Status::kNotProxy);
  }
  for (std::size_t n = 0; n < kSignature.size(); ++n) {
    std::string bytes = kTcp4Header;
    bytes[n] ^= 0x01;
    EXPECT_EQ(parse(bytes).status, Status::kNotProxy) << n;
    EXPECT_EQ(parse(bytes.substr(0, n + 1)).status, Status::kNotProxy) << "told at once";
  }
}

TEST(ProxyV2, LocalAndUnspecifiedLeaveTheConnectionsOwnAddresses) {
  for (const std::string& rest :
       {"\x20\x00\x00\x00"s, "\x21\x00\x00\x00"s,
        "\x20\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02"s,
        "\x21\x00\x00\x03\x04\x00\x00"s}) {
    const ProxyParse result = parse(kSignature + rest + "x");
    EXPECT_EQ(result.status, Status::kHeader);
    EXPECT_EQ(result.consumed, kSignature.size() + rest.size());
    EXPECT_FALSE(result.endpoints);
  }
}

TEST(ProxyV2, BadHeadersAreToldAsSoonAsTheyCanBe) {
  struct Case {
    std::string rest;
    std::string_view error;
  };
  for (const Case& c :
       {Case{"\x11"s, "version 2"}, Case{"\x22"s, "unknown PROXY command"},
        Case{"\x21\x12\x00\x0c"s, "address family"}, Case{"\x21\x31\x00\xd8"s, "address family"},
        Case{"\x21\x11\x00\x0b"s, "too short"}, Case{"\x21\x21\x00\x23"s, "too short"},
        Case{"\x21\x11\x02\x09"s, "longer than 536"},
        Case{"\x20\x00\xff\xff"s, "longer than 536"}}) {
    const ProxyParse result = parse(kSignature + c.rest);
    EXPECT_EQ(result.status, Status::kBad) << c.error;
    EXPECT_NE(result.error.find(c.error), std::string_view::npos) << result.error;
    EXPECT_EQ(parse(kSignature + c.rest.substr(0, c.rest.size() - 1)).status, Status::kNeedMore);
  }
}

TEST(ProxyV2, LongestHeaderIsAccepted) {
  const std::string head = kSignature + "\x21\x11\x02\x08\x01\x02\x03\x04\x05\x06\x07\x08"s;
  const std::string bytes = head + std::string(kMaxProxyHeader - head.size(), '\0');
  EXPECT_EQ(parse(bytes).status, Status::kHeader);
  EXPECT_EQ(parse(bytes).consumed, kMaxProxyHeader);
}

}  // namespace
}  // namespace fairlead::dataplane
