#include "routes/ip_address.h"

#include <gtest/gtest.h>

namespace fairlead::dataplane {
namespace {

TEST(IpAddress, ReadsAndPrints) {
  for (const std::string_view text :
       {"0.0.0.0", "1.2.3.4", "255.255.255.255", "::", "::1", "2001:db8::1", "fe80::1:2"}) {
    const auto ip = IpAddress::parse(text);
    ASSERT_TRUE(ip) << text;
    EXPECT_EQ(to_string(*ip), text);
  }
  EXPECT_EQ(to_string(*IpAddress::parse("2001:DB8:0:0::0001")), "2001:db8::1");
  EXPECT_EQ(IpAddress::parse("::ffff:1.2.3.4"), IpAddress::parse("1.2.3.4"));
}

TEST(IpAddress, RefusesTheRest) {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {""sv, "1.2.3"sv, "1.2.3.4.5"sv, "256.1.1.1"sv, "1.2.3.4 "sv, "[::1]"sv, "::1%lo"sv, "web"sv,
        ":"sv, "1.2.3.4\0x"sv, "0x1.2.3.4"sv, "::1/64"sv,
        "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa"sv}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
}

TEST(SocketAddress, ReadsAndPrints) {
  for (const std::string_view text : {"1.2.3.4:0", "1.2.3.4:65535", "[::1]:80"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_string(*address), text);
  }
  for (const std::string_view text :
       {"", ":80", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:+80", "1.2.3.4:080", "::1:80",
        "[1.2.3.4]:80", "[::1]", "[::1]80", "[::1:80", "web:80", "1.2.3.4:80 "}) {
    EXPECT_FALSE(SocketAddress::parse(text)) << text;
  }
}

}  // namespace
}  // namespace fairlead::dataplane
