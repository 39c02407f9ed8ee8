#include "agent/homes.h"

#include <gtest/gtest.h>

#include <vector>

namespace fairlead::dataplane {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{std::chrono::hours(1)};

struct Actions {
  std::vector<HomeId> dials, leaves, closes;
};
Actions take(Homes& homes) {
  Actions out;
  while (const auto action = homes.poll()) {
    if (const auto* dial = std::get_if<home_action::Dial>(&*action))
      out.dials.push_back(dial->home);
    if (const auto* leave = std::get_if<home_action::Leave>(&*action)) {
      out.leaves.push_back(leave->home);
    }
    if (const auto* close = std::get_if<home_action::Close>(&*action)) {
      out.closes.push_back(close->home);
    }
  }
  return out;
}

// Two homes, to replicas a and b, standing.
class Standing : public ::testing::Test {
 protected:
  Standing() {
    homes.start(kStart);
    take(homes);
    homes.registered(1, "a", 2, kStart);
    homes.registered(2, "b", 2, kStart);
    EXPECT_EQ(homes.standing(), 2u);
  }
  Homes homes{2, 1, 7};
};

TEST(Homes, DialsAllItsHomesAtOnce) {
  Homes homes(2, 1, 1);
  homes.start(kStart);
  EXPECT_EQ(take(homes).dials.size(), 2u);
  EXPECT_EQ(homes.next_deadline(), std::nullopt);
}

TEST(Homes, ClosesASecondLinkToTheSameReplicaAndDialsAgain) {
  Homes homes(2, 1, 1);
  homes.start(kStart);
  take(homes);
  homes.registered(1, "a", 2, kStart);
  homes.registered(2, "a", 2, kStart);
  EXPECT_EQ(take(homes).closes, (std::vector<HomeId>{2}));
  ASSERT_TRUE(homes.next_deadline());
  EXPECT_LE(*homes.next_deadline(), kStart + Homes::kFirstPause);
  homes.on_timer(kStart + Homes::kFirstPause);
  EXPECT_EQ(take(homes).dials.size(), 1u);
}

TEST(Homes, ASecondLinkToTheSameReplicaFinishesTheVisitsItWasGiven) {
  Homes homes(2, 1, 1);
  homes.start(kStart);
  take(homes);
  homes.registered(1, "a", 2, kStart);
  homes.set_visits(2, 1, kStart);
  homes.registered(2, "a", 2, kStart);
  const Actions first = take(homes);
  EXPECT_EQ(first.leaves, (std::vector<HomeId>{2}));
  EXPECT_TRUE(first.closes.empty());
  EXPECT_EQ(homes.standing(), 1u);
  homes.set_visits(2, 0, kStart);
  EXPECT_EQ(take(homes).closes, (std::vector<HomeId>{2}));
}

TEST_F(Standing, OpensTheReplacementBeforeItLeavesADrainingHome) {
  homes.draining(1, kStart);
  const Actions first = take(homes);
  EXPECT_EQ(first.dials, (std::vector<HomeId>{3}));
  EXPECT_TRUE(first.closes.empty());
  homes.registered(3, "c", 2, kStart);
  EXPECT_EQ(take(homes).closes, (std::vector<HomeId>{1}));
}

TEST_F(Standing, KeepsADrainingHomeWhileItCarriesVisits) {
  homes.set_visits(1, 2, kStart);
  homes.draining(1, kStart);
  homes.registered(3, "c", 2, kStart);
  EXPECT_TRUE(take(homes).closes.empty());
  homes.set_visits(1, 1, kStart);
  EXPECT_TRUE(take(homes).closes.empty());
  homes.set_visits(1, 0, kStart);
  EXPECT_EQ(take(homes).closes, (std::vector<HomeId>{1}));
}

TEST_F(Standing, FewerReplicasLetADrainedHomeGo) {
  homes.draining(1, kStart);
  EXPECT_TRUE(take(homes).closes.empty());
  homes.set_target(1, kStart);
  EXPECT_EQ(take(homes).closes, (std::vector<HomeId>{1}));
}

TEST_F(Standing, ReplacesALostHomeAfterAShortDraw) {
  homes.lost(2, false, kStart);
  ASSERT_TRUE(homes.next_deadline() || !take(homes).dials.empty());
  homes.on_timer(kStart + Homes::kFirstPause);
  EXPECT_EQ(homes.next_deadline(), std::nullopt) << "a dial is out";
}

TEST(Homes, PausesGrowToTheirBoundAndSpread) {
  Duration longest{0}, shortest = std::chrono::hours(1);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Homes homes(1, 1, seed);
    homes.start(kStart);
    take(homes);
    Instant now = kStart;
    for (HomeId id = 1; id <= 12; ++id) {
      homes.failed(id, false, Duration(0), now);
      if (const auto at = homes.next_deadline()) {
        const Duration wait = *at - now;
        EXPECT_LE(wait, Homes::kMaxPause);
        if (id == 12) {
          longest = std::max(longest, wait);
          shortest = std::min(shortest, wait);
        }
        now = *at;
        homes.on_timer(now);
      }
      take(homes);
    }
  }
  EXPECT_GT(longest, Homes::kMaxPause * 9 / 10);
  EXPECT_LT(shortest, Homes::kMaxPause / 10);
}

TEST(Homes, WaitsAtLeastAsLongAsTheReplicaAsked) {
  Homes homes(1, 1, 3);
  homes.start(kStart);
  take(homes);
  homes.failed(1, true, seconds(7), kStart);
  ASSERT_TRUE(homes.next_deadline());
  EXPECT_GE(*homes.next_deadline(), kStart + seconds(7));
}

TEST(Homes, GoesRoundItsRelayAddresses) {
  Homes homes(3, 2, 1);
  homes.start(kStart);
  std::vector<std::size_t> relays;
  while (const auto action = homes.poll()) {
    relays.push_back(std::get<home_action::Dial>(*action).relay);
  }
  EXPECT_EQ(relays, (std::vector<std::size_t>{0, 1, 0}));
}

TEST_F(Standing, StopClosesEverythingAndDialsNoMore) {
  homes.stop();
  EXPECT_EQ(take(homes).closes, (std::vector<HomeId>{1, 2}));
  homes.lost(1, true, kStart);
  homes.lost(2, true, kStart);
  EXPECT_TRUE(take(homes).dials.empty());
  EXPECT_EQ(homes.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace fairlead::dataplane
