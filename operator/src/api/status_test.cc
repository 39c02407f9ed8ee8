#include "api/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fairlead::op {
namespace {

WallTime at(int seconds) {
  return WallTime(std::chrono::seconds(1700000000 + seconds));
}

ClusterStatus sample() {
  ClusterStatus status;
  status.observed_generation = 4;
  status.replicas = 4;
  status.ready = 3;
  status.available = 2;
  status.updated = 1;
  status.draining = 1;
  status.terminating = 5;
  status.selector = "cluster=demo,role=serving";
  status.current_revision = "11111111";
  status.update_revision = "deadbeef";
  status.pod_template_version = 1;
  status.mesh_epoch = 9;
  status.draining_replicas = {{"demo-1", "rollout", 12, at(0), at(3600)},
                              {"demo-2", "scale-down", std::nullopt, at(1), at(3601)}};
  status.conditions = {
      {"Available", ConditionStatus::kTrue, "MinimumReplicasAvailable", "", at(0), 4},
      {"Ready", ConditionStatus::kFalse, "RolloutInProgress", "waits: \"demo-3\"\n# not a comment",
       at(5), 4}};
  return status;
}

TEST(Status, BothRenderingsReadBack) {
  for (const std::string& text : {render_status_yaml(sample()), render_status_json(sample())}) {
    const auto read = parse_status(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(render_status_json(*read), render_status_json(sample()));
  }
}

TEST(Status, YamlUsesTheFieldNamesOfTheResource) {
  const std::string text = render_status_yaml(sample());
  EXPECT_THAT(text, ::testing::HasSubstr("readyReplicas: 3\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("- pod: \"demo-1\"\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("startedAt: \"2023-11-14T22:13:20Z\""));
  EXPECT_THAT(text, ::testing::HasSubstr("updateRevision: \"deadbeef\""));
}

TEST(Status, WhatIsNoStatusIsNotRead) {
  EXPECT_FALSE(parse_status("["));
  EXPECT_FALSE(parse_status(""));
  EXPECT_TRUE(parse_status("{replicas: -3, conditions: 7}"));
  EXPECT_EQ(parse_status("{replicas: -3}")->replicas, 0);
}

TEST(Status, TransitionTimesStayWhileTheStatusStays) {
  ClusterStatus next = sample();
  next.conditions[0].reason = "Other";
  next.conditions[1].status = ConditionStatus::kTrue;
  settle_conditions(sample(), at(50), next);
  EXPECT_EQ(next.conditions[0].last_transition, at(0));
  EXPECT_EQ(next.conditions[1].last_transition, at(50));
  settle_conditions(std::nullopt, at(60), next);
  EXPECT_EQ(next.conditions[0].last_transition, at(60));
}

TEST(Status, OnlyTransitionTimesHaveNoMeaning) {
  ClusterStatus other = sample();
  other.conditions[0].last_transition = at(999);
  EXPECT_TRUE(same_meaning(sample(), other));
  other.conditions[0].message = "x";
  EXPECT_FALSE(same_meaning(sample(), other));
  other = sample();
  other.draining_replicas[0].visits_remaining = 11;
  EXPECT_FALSE(same_meaning(sample(), other));
}

TEST(Time, FormsAndReadsRfc3339) {
  EXPECT_EQ(format_time(at(0)), "2023-11-14T22:13:20Z");
  EXPECT_EQ(parse_time("2023-11-14T22:13:20Z"), at(0));
  EXPECT_FALSE(parse_time("yesterday"));
  EXPECT_FALSE(parse_time("2023-11-14T22:13:20Zx"));
}

}  // namespace
}  // namespace fairlead::op
