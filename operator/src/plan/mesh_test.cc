// Membership, gates and endpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/plan.h"
#include "plan/testing.h"

namespace fairlead::op {
namespace {

using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kNow;
using ::testing::Not;
using testing::Scene;
using ::testing::StartsWith;

const Membership* persisted(const Plan& plan) {
  for (const Step& step : plan.steps) {
    if (const auto* found = std::get_if<PersistMembership>(&step.action)) return &found->membership;
  }
  return nullptr;
}

TEST(Membership, DigestIsThatOfTheSerialisedMembers) {
  // protoc --encode of {members {uid:"b" name:"n" peer_address:"h:1" state:ACTIVE} ...}, sorted.
  const std::vector<Member> members = {{"b", "n", "h:1", MemberState::kActive},
                                       {"a", "m", "h:2", MemberState::kJoining}};
  EXPECT_EQ(membership_digest(members),
            "a25d72e00e76a84035c1016019df79ddc33362dda057552b206e3fb2e3397368");
  EXPECT_EQ(membership_digest({members[1], members[0]}), membership_digest(members));
  EXPECT_EQ(membership_digest({}),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Membership, SettledListIsLeftAlone) {
  EXPECT_THAT(Scene("A0 active; A1 active; A2 active").mesh_steps(), IsEmpty());
}

TEST(Membership, ANewLeaderRaisesTheEpochOnceBeforeItsFirstPush) {
  Scene scene("A0 active; A1 active");
  scene.observed.membership.epoch = 7;
  scene.at("A0").sample->epoch = scene.at("A1").sample->epoch = 7;
  scene.observed.epoch_raised = false;
  EXPECT_THAT(scene.mesh_steps(),
              ElementsAre("PersistMembership 8", "PushMembership A-0-1", "PushMembership A-1-1"));
  scene.observed.epoch_raised = true;
  EXPECT_THAT(scene.mesh_steps(), IsEmpty());
}

TEST(Membership, AHigherEpochOfAReplicaIsTopped) {
  Scene scene("A0 active; A1 active");
  scene.at("A1").sample->epoch = 41;
  scene.at("A1").sample->age = seconds(60);  // an old answer counts: epochs never fall
  EXPECT_THAT(scene.mesh_steps(), ElementsAre("PersistMembership 42", "PushMembership A-0-1"));
}

TEST(Membership, AnEqualEpochWithAnotherDigestIsReportedThenReplaced) {
  Scene scene("A0 active; A1 active; A2 active");
  scene.at("A1").sample->digest = "other";
  scene.observed.membership_written_at = kNow - seconds(29);
  EXPECT_THAT(scene.mesh_steps(), IsEmpty());
  EXPECT_THAT(scene.condition("MeshReady"),
              StartsWith("False PeerListConflict: A-1-1 holds another list"));
  EXPECT_THAT(scene.event_reasons(), Contains("PeerListConflict"));
  scene.observed.membership_written_at = kNow - seconds(30);
  EXPECT_THAT(scene.mesh_steps(), Contains(StartsWith("PersistMembership")));
}

TEST(Membership, AnOldListIsPushedAgainToWhomAnswers) {
  Scene scene("A0 active; A1 active; A2 draining silent");
  for (const char* uid : {"A1", "A2"}) scene.at(uid).sample->epoch = 0;
  EXPECT_THAT(scene.mesh_steps(), ElementsAre("PushMembership A-1-1"));
  EXPECT_THAT(scene.condition("MeshReady"), HasSubstr("A-1-1 does not hold the present list"));
}

TEST(Membership, HoldsEveryRecordWithItsState) {
  Scene scene(
      "A0 active; A1 joining; A2 draining; A3 drained; A4 deleting; A5 starting; A6 unready");
  scene.observed.epoch_raised = false;
  const Plan plan = scene.plan();
  ASSERT_NE(persisted(plan), nullptr);
  std::vector<std::pair<std::string, MemberState>> members;
  for (const Member& member : persisted(plan)->members)
    members.push_back({member.uid, member.state});
  EXPECT_THAT(
      members,
      ElementsAre(std::pair("A0", MemberState::kActive), std::pair("A1", MemberState::kJoining),
                  std::pair("A2", MemberState::kDraining), std::pair("A3", MemberState::kLeaving),
                  std::pair("A4", MemberState::kLeaving), std::pair("A5", MemberState::kJoining),
                  std::pair("A6", MemberState::kJoining)));
}

TEST(Membership, AReplicaWithoutAddressIsNotListedYet) {
  Scene scene("A0 active; A1 creating");
  scene.at("A1").peer_address.clear();
  scene.observed.epoch_raised = false;
  const Plan plan = scene.plan();
  EXPECT_EQ(persisted(plan)->members.size(), 1u);
}

TEST(Membership, AChangedAddressRaisesTheEpoch) {
  Scene scene("A0 active; A1 active");
  scene.at("A1").peer_address = "127.0.0.77:7001";
  EXPECT_THAT(scene.mesh_steps(), Contains("PersistMembership 2"));
}

TEST(Membership, IsPersistedBeforeAnyPushAndDrain) {
  const Scene scene("A0 drainrequested; A1 active; A2 active; B0 active", "B");
  Scene moved = scene;
  moved.at("A1").peer_address = "127.0.0.77:7001";
  const Plan plan = moved.plan();
  EXPECT_TRUE(std::holds_alternative<PersistMembership>(plan.steps.front().action));
  const auto& order = std::get<SendDrain>(plan.steps.back().action).order;
  EXPECT_EQ(order.epoch, persisted(plan)->epoch);
}

// --- gate ---

TEST(MeshGate, OpensAtOnceWithoutPeers) {
  EXPECT_THAT(Scene("A0 joining").mesh_steps(), ElementsAre("OpenGate A-0-1"));
}

TEST(MeshGate, OpensWhenLinksStandBothWays) {
  EXPECT_THAT(Scene("A0 active; A1 active; A2 joining").mesh_steps(), IsEmpty());
  EXPECT_THAT(Scene("A0 active; A1 active; A2 joining linked").mesh_steps(),
              ElementsAre("OpenGate A-2-1"));
  Scene one_way("A0 active; A1 active; A2 joining linked");
  one_way.at("A1").sample->peers.clear();
  EXPECT_THAT(one_way.mesh_steps(), IsEmpty());
}

TEST(MeshGate, WaitsForOtherHealthyJoiners) {
  EXPECT_THAT(Scene("A0 active; A1 joining; A2 joining linked").mesh_steps(), IsEmpty());
  EXPECT_THAT(Scene("A0 active; A1 joining linked; A2 joining linked").mesh_steps(),
              ElementsAre("OpenGate A-1-1", "OpenGate A-2-1"));
}

TEST(MeshGate, DoesNotWaitForDrainingNorUnhealthyOnes) {
  EXPECT_THAT(Scene("A0 active; A1 draining silent; A2 starting; A3 joining linked").mesh_steps(),
              ElementsAre("OpenGate A-3-1"));
}

TEST(MeshGate, WaitsForASilentActiveOneUnlessTheOthersReportItDead) {
  Scene scene("A0 active; A1 active silent; A2 joining linked");
  for (const char* uid : {"A0", "A2"}) scene.at(uid).sample->peers.push_back({"A1", 4, 4});
  EXPECT_THAT(scene.mesh_steps(), IsEmpty());
  scene.at("A0").sample->peers.pop_back();
  EXPECT_THAT(scene.mesh_steps(), ElementsAre("OpenGate A-2-1"));
}

TEST(MeshGate, TheJoinerHasNoVoteOnWhoIsDead) {
  Scene scene("A0 active silent; A1 joining linked");
  EXPECT_THAT(scene.mesh_steps(), IsEmpty());
}

TEST(MeshGate, NeedsThePresentList) {
  Scene scene("A0 active; A1 active; A2 joining linked");
  scene.at("A2").sample->epoch = 0;
  EXPECT_THAT(scene.mesh_steps(), ElementsAre("PushMembership A-2-1"));
}

TEST(MeshGate, ClosesForADrain) {
  Scene scene("A0 drainrequested; A1 active; B0 active", "B", 2);
  scene.at("A0").mesh_gate = true;
  EXPECT_THAT(scene.mesh_steps(), ElementsAre("CloseGate A-0-1"));
}

TEST(MeshGate, FencesOneThatMostReportDead) {
  Scene scene("A0 active; A1 active; A2 active silent");
  EXPECT_THAT(scene.mesh_steps(), ElementsAre("CloseGate A-2-1"));
  EXPECT_THAT(scene.event_reasons(), Contains("ReplicaFenced"));
  // Half of the voters is not most of them.
  scene.at("A0").sample->peers.push_back({"A2", 1, 4});
  EXPECT_THAT(scene.mesh_steps(), IsEmpty());
}

TEST(MeshGate, NeverFencesHalfOfTheReplicas) {
  EXPECT_THAT(Scene("A0 active; A1 active silent", "A", 2).mesh_steps(), IsEmpty());
  EXPECT_THAT(Scene("A0 active; A1 active silent; A2 active silent").mesh_steps(),
              ElementsAre("CloseGate A-1-1"));
}

TEST(MeshGate, AFencedOneComesBackWithItsLinks) {
  Scene scene("A0 active; A1 active; A2 active");
  scene.at("A2").mesh_gate = false;
  scene.settle();
  EXPECT_THAT(scene.mesh_steps(), ElementsAre("OpenGate A-2-1"));
  EXPECT_THAT(scene.steps(), IsEmpty());
}

// --- endpoints and report ---

TEST(Endpoints, HoldWhoServes) {
  Scene scene("A0 active; A1 settling; A2 joining; A3 unready; A4 draining; A5 deleting");
  scene.observed.endpoints.clear();
  EXPECT_THAT(scene.mesh_steps(), Contains("UpdateEndpoints A0 A1"));
}

TEST(Endpoints, LoseADrainingOneBeforeItsDrainIsOrdered) {
  Scene scene("A0 drainrequested; A1 active; B0 active", "B", 2);
  scene.observed.endpoints = {"A0", "A1", "B0"};
  const Plan plan = scene.plan();
  std::vector<std::string> order;
  for (const Step& step : plan.steps) order.push_back(Scene::with_letters(to_string(step.action)));
  EXPECT_THAT(order, ElementsAre("UpdateEndpoints A1 B0", "Create B-1-1", "SendDrain A-0-1"));
}

TEST(MeshReady, NamesHalfPoolsAndGhosts) {
  Scene scene("A0 active; A1 active; A2 active");
  EXPECT_EQ(scene.condition("MeshReady"), "True AllLinksUp");
  for (PeerSample& peer : scene.at("A0").sample->peers) {
    if (peer.uid == "A1") peer.links_up = 2;
  }
  scene.at("A2").sample->peers.push_back({"ghost", 4, 4});
  EXPECT_EQ(scene.condition("MeshReady"),
            "False LinksMissing: A-0-1 misses links to A-1-1; A-2-1 has links to ghost, no member");
}

}  // namespace
}  // namespace fairlead::op
