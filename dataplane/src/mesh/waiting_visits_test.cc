#include "mesh/waiting_visits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fairlead::dataplane {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WaitingVisits, ExpireInOrderAtTheirVeryTime) {
  using std::chrono::milliseconds;
  const link::Instant start{std::chrono::hours(1)};
  WaitingVisits waiting;
  EXPECT_FALSE(waiting.next_deadline());
  const auto a = waiting.add("t", start);
  const auto b = waiting.add("t", start + milliseconds(10));
  const auto c = waiting.add("u", start + milliseconds(10));
  EXPECT_THAT(waiting.waiting(), ElementsAre(*a, *b, *c));
  EXPECT_EQ(waiting.next_deadline(), start + std::chrono::seconds(3));
  EXPECT_THAT(waiting.expire(start + milliseconds(2999)), IsEmpty());
  EXPECT_THAT(waiting.expire(start + milliseconds(3000)), ElementsAre(*a));
  waiting.remove(*b);
  waiting.remove(*b);
  EXPECT_THAT(waiting.expire(start + milliseconds(9000)), ElementsAre(*c));
  EXPECT_EQ(waiting.size(), 0u);
}

TEST(WaitingVisits, ATenantIsBoundedAndHoldsNoOther) {
  const link::Instant now{std::chrono::hours(1)};
  WaitingVisits waiting(std::chrono::seconds(3), 2);
  const auto first = waiting.add("t", now);
  EXPECT_TRUE(waiting.add("t", now));
  EXPECT_FALSE(waiting.add("t", now));
  EXPECT_TRUE(waiting.add("u", now));
  waiting.remove(*first);
  EXPECT_TRUE(waiting.add("t", now));
  waiting.expire(now + std::chrono::seconds(3));
  EXPECT_TRUE(waiting.add("t", now));
}

}  // namespace
}  // namespace fairlead::dataplane
