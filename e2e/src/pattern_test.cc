#include "pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace fairlead::e2e {
namespace {

TEST(Pattern, AnyCutGivesTheSameBytes) {
  const std::string whole = pattern_text(7, 0, 1000);
  for (std::size_t cut = 0; cut <= 40; ++cut) {
    EXPECT_EQ(pattern_text(7, 0, cut) + pattern_text(7, cut, 1000 - cut), whole) << "cut " << cut;
  }
}

TEST(Pattern, SeedsDiffer) {
  EXPECT_NE(pattern_text(1, 0, 64), pattern_text(2, 0, 64));
}

TEST(Pattern, FirstDifferenceIsAStreamOffset) {
  std::string text = pattern_text(3, 100, 9000);
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_FALSE(first_difference(3, 100, bytes));
  text[8000] ^= 1;
  EXPECT_EQ(first_difference(3, 100, bytes), 8100U);
  EXPECT_TRUE(first_difference(3, 101, bytes));
}

TEST(Digest, KnownValueAndParts) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(pattern_digest(5, 200'000), sha256_hex(pattern_text(5, 0, 200'000)));
}

}  // namespace
}  // namespace fairlead::e2e
