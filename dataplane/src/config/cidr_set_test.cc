#include "config/cidr_set.h"

#include <gmock/gmock.h>

namespace fairlead::dataplane {
namespace {

using ::testing::HasSubstr;

Cidr cidr(std::string_view text) {
  std::string error;
  const auto parsed = Cidr::parse(text, error);
  EXPECT_TRUE(parsed) << error;
  return parsed.value_or(Cidr{});
}

TEST(Cidr, ReadsAndPrints) {
  for (const std::string_view text : {"10.0.0.0/8", "0.0.0.0/0", "192.168.1.128/25", "1.2.3.4/32",
                                      "2001:db8::/32", "::/0", "::1/128", "fe80::/10"}) {
    EXPECT_EQ(to_string(cidr(text)), text);
  }
  EXPECT_EQ(to_string(cidr("1.2.3.4")), "1.2.3.4/32");
  EXPECT_EQ(to_string(cidr("::1")), "::1/128");
}

TEST(Cidr, RefusesWithTheRemedy) {
  struct Case {
    std::string_view text, error;
  };
  for (const Case& c :
       {Case{"", "not an address range"}, Case{"10.0.0/8", "not an address range"},
        Case{"web/8", "not an address range"}, Case{"10.0.0.0/33", "0 to 32"},
        Case{"10.0.0.0/", "malformed prefix"}, Case{"10.0.0.0/08", "malformed"},
        Case{"10.0.0.0/-1", "malformed"}, Case{"10.0.0.0/8 ", "malformed"},
        Case{"::/129", "0 to 128"}, Case{"10.1.0.0/8", "write 10.0.0.0/8 or 10.1.0.0/32"},
        Case{"2001:db8::1/32", "write 2001:db8::/32 or 2001:db8::1/128"}}) {
    std::string error;
    EXPECT_FALSE(Cidr::parse(c.text, error)) << c.text;
    EXPECT_THAT(error, HasSubstr(c.error)) << c.text;
  }
}

TEST(CidrSet, Contains) {
  const CidrSet set({cidr("10.0.0.0/8"), cidr("192.168.1.128/25"), cidr("2001:db8::/33")});
  const auto has = [&](std::string_view text) { return set.contains(*IpAddress::parse(text)); };
  EXPECT_TRUE(has("10.255.255.255"));
  EXPECT_FALSE(has("11.0.0.0"));
  EXPECT_TRUE(has("192.168.1.128"));
  EXPECT_FALSE(has("192.168.1.127"));
  EXPECT_TRUE(has("2001:db8:7fff::1"));
  EXPECT_FALSE(has("2001:db8:8000::1"));
  EXPECT_TRUE(has("::ffff:10.1.2.3")) << "a mapped address is the IPv4 address";
  EXPECT_FALSE(has("::"));
}

TEST(CidrSet, FamiliesDoNotMix) {
  const CidrSet all4({cidr("0.0.0.0/0")});
  const CidrSet all6({cidr("::/0")});
  const IpAddress four = *IpAddress::parse("1.2.3.4");
  const IpAddress six = *IpAddress::parse("2001:db8::1");
  EXPECT_TRUE(all4.contains(four));
  EXPECT_FALSE(all4.contains(six));
  EXPECT_TRUE(all6.contains(six));
  EXPECT_FALSE(all6.contains(four));
  EXPECT_FALSE(CidrSet().contains(four));
}

}  // namespace
}  // namespace fairlead::dataplane
