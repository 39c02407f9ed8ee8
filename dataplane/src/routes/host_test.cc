#include "routes/host.h"

#include <gtest/gtest.h>

namespace fairlead::dataplane {
namespace {

TEST(Host, FoldsCaseAndSplitsPortAndOneDot) {
  struct Case {
    std::string_view text, host;
    std::optional<std::uint16_t> port;
  };
  for (const Case& c :
       {Case{"web.example.test", "web.example.test", {}},
        Case{"WEB.Example.Test", "web.example.test", {}},
        Case{"web.example.test.", "web.example.test", {}},
        Case{"WEB.example.test.:8080", "web.example.test", 8080}, Case{"web:", "web", {}},
        Case{"web:0", "web", 0}, Case{"127.0.0.1:80", "127.0.0.1", 80}, Case{"[::1]", "[::1]", {}},
        Case{"[2001:DB8::1]:443", "[2001:db8::1]", 443}, Case{"[::1]:", "[::1]", {}},
        Case{"a_b.test", "a_b.test", {}}, Case{"-a.test", "-a.test", {}}}) {
    const auto parsed = parse_host(c.text);
    ASSERT_TRUE(parsed) << c.text;
    EXPECT_EQ(parsed->host, c.host);
    EXPECT_EQ(parsed->port, c.port) << c.text;
  }
}

TEST(Host, RefusesTheRest) {
  using namespace std::string_view_literals;
  const std::string long_label(64, 'a');
  const std::string long_name = std::string(63, 'a') + "." + std::string(63, 'b') + "." +
                                std::string(63, 'c') + "." + std::string(62, 'd');
  for (const std::string_view text : {""sv,
                                      "."sv,
                                      ".."sv,
                                      ":80"sv,
                                      ".web"sv,
                                      "a..b"sv,
                                      "web.."sv,
                                      "a b"sv,
                                      " web"sv,
                                      "web "sv,
                                      "web\t"sv,
                                      "we\0b"sv,
                                      "w\xc3\xa9"sv,
                                      "user@web"sv,
                                      "web/"sv,
                                      "web?x"sv,
                                      "web#x"sv,
                                      "web,api"sv,
                                      "web\\x"sv,
                                      "web%41"sv,
                                      "*.dev"sv,
                                      "web:80:80"sv,
                                      "web:65536"sv,
                                      "web:+1"sv,
                                      "web:0x50"sv,
                                      "web:080"sv,
                                      "web: 80"sv,
                                      "::1"sv,
                                      "[::1"sv,
                                      "[]"sv,
                                      "[web]"sv,
                                      "[1.2.3.4]"sv,
                                      "[::1]x"sv,
                                      "[::1]80"sv,
                                      "[::1%25lo]"sv,
                                      "[v1.x]"sv,
                                      "a[::1]"sv,
                                      std::string_view(long_label),
                                      std::string_view(long_name)}) {
    EXPECT_FALSE(parse_host(text)) << text;
  }
}

TEST(Host, LongestNameAndLabelAreAccepted) {
  const std::string name = std::string(63, 'a') + "." + std::string(63, 'b') + "." +
                           std::string(63, 'c') + "." + std::string(61, 'd');
  ASSERT_EQ(name.size(), kMaxHost);
  EXPECT_TRUE(parse_host(name));
  EXPECT_TRUE(parse_host(name + "."));
}

TEST(Host, LabelsAndFullHosts) {
  for (const std::string_view text : {"a", "web", "a-b", "0"}) EXPECT_TRUE(is_label(text)) << text;
  for (const std::string_view text : {"", "-a", "a-", "A", "a.b", "a_b", "*", "a b"}) {
    EXPECT_FALSE(is_label(text)) << text;
  }
  EXPECT_TRUE(is_full_host("a.b"));
  EXPECT_TRUE(is_full_host("shop.example.com"));
  for (const std::string_view text : {"", "a", "a.", ".a", "a..b", "A.b", "*.b", "a.b_c"}) {
    EXPECT_FALSE(is_full_host(text)) << text;
  }
}

}  // namespace
}  // namespace fairlead::dataplane
