#include "visit/visit_id.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace fairlead::dataplane {
namespace {

TEST(VisitId, HexIsReadBackInEitherCase) {
  const auto id = VisitId::from_hex("00112233445566778899aAbBcCdDeEfF");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->hex(), "00112233445566778899aabbccddeeff");
  EXPECT_EQ(VisitId::from_bytes(id->raw()), id);
}

TEST(VisitId, RefusesOtherLengthsAndDigits) {
  EXPECT_FALSE(VisitId::from_hex(""));
  EXPECT_FALSE(VisitId::from_hex("00112233445566778899aabbccddeef"));
  EXPECT_FALSE(VisitId::from_hex("00112233445566778899aabbccddeeff0"));
  EXPECT_FALSE(VisitId::from_hex("0011223344556677 899aabbccddeeff"));
  EXPECT_FALSE(VisitId::from_bytes("fifteen bytes.."));
  EXPECT_FALSE(VisitId::from_bytes("seventeen bytes.."));
}

TEST(VisitId, IsAKey) {
  std::unordered_set<VisitId> ids;
  ids.insert(*VisitId::from_bytes("0123456789abcdef"));
  EXPECT_TRUE(ids.contains(*VisitId::from_bytes("0123456789abcdef")));
  EXPECT_FALSE(ids.contains(*VisitId::from_bytes("0123456789abcdeF")));
  EXPECT_LT(*VisitId::from_bytes("0123456789abcdeF"), *VisitId::from_bytes("0123456789abcdef"));
}

}  // namespace
}  // namespace fairlead::dataplane
