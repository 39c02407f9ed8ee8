// The operator is killed, or an error befalls it, at every single call of whole stories. Each story
// must end as if nothing had happened, with no visit lost and no visitor turned away.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "reconcile/fake_cluster.h"

namespace fairlead::op::testing {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kSeed = 1;

RelayCluster cluster_of(const std::string& image, int replicas = 3) {
  RelayCluster cluster;
  cluster.name = "demo";
  cluster.uid = "cluster-uid";
  cluster.generation = 1;
  cluster.spec.image = image;
  cluster.spec.replicas = replicas;
  cluster.spec.rollout.min_ready = seconds(1);
  cluster.spec.drain.endpoint_delay = seconds(1);
  return cluster;
}

// Tells its story to the operator; "" or what did not come about.
using Story = std::function<std::string(FakeCluster&, FakeOperator&)>;

std::string rollout(FakeCluster&, FakeOperator& op) {
  return op.settle(cluster_of("relay:v2"));
}

std::string scale(FakeCluster&, FakeOperator& op) {
  const std::string up = op.settle(cluster_of("relay:v1", 5));
  return up.empty() ? op.settle(cluster_of("relay:v1", 2)) : "up: " + up;
}

// Back while the first of the old ones drains: what drains already is made anew.
std::string rollback(FakeCluster& cluster, FakeOperator& op) {
  const bool half = op.run_until(
      cluster_of("relay:v2"),
      [&] {
        const auto replicas = cluster.list_replicas();
        return std::any_of(
            replicas.value().begin(), replicas.value().end(),
            [](const ObservedReplica& replica) { return replica.drain.has_value(); });
      },
      seconds(100));
  return half ? op.settle(cluster_of("relay:v1")) : "no replica was asked to drain";
}

std::string bad_image(FakeCluster& cluster, FakeOperator& op) {
  cluster.break_image("relay:broken");
  const bool named = op.run_until(
      cluster_of("relay:broken"),
      [&] {
        const auto status = cluster.read_status();
        if (!status) return false;
        for (const Condition& condition : status->conditions) {
          if (condition.message.find("no such image: relay:broken") != std::string::npos)
            return true;
        }
        return false;
      },
      seconds(30));
  if (!named) return "no condition named the cause within 30 s";
  if (cluster.running().size() != 3) return "not every old replica serves beside a bad image";
  return op.settle(cluster_of("relay:v2"));
}

// How the story goes with `fault` at call `at` (0: none); "" when all is well.
struct Outcome {
  std::string trouble;
  int calls = 0;
  std::uint64_t lost = 0;
  std::uint64_t refused = 0;
  std::uint64_t opened = 0;
};

Outcome tell(const Story& story, int at, Fault fault, Lies lies = {}) {
  FakeCluster cluster(kSeed, lies);
  FakeOperator op(cluster);
  Outcome outcome;
  outcome.trouble = op.settle(cluster_of("relay:v1"));
  if (!outcome.trouble.empty()) return outcome;
  cluster.inject(at, fault);
  outcome.trouble = story(cluster, op);
  outcome.calls = cluster.calls();
  outcome.lost = cluster.lost();
  outcome.refused = cluster.refused();
  outcome.opened = cluster.opened();
  const bool is_kill = fault != Fault::kErrorBefore && fault != Fault::kErrorAfter;
  if (outcome.trouble.empty() && at > 0 && op.kills() != (is_kill ? 1 : 0)) {
    outcome.trouble = "the fault did not happen";
  }
  return outcome;
}

struct Case {
  const char* name;
  Story story;
};

class KillTest : public ::testing::TestWithParam<Case> {};

TEST_P(KillTest, AtEveryCallNothingIsLostAndTheStoryEndsAsItShould) {
  const Outcome plain = tell(GetParam().story, 0, Fault::kKillAfter);
  ASSERT_EQ(plain.trouble, "");
  ASSERT_GT(plain.calls, 20);
  ASSERT_GT(plain.opened, 30u);
  ASSERT_EQ(plain.lost, 0u);
  ASSERT_EQ(plain.refused, 0u);
  int told = 0;
  for (const Fault fault : kFaults) {
    for (int at = 1; at <= plain.calls; ++at, ++told) {
      const Outcome outcome = tell(GetParam().story, at, fault);
      const std::string where = std::string(to_string(fault)) + " call " + std::to_string(at);
      EXPECT_EQ(outcome.trouble, "") << where;
      EXPECT_EQ(outcome.lost, 0u) << where;
      EXPECT_EQ(outcome.refused, 0u) << where;
      if (HasFailure()) return;
    }
  }
  std::cout << GetParam().name << ": " << plain.calls << " calls, " << told
            << " faults, none lost a visit\n";
}

INSTANTIATE_TEST_SUITE_P(Stories, KillTest,
                         ::testing::Values(Case{"Rollout", rollout}, Case{"ScaleUpAndDown", scale},
                                           Case{"Rollback", rollback},
                                           Case{"BadImageFixed", bad_image}),
                         [](const auto& story) { return story.param.name; });

// --- the counters can count ---

TEST(KillTestCounters, VisitsAreLostWhenDrainedIsALie) {
  Lies lies;
  lies.drained_at_once = true;
  const Outcome outcome = tell(rollout, 0, Fault::kKillAfter, lies);
  EXPECT_EQ(outcome.trouble, "");
  EXPECT_GT(outcome.lost, 0u);
}

TEST(KillTestCounters, VisitsAreLostWhenAReplicaIsDeletedWithoutADrain) {
  FakeCluster cluster(kSeed);
  FakeOperator op(cluster);
  ASSERT_EQ(op.settle(cluster_of("relay:v1")), "");
  op.run_until(
      cluster_of("relay:v1"), [] { return false; }, seconds(2));
  const ObservedReplica victim = cluster.list_replicas().value().front();
  ASSERT_GT(victim.sample->visits, 0u);
  ASSERT_FALSE(cluster.remove(victim.name, victim.uid));
  EXPECT_EQ(op.settle(cluster_of("relay:v1")), "");
  EXPECT_GT(cluster.lost(), 0u);
}

TEST(KillTestCounters, VisitorsAreTurnedAwayWhenANewOperatorTakesUnknownForUnready) {
  Lies lies;
  lies.starts_as_unready = true;
  std::uint64_t refused = 0;
  for (int at = 1; at <= 20; ++at) refused += tell(rollout, at, Fault::kKillAfter, lies).refused;
  EXPECT_GT(refused, 0u);
}

TEST(KillTestCounters, ACrashIsNotTheOperatorsLossAndIsReplaced) {
  FakeCluster cluster(kSeed);
  FakeOperator op(cluster);
  ASSERT_EQ(op.settle(cluster_of("relay:v1")), "");
  op.run_until(
      cluster_of("relay:v1"), [] { return false; }, seconds(2));
  const std::string victim = cluster.running().front();
  cluster.crash(victim);
  EXPECT_EQ(op.settle(cluster_of("relay:v1")), "");
  EXPECT_GT(cluster.crashed(), 0u);
  EXPECT_EQ(cluster.lost(), 0u);
  EXPECT_EQ(cluster.running().size(), 3u);
}

}  // namespace
}  // namespace fairlead::op::testing
