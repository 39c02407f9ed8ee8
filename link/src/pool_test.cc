#include "fairlead/link/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace fairlead::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Carries out nothing: collects what the pool wants and lets the test answer.
class PoolTest : public ::testing::Test {
 protected:
  void make(std::uint32_t size, std::uint64_t seed = 1) {
    PoolConfig config;
    config.size = size;
    pool_.emplace(config, seed);
  }

  // Everything the pool asked for since the last call.
  std::vector<PoolAction> take() {
    std::vector<PoolAction> all;
    while (auto next = pool_->poll_action()) all.push_back(std::move(*next));
    return all;
  }
  template <typename Action>
  std::vector<Action> take_only() {
    std::vector<Action> some;
    for (PoolAction& each : take()) {
      if (auto* wanted = std::get_if<Action>(&each)) some.push_back(std::move(*wanted));
    }
    return some;
  }
  std::vector<SlotIndex> take_dials() {
    std::vector<SlotIndex> slots;
    for (const auto& dial : take_only<action::Dial>()) slots.push_back(dial.slot);
    return slots;
  }

  // A started pool whose slots 0..n-1 hold the links 1..n.
  void bring_up(std::uint32_t size) {
    make(size);
    pool_->start();
    for (SlotIndex slot = 0; slot < size; ++slot) pool_->dial_succeeded(slot, slot + 1, now_);
    take();
    now_ += seconds(60);
  }

  std::optional<LinkId> pick(const std::map<LinkId, LinkLoad>& loads) {
    return pool_->pick([&](LinkId link) -> std::optional<LinkLoad> {
      const auto found = loads.find(link);
      if (found == loads.end()) return std::nullopt;
      return found->second;
    });
  }
  std::optional<LinkId> pick() {
    return pool_->pick([](LinkId) { return LinkLoad{}; });
  }

  Instant now_{};
  std::optional<Pool> pool_;
};

TEST_F(PoolTest, StartDialsEverySlotOnce) {
  make(4);
  EXPECT_THAT(take_dials(), IsEmpty());
  pool_->start();
  EXPECT_THAT(take_dials(), ElementsAre(0, 1, 2, 3));
  pool_->start();
  pool_->on_timer(now_ + seconds(60));
  EXPECT_THAT(take_dials(), IsEmpty()) << "a slot has one dial in flight";
  EXPECT_EQ(pool_->next_deadline(), std::nullopt);
}

TEST_F(PoolTest, SuccessIsReportedUp) {
  make(1);
  pool_->start();
  take();
  pool_->dial_succeeded(0, 7, now_);
  const auto ups = take_only<action::Up>();
  ASSERT_EQ(ups.size(), 1u);
  EXPECT_EQ(ups[0].link, 7u);
  EXPECT_EQ(pool_->links_up(), 1u);
  pool_->dial_succeeded(0, 8, now_);
  EXPECT_THAT(take(), IsEmpty()) << "an answer that was not asked for changes nothing";
}

TEST_F(PoolTest, FailureIsRetriedAtItsDeadlineAndNotBefore) {
  make(1);
  pool_->start();
  take();
  pool_->dial_failed(0, "refused", now_);
  const auto failed = take_only<action::DialFailed>();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].cause, "refused");
  ASSERT_EQ(pool_->next_deadline(), now_ + failed[0].retry_in);
  if (failed[0].retry_in > Duration(1)) {
    pool_->on_timer(now_ + failed[0].retry_in - Duration(1));
    EXPECT_THAT(take_dials(), IsEmpty());
  }
  pool_->on_timer(now_ + failed[0].retry_in);
  EXPECT_THAT(take_dials(), ElementsAre(0));
}

// Every wait lies in its bounds, and the waits fill them: full jitter, not a fixed delay.
TEST_F(PoolTest, BackoffIsFullJitterUpToFifteenSeconds) {
  const std::vector<milliseconds> ceilings = {
      milliseconds(250),  milliseconds(500),  milliseconds(1000),  milliseconds(2000),
      milliseconds(4000), milliseconds(8000), milliseconds(15000), milliseconds(15000)};
  std::vector<std::vector<Duration>> waits(ceilings.size());
  constexpr int kSeeds = 400;
  for (int seed = 0; seed < kSeeds; ++seed) {
    make(1, static_cast<std::uint64_t>(seed));
    pool_->start();
    for (auto& of_step : waits) {
      pool_->dial_failed(0, "refused", now_);
      const auto failed = take_only<action::DialFailed>();
      ASSERT_EQ(failed.size(), 1u);
      of_step.push_back(failed[0].retry_in);
      now_ += failed[0].retry_in;
      pool_->on_timer(now_);
    }
  }
  for (std::size_t step = 0; step < ceilings.size(); ++step) {
    SCOPED_TRACE(step);
    const auto [least, most] = std::minmax_element(waits[step].begin(), waits[step].end());
    EXPECT_GE(*least, Duration(0));
    EXPECT_LE(*most, ceilings[step]);
    EXPECT_LT(*least, ceilings[step] / 20);
    EXPECT_GT(*most, ceilings[step] - ceilings[step] / 20);
    Duration sum(0);
    for (const Duration each : waits[step]) sum += each;
    EXPECT_NEAR(static_cast<double>((sum / kSeeds).count()),
                static_cast<double>(Duration(ceilings[step]).count()) / 2,
                static_cast<double>(Duration(ceilings[step]).count()) / 10);
  }
}

TEST_F(PoolTest, SameSeedSameWaits) {
  const auto waits = [this](std::uint64_t seed) {
    make(1, seed);
    pool_->start();
    std::vector<Duration> all;
    for (int n = 0; n < 5; ++n) {
      pool_->dial_failed(0, "refused", now_);
      pool_->on_timer(now_ + seconds(60));
      for (const auto& failed : take_only<action::DialFailed>()) all.push_back(failed.retry_in);
    }
    return all;
  };
  EXPECT_EQ(waits(5), waits(5));
  EXPECT_NE(waits(5), waits(6));
}

// Longest wait over many seeds after `failures` failed dials and one link of this life and end.
class ResetTest : public PoolTest {
 protected:
  Duration longest_wait_after(Duration life, bool clean) {
    Duration longest(0);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      make(1, seed);
      pool_->start();
      for (int n = 0; n < 6; ++n) {
        pool_->dial_failed(0, "refused", now_);
        now_ += seconds(15);
        pool_->on_timer(now_);
      }
      pool_->dial_succeeded(0, 1, now_);
      pool_->link_closed(1, clean, "end", now_ + life);
      longest = std::max(longest, *pool_->next_deadline() - (now_ + life));
    }
    return longest;
  }
};

TEST_F(ResetTest, CleanCloseResetsTheBackoff) {
  EXPECT_LE(longest_wait_after(seconds(1), true), milliseconds(250));
}
TEST_F(ResetTest, CutOfAYoungLinkKeepsTheBackoffGrowing) {
  EXPECT_GT(longest_wait_after(seconds(1), false), seconds(10));
}
TEST_F(ResetTest, CutOfALinkThatStoodLongStartsTheBackoffAnew) {
  EXPECT_LE(longest_wait_after(seconds(15), false), milliseconds(250));
}

TEST_F(PoolTest, CutIsReportedAndRedialled) {
  bring_up(2);
  pool_->link_closed(1, false, "dead peer", now_);
  const auto downs = take_only<action::Down>();
  ASSERT_EQ(downs.size(), 1u);
  EXPECT_EQ(downs[0].cause, "dead peer");
  EXPECT_FALSE(downs[0].clean);
  EXPECT_EQ(pool_->links_up(), 1u);
  EXPECT_EQ(pick(), 2u);
  pool_->on_timer(*pool_->next_deadline());
  EXPECT_THAT(take_dials(), ElementsAre(0));
}

TEST_F(PoolTest, RollDialsTheReplacementAtOnceAndKeepsTheOldLinkUntilItStands) {
  bring_up(1);
  pool_->link_draining(1, 0, GoawayReason::kRoll, now_);
  EXPECT_THAT(take_dials(), ElementsAre(0));
  EXPECT_EQ(pick(), 1u) << "nothing else is up: the draining link still takes opens";
  pool_->dial_succeeded(0, 2, now_);
  EXPECT_EQ(pick(), 2u);
  pool_->link_draining(1, 1, GoawayReason::kRoll, now_);
  EXPECT_EQ(pick(), 2u);
  EXPECT_THAT(take_dials(), IsEmpty()) << "phase 1 of the same goaway dials nothing more";
  pool_->link_closed(1, true, "closed", now_);
  EXPECT_EQ(take_only<action::Down>().size(), 1u);
  EXPECT_EQ(pool_->next_deadline(), std::nullopt) << "the slot has its replacement";
}

TEST_F(PoolTest, PhaseOneLinkIsNeverPicked) {
  bring_up(1);
  pool_->link_draining(1, 0, GoawayReason::kRoll, now_);
  pool_->link_draining(1, 1, GoawayReason::kRoll, now_);
  EXPECT_EQ(pick(), std::nullopt);
}

TEST_F(PoolTest, DrainingIsReportedOnce) {
  bring_up(1);
  pool_->link_draining(1, 0, GoawayReason::kRoll, now_);
  pool_->link_draining(1, 1, GoawayReason::kRoll, now_);
  EXPECT_EQ(take_only<action::Draining>().size(), 1u);
}

// A full pool does not block the replacement: all four drain, all four are dialled.
TEST_F(PoolTest, WholePoolDrainsAndIsReplaced) {
  bring_up(4);
  for (LinkId link = 1; link <= 4; ++link) {
    pool_->link_draining(link, 0, GoawayReason::kRoll, now_);
  }
  EXPECT_THAT(take_dials(), UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(pool_->links_draining(), 4u);
  EXPECT_THAT(take_only<action::Close>(), IsEmpty());
}

TEST_F(PoolTest, AtMostSizeDrainingLinksLinger) {
  bring_up(2);
  LinkId next = 3;
  const auto roll = [&](LinkId link, SlotIndex slot) {
    pool_->link_draining(link, 0, GoawayReason::kRoll, now_);
    pool_->dial_succeeded(slot, next++, now_);
    now_ += seconds(60);
  };
  roll(1, 0);
  roll(2, 1);
  EXPECT_THAT(take_only<action::Close>(), IsEmpty());
  roll(3, 0);
  auto closes = take_only<action::Close>();
  ASSERT_EQ(closes.size(), 1u);
  EXPECT_EQ(closes[0].link, 1u) << "the oldest";
  EXPECT_EQ(closes[0].code, code::kDrainTimeout);
  EXPECT_EQ(pool_->links_draining(), 2u);
  roll(4, 1);
  closes = take_only<action::Close>();
  ASSERT_EQ(closes.size(), 1u) << "the first one was told already";
  EXPECT_EQ(closes[0].link, 2u);
  pool_->link_closed(1, false, "drain", now_);
  pool_->link_closed(2, false, "drain", now_);
  EXPECT_EQ(pool_->links_draining(), 2u);
}

TEST_F(PoolTest, LeaveClosesTheSlotUntilStart) {
  bring_up(2);
  pool_->link_draining(1, 0, GoawayReason::kLeave, now_);
  pool_->link_closed(1, true, "closed", now_);
  pool_->on_timer(now_ + seconds(60));
  EXPECT_THAT(take_dials(), IsEmpty());
  EXPECT_EQ(pool_->next_deadline(), std::nullopt);
  EXPECT_EQ(pick(), 2u) << "the other slot is untouched";
  pool_->start();
  EXPECT_THAT(take_dials(), ElementsAre(0));
}

// A peer that says goaway to every newcomer (a draining one behind a load balancer) is not dialled
// in a tight loop.
TEST_F(PoolTest, GoawayToANewcomerWaits) {
  make(1);
  pool_->start();
  LinkId link = 0;
  Duration waited(0);
  for (int n = 0; n < 20; ++n) {
    pool_->dial_succeeded(0, ++link, now_);
    take();
    pool_->link_draining(link, 0, GoawayReason::kRoll, now_ + milliseconds(999));
    now_ += milliseconds(999);
    EXPECT_THAT(take_dials(), IsEmpty());
    ASSERT_TRUE(pool_->next_deadline());
    waited += *pool_->next_deadline() - now_;
    now_ = *pool_->next_deadline();
    pool_->on_timer(now_);
    EXPECT_THAT(take_dials(), ElementsAre(0));
    pool_->link_closed(link, true, "closed", now_);
  }
  EXPECT_GT(waited, seconds(30));
}

TEST_F(PoolTest, StopClosesEveryLinkAndDialsNoMore) {
  bring_up(3);
  pool_->link_draining(1, 0, GoawayReason::kRoll, now_);
  pool_->link_closed(2, false, "cut", now_);
  take();
  pool_->stop();
  std::vector<LinkId> closed;
  for (const auto& close : take_only<action::Close>()) closed.push_back(close.link);
  EXPECT_THAT(closed, UnorderedElementsAre(1, 3));
  EXPECT_EQ(pick(), std::nullopt);
  // The dial of slot 0 was in flight: its link is closed at once.
  pool_->dial_succeeded(0, 9, now_);
  const auto late = take_only<action::Close>();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].link, 9u);
  for (const LinkId link : {1, 3, 9}) pool_->link_closed(link, true, "closed", now_);
  pool_->on_timer(now_ + seconds(60));
  EXPECT_THAT(take_dials(), IsEmpty());
  EXPECT_EQ(pool_->next_deadline(), std::nullopt);
  pool_->start();
  EXPECT_THAT(take_dials(), ElementsAre(0, 1, 2));
}

TEST_F(PoolTest, UnknownLinksChangeNothing) {
  bring_up(1);
  pool_->link_closed(99, false, "?", now_);
  pool_->link_draining(99, 0, GoawayReason::kRoll, now_);
  pool_->dial_failed(5, "?", now_);
  pool_->dial_succeeded(5, 6, now_);
  EXPECT_THAT(take(), IsEmpty());
  EXPECT_EQ(pool_->links_up(), 1u);
}

struct PickCase {
  const char* name;
  std::vector<LinkId> draining;  // phase 0
  std::map<LinkId, LinkLoad> loads;
  std::optional<LinkId> expected;
};

class PickTest : public PoolTest, public ::testing::WithParamInterface<PickCase> {};

TEST_P(PickTest, ChoosesByGroupThenLoad) {
  bring_up(3);
  for (const LinkId link : GetParam().draining) {
    pool_->link_draining(link, 0, GoawayReason::kRoll, now_);
  }
  EXPECT_EQ(pick(GetParam().loads), GetParam().expected);
}

constexpr bool kOverdue = true;
INSTANTIATE_TEST_SUITE_P(
    Table, PickTest,
    ::testing::Values(
        PickCase{"LeastLoaded", {}, {{1, {5}}, {2, {3}}, {3, {4}}}, 2},
        PickCase{"EqualLoadTakesTheLowestSlot", {}, {{1, {2}}, {2, {2}}, {3, {2}}}, 1},
        PickCase{"OverdueIsAvoided", {}, {{1, {0, kOverdue}}, {2, {9}}, {3, {8}}}, 3},
        PickCase{"DrainingIsAvoided", {1}, {{1, {0}}, {2, {9}}, {3, {8}}}, 3},
        PickCase{
            "DrainingBeforeOverdue", {1}, {{1, {9}}, {2, {0, kOverdue}}, {3, {0, kOverdue}}}, 1},
        PickCase{"OverdueBeforeDrainingAndOverdue",
                 {1},
                 {{1, {0, kOverdue}}, {2, {9, kOverdue}}, {3, {8, kOverdue}}},
                 3},
        PickCase{"DrainingAndOverdueBeforeNothing", {1, 2, 3}, {{2, {5, kOverdue}}}, 2},
        PickCase{"SkippedLinksAreLeftOut", {}, {{3, {7}}}, 3},
        PickCase{"NothingIsLeft", {}, {}, std::nullopt}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace fairlead::link
