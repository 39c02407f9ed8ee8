#include "drain.h"

#include <gtest/gtest.h>

namespace fairlead::dataplane {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{std::chrono::hours(1)};
const DrainOrder kOrder{"rollout", seconds(60), seconds(5)};

TEST(Drain, GoesThroughDelayAndDrainingToDrained) {
  Drain drain;
  drain.start(kOrder, kStart);
  DrainLoad load{.visits = 2, .other_active = true};
  EXPECT_EQ(drain.state(), Drain::State::kDelay);
  EXPECT_EQ(drain.next_deadline(), kStart + seconds(5));
  EXPECT_FALSE(drain.step(load, kStart + seconds(4)).close_listeners);
  const DrainActions at_delay = drain.step(load, kStart + seconds(5));
  EXPECT_TRUE(at_delay.close_listeners);
  EXPECT_TRUE(at_delay.goaway_agents);
  EXPECT_FALSE(drain.step(load, kStart + seconds(30)).finished);
  load.visits = 0;
  const DrainActions last = drain.step(load, kStart + seconds(31));
  EXPECT_TRUE(last.finished);
  EXPECT_FALSE(last.reset_rest);
  EXPECT_EQ(drain.state(), Drain::State::kDrained);
  EXPECT_EQ(drain.elapsed(kStart + seconds(50)), seconds(31)) << "the clock stops with the drain";
}

TEST(Drain, IsNeverDrainedInTheStepThatClosesListeners) {
  // Connections that waited on the listeners are taken over by the owner after this step.
  Drain drain;
  drain.start({"rollout", seconds(60), seconds(0)}, kStart);
  const DrainLoad nothing{.other_active = true};
  EXPECT_FALSE(drain.step(nothing, kStart).finished);
  EXPECT_TRUE(drain.step(nothing, kStart).finished);
}

TEST(Drain, ResetsTheRestAtItsDeadline) {
  Drain drain;
  drain.start(kOrder, kStart);
  const DrainLoad load{.visits = 1, .other_active = true};
  drain.step(load, kStart + seconds(5));
  const DrainActions actions = drain.step(load, kStart + seconds(60));
  EXPECT_TRUE(actions.reset_rest);
  EXPECT_TRUE(actions.finished);
  EXPECT_EQ(drain.state(), Drain::State::kForced);
}

TEST(Drain, ASecondOrderOnlyBringsTheDeadlineForward) {
  Drain drain;
  drain.start(kOrder, kStart);
  drain.start({"again", seconds(600), seconds(5)}, kStart + seconds(1));
  EXPECT_EQ(drain.deadline(), seconds(60));
  drain.start({"node drain", seconds(20), seconds(5)}, kStart + seconds(10));
  EXPECT_EQ(drain.deadline(), seconds(30));
  EXPECT_EQ(drain.reason(), "rollout");
}

TEST(Drain, KeepsListeningWhileNoOtherReplicaServes) {
  Drain drain;
  drain.start({"rollout", seconds(3600), seconds(5)}, kStart);
  const DrainLoad alone{.visits = 1};
  EXPECT_FALSE(drain.step(alone, kStart + seconds(100)).close_listeners);
  EXPECT_TRUE(drain.step(alone, kStart + seconds(5 + 120)).close_listeners);
  Drain last;
  last.start({"scale to zero", seconds(3600), seconds(5), true}, kStart);
  EXPECT_TRUE(last.step(alone, kStart + seconds(5)).close_listeners);
}

TEST(Drain, WaitsForAgentsOnlyWhileTheyHaveSomewhereToGo) {
  Drain drain;
  drain.start({"rollout", seconds(60), seconds(0)}, kStart);
  drain.step({.agents = 1, .other_active = true}, kStart);
  EXPECT_FALSE(drain.step({.agents = 1, .other_active = true}, kStart + seconds(1)).finished);
  EXPECT_TRUE(drain.step({.agents = 1, .other_active = false}, kStart + seconds(2)).finished);
}

}  // namespace
}  // namespace fairlead::dataplane
