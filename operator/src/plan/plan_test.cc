#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/assess.h"
#include "plan/testing.h"

namespace fairlead::op {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kNow;
using ::testing::Not;
using testing::Scene;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// --- one row a rule: what is observed, what is asked for, what is done about it ---

struct Row {
  const char* rule;
  const char* replicas;
  const char* revision;
  int wanted;
  std::vector<std::string> steps;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.rule;
}

class PlanTable : public ::testing::TestWithParam<Row> {};

TEST_P(PlanTable, Holds) {
  const Row& row = GetParam();
  const Scene scene(row.replicas, row.revision, row.wanted);
  EXPECT_THAT(scene.steps(), ::testing::ElementsAreArray(row.steps));
}

std::string rule_name(const ::testing::TestParamInfo<Row>& info) {
  return info.param.rule;
}

INSTANTIATE_TEST_SUITE_P(
    Create, PlanTable,
    ::testing::Values(
        Row{"SettledClusterIsLeftAlone", "A0 active; A1 active; A2 active", "A", 3, {}},
        Row{"NewClusterStoresItsConfigurationFirst",
            "",
            "A",
            3,
            {"PutRevision A", "Create A-0-1", "Create A-1-1", "Create A-2-1"}},
        Row{"ZeroReplicasCreateNothing", "", "A", 0, {}},
        Row{"ScaleUpTakesFreeSlots",
            "A0 active; A2 active",
            "A",
            4,
            {"Create A-1-1", "Create A-3-1"}},
        Row{"RolloutSurgesByMaxSurge",
            "A0 active; A1 active; A2 active",
            "B",
            3,
            {"PutRevision B", "Create B-0-1"}},
        Row{"NoSecondSurgeWhileTheFirstStarts",
            "A0 active; A1 active; A2 active; B0 starting",
            "B",
            3,
            {}},
        Row{"DrainingDoesNotCountAgainstTheSurge",
            "A0 draining; A1 active; A2 active; B0 active",
            "B",
            3,
            {"Create B-1-1"}},
        Row{"TerminatingDoesNotCountAgainstTheSurge",
            "A0 deleting; A1 active; A2 active; B0 active",
            "B",
            3,
            {"Create B-1-1"}},
        Row{"DeletedFromOutsideIsReplacedAtOnce",
            "A0 deleting; A1 active; A2 active",
            "A",
            3,
            {"Create A-3-1"}},
        Row{"ScaleUpDuringRolloutUsesTheUpdateRevision",
            "A0 active; A1 active; A2 active; B0 starting",
            "B",
            5,
            {"Create B-1-1", "Create B-2-1"}},
        Row{"BackToARevisionThatStillDrainsTakesANewSlot",
            "A0 draining; A1 active; A2 active; B0 active",
            "A",
            3,
            {"Create A-3-1"}}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Drain, PlanTable,
    ::testing::Values(
        Row{"OldOneDrainsOnceItsReplacementIsAvailable",
            "A0 active visits=1; A1 active visits=2; A2 active visits=3; B0 active",
            "B",
            3,
            {"RequestDrain A-0-1 rollout"}},
        Row{"NotBeforeMinReadySeconds", "A0 active; A1 active; A2 active; B0 settling", "B", 3, {}},
        Row{"NotBeforeItJoinedTheMesh", "A0 active; A1 active; A2 active; B0 joining", "B", 3, {}},
        Row{"OneReplicaSurgesFirst", "A0 active", "B", 1, {"PutRevision B", "Create B-0-1"}},
        Row{"OneReplicaDrainsAfterItsReplacement",
            "A0 active; B0 active",
            "B",
            1,
            {"RequestDrain A-0-1 rollout"}},
        Row{"IntentComesBeforeTheCall",
            "A0 drainrequested; A1 active; A2 active; B0 active",
            "B",
            3,
            {"Create B-1-1", "SendDrain A-0-1"}},
        Row{"CallIsNotRepeatedOnceConfirmed",
            "A0 draining; A1 active; A2 active; B0 active; B1 starting",
            "B",
            3,
            {}},
        Row{"SilentReplicaIsUnknownNotEmpty",
            "A0 drained silent; A1 active; A2 active; B0 active; B1 starting",
            "B",
            3,
            {}},
        Row{"SilentReplicaGetsNoCall",
            "A0 drainrequested silent; A1 active; A2 active; B0 active; B1 starting",
            "B",
            3,
            {}},
        Row{"PastItsDeadlineASilentReplicaStays",
            "A0 draining silent deadline=-900; B0 active; B1 active; B2 active",
            "B",
            3,
            {}},
        Row{"PastItsDeadlineTheRelayDecides",
            "A0 draining deadline=-900; B0 active; B1 active; B2 active",
            "B",
            3,
            {}},
        Row{"DrainedIsDeleted",
            "A0 drained; B0 active; B1 active; B2 active",
            "B",
            3,
            {"Delete A-0-1"}},
        Row{"ForcedIsDeleted",
            "A0 forced; B0 active; B1 active; B2 active",
            "B",
            3,
            {"Delete A-0-1"}},
        Row{"EndedDuringItsDrainIsDeleted",
            "A0 draining crashed; B0 active; B1 active; B2 active",
            "B",
            3,
            {"Delete A-0-1"}},
        Row{"DeletingIsWaitedFor", "A0 deleting; B0 active; B1 active; B2 active", "B", 3, {}},
        Row{"DrainNowShortens",
            "A0 draining drainnow; B0 active; B1 active; B2 active",
            "B",
            3,
            {"SendDrain A-0-1"}},
        Row{"UnreadyOldOneIsStillDrained",
            "A0 unready unreadyfor=60; A1 active; A2 active; B0 starting",
            "B",
            3,
            {"RequestDrain A-0-1 rollout"}},
        Row{"AMomentOfUnreadinessIsNoReason",
            "A0 unready unreadyfor=2; A1 active; A2 active; B0 starting",
            "B",
            3,
            {}}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    ScaleDown, PlanTable,
    ::testing::Values(
        Row{"FewestVisitsThenYoungest",
            "A0 active visits=9; A1 active visits=2 old=50; A2 active visits=2 old=40; A3 active",
            "A",
            1,
            {"RequestDrain A-3-1 scale-down", "RequestDrain A-2-1 scale-down",
             "RequestDrain A-1-1 scale-down"}},
        Row{"NotReadyBeforeReadyButNeverWithoutADrain",
            "A0 active; A1 unready visits=5; A2 active",
            "A",
            2,
            {"RequestDrain A-1-1 scale-down"}},
        Row{"NeverActiveGoesWithoutADrain",
            "A0 active; A1 starting; A2 active",
            "A",
            2,
            {"Delete A-1-1"}},
        Row{"FailingFirst",
            "A0 active; A1 failing=ImagePullFailed; A2 starting; A3 active",
            "A",
            3,
            {"Delete A-1-1"}},
        Row{"OnADrainingNodeThenCrowdedNode",
            "A0 active node=x visits=1; A1 active node=x visits=2; A2 active node=y nodedrain "
            "visits=9; A3 active node=z",
            "A",
            2,
            {"RequestDrain A-2-1 scale-down", "RequestDrain A-0-1 scale-down"}},
        Row{"OldRevisionBeforeNew",
            "A0 active visits=9; A1 active visits=8; B0 active; B1 active",
            "B",
            2,
            {"RequestDrain A-1-1 scale-down", "RequestDrain A-0-1 rollout"}},
        Row{"ToZeroDrainsAll",
            "A0 active; A1 active",
            "A",
            0,
            {"RequestDrain A-0-1 scale-down", "RequestDrain A-1-1 scale-down"}},
        Row{"ToZeroDuringARollout",
            "A0 active; B0 active; B1 starting",
            "B",
            0,
            {"Delete B-1-1", "RequestDrain A-0-1 scale-down", "RequestDrain B-0-1 scale-down"}},
        Row{"NotBoundedByMaxDraining",
            "A0 draining; A1 draining; A2 draining; A3 active; A4 active",
            "A",
            1,
            {"RequestDrain A-3-1 scale-down"}},
        Row{"DrainingOnesAreNotCountedAgain", "A0 active; A1 draining; A2 draining", "A", 1, {}},
        Row{"CancelsAPendingSurge",
            "A0 active; A1 active; A2 active; B0 starting",
            "B",
            2,
            {"Delete B-0-1", "RequestDrain A-0-1 rollout"}}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(
    Failing, PlanTable,
    ::testing::Values(
        Row{"AFailingNewOneFreezesTheRollout",
            "A0 active; A1 active; A2 active; B0 failing=ImagePullFailed",
            "B",
            3,
            {}},
        Row{"EvenWhenAnotherOneIsReady",
            "A0 active; A1 active; B0 active; B1 failing=ImagePullFailed",
            "B",
            3,
            {}},
        Row{"ALateNewOneFreezesTheRollout",
            "A0 active; A1 active; A2 active; B0 starting overdue",
            "B",
            3,
            {}},
        Row{"ACrashedOneIsTriedAgainAfterAPause",
            "A0 active; A1 active; A2 active; B0 crashed endedfor=10",
            "B",
            3,
            {"Delete B-0-1", "Create B-0-2"}},
        Row{"NotBeforeThePause",
            "A0 active; A1 active; A2 active; B0 crashed endedfor=9",
            "B",
            3,
            {}},
        Row{"ThePauseDoubles",
            "A0 active; A1 active; A2 active; B0.2 crashed endedfor=19",
            "B",
            3,
            {}},
        Row{"TheFixIsAppliedToFailingOnesFirst",
            "A0 active; A1 active; A2 active; B0 failing=ImagePullFailed",
            "C",
            3,
            {"Delete B-0-1", "PutRevision C", "Create C-0-1"}},
        Row{"NeverTheMiddleRevision",
            "A0 active; A1 active; A2 active; B0 starting",
            "C",
            3,
            {"Delete B-0-1", "PutRevision C", "Create C-0-1"}},
        Row{"RollbackOfAFailingRolloutDrainsNobody",
            "A0 active; A1 active; A2 active; B0 failing=ImagePullFailed",
            "A",
            3,
            {"Delete B-0-1"}},
        Row{"RollbackMidWayDrainsNeverMassDeletes",
            "A0 draining; A1 draining; A2 active; B0 active; B1 active",
            "A",
            3,
            {"Create A-3-1"}},
        Row{"RollbackDrainsWhenTheReplacementIsThere",
            "A0 draining; A1 draining; A2 active; B0 active visits=1; B1 active; A3 active",
            "A",
            3,
            {"RequestDrain B-1-1 rollout"}},
        Row{"HealingDuringAFreezeUsesTheRevisionThatWorks",
            "A0 active; A1 active; B0 failing=ImagePullFailed",
            "B",
            3,
            {"Create A-2-1"}},
        Row{"HealingDuringAFreezeMakesRoom",
            "A0 active; A1 active; B0 failing=ImagePullFailed; B1 failing=ImagePullFailed",
            "B",
            3,
            {"Delete B-0-1"}},
        Row{"WhatHealsTheFreezeIsKept",
            "A0 active; A1 active; A2 starting; B0 failing=ImagePullFailed",
            "B",
            3,
            {}},
        Row{"AFirstRolloutThatFailsWaits",
            "A0 failing=ImagePullFailed; A1 starting; A2 starting",
            "A",
            3,
            {}}),
    rule_name);

INSTANTIATE_TEST_SUITE_P(Healing, PlanTable,
                         ::testing::Values(Row{"AKilledOneIsReplacedAtOnceInItsSlot",
                                               "A0 active; A1 killed; A2 active",
                                               "A",
                                               3,
                                               {"Delete A-1-1", "Create A-1-2"}},
                                           Row{"OneThatNeverStartedIsNoFailure",
                                               "A0 active; A1 notstarted; A2 active",
                                               "A",
                                               3,
                                               {"Delete A-1-1", "Create A-1-2"}},
                                           Row{"ALostNodeNeedsNoDrain",
                                               "A0 active; A1 nodelost; A2 active",
                                               "A",
                                               3,
                                               {"Delete A-1-1", "Create A-3-1"}}),
                         rule_name);

// --- rules that need more than a row ---

TEST(Plan, ARelayThatDrainsByItselfIsAdopted) {
  Scene scene("A0 active; A1 active; A2 active");
  scene.at("A1").sample->drain = {DrainPhase::kDraining, "SIGTERM", 4, 0, 0, seconds(5),
                                  seconds(30),           0};
  EXPECT_THAT(scene.steps(), ElementsAre("RequestDrain A-1-1 terminated", "Create A-3-1"));
  const Plan plan = scene.plan();
  for (const Step& step : plan.steps) {
    if (const auto* request = std::get_if<RequestDrain>(&step.action)) {
      EXPECT_EQ(request->intent.requested_at, kNow - seconds(5));
      EXPECT_EQ(request->intent.deadline, kNow + seconds(25));
    }
  }
  EXPECT_THAT(scene.mesh_steps(), Contains("UpdateEndpoints A0 A2"));
}

TEST(Plan, AConfigurationIsKeptUntilItsLastReplicaIsGone) {
  Scene scene("A0 active; A1 active; A2 deleting; B0 active", "A", 3);
  EXPECT_THAT(scene.steps(), Not(Contains(StartsWith("RemoveRevision"))));
  scene.observed.replicas.pop_back();
  EXPECT_THAT(scene.steps(), Contains("RemoveRevision B"));
  Scene gone("B0 active; B1 active; B2 active; A0 deleting", "B");
  EXPECT_THAT(gone.steps(), Not(Contains("RemoveRevision A")));
  gone.observed.replicas.pop_back();
  EXPECT_THAT(gone.steps(), ElementsAre("RemoveRevision A"));
}

TEST(Plan, DrainIntentAndOrderCarryTheDeadline) {
  Scene scene("A0 active; B0 active", "B", 1);
  scene.cluster.spec.drain.timeout = seconds(60);
  scene.cluster.spec.drain.endpoint_delay = seconds(7);
  Plan plan = scene.plan();
  const auto& request = std::get<RequestDrain>(plan.steps.at(0).action);
  EXPECT_EQ(request.intent, (DrainIntent{"rollout", kNow, kNow + seconds(60), false}));

  // A later pass, or another operator: the rest of the time, never the whole again.
  scene.at("A0").drain = request.intent;
  scene.settle();
  scene.observed.now += seconds(20);
  plan = scene.plan();
  const auto* order = std::get_if<SendDrain>(&plan.steps.back().action);
  ASSERT_NE(order, nullptr);
  EXPECT_EQ(order->order.deadline, seconds(40));
  EXPECT_EQ(order->order.endpoint_delay, seconds(7));
  EXPECT_EQ(order->order.epoch, scene.observed.membership.epoch);
  scene.observed.now += seconds(600);
  plan = scene.plan();
  EXPECT_EQ(std::get<SendDrain>(plan.steps.back().action).order.deadline, seconds(0));
}

TEST(Plan, ADrainToZeroIsFinal) {
  const Scene scene("A0 active", "A", 0);
  const Plan plan = scene.plan();
  EXPECT_TRUE(std::get<RequestDrain>(plan.steps.at(0).action).intent.final);
}

TEST(Plan, MaxDrainingHoldsBackTheRolloutAndIsNamed) {
  Scene scene("A0 draining; A1 active; A2 active; B0 active; B1 active", "B");
  scene.cluster.spec.drain.max_draining = 1;
  EXPECT_THAT(scene.steps(), IsEmpty());
  EXPECT_EQ(scene.condition("Progressing"),
            "True WaitingForDrain: A-0-1 drains until 2023-11-14T23:11:40Z at the latest");
  scene.cluster.spec.drain.max_draining = 2;
  EXPECT_THAT(scene.steps(), ElementsAre("RequestDrain A-1-1 rollout"));
}

TEST(Plan, TheFirstRolloutNeverWaitsForAVisitor) {
  // All old ones may drain at the same time: maxDraining 0 means as many as replicas.
  const Scene scene("A0 draining; A1 draining; A2 active; B0 active; B1 active; B2 active", "B");
  EXPECT_THAT(scene.steps(), ElementsAre("RequestDrain A-2-1 rollout"));
}

TEST(Plan, ASecondRolloutWaitsForTheDrainsOfTheFirst) {
  const Scene scene(
      "A0 draining; A1 draining; A2 draining; B0 active; B1 active; B2 active; C0 active", "C");
  EXPECT_THAT(scene.steps(), IsEmpty());
  EXPECT_THAT(scene.condition("Progressing"), StartsWith("True WaitingForDrain: A-0-1 drains"));
}

TEST(Plan, TwoRolloutsAtOnceReplaceBothOldRevisions) {
  const Scene scene("A0 draining; A1 active; A2 active; B0 active visits=1; C0 active", "C");
  EXPECT_THAT(scene.steps(), ElementsAre("RequestDrain A-1-1 rollout"));
}

TEST(Plan, WithoutSurgeOneGoesFirst) {
  Scene scene("A0 active; A1 active; A2 active", "B");
  scene.cluster.spec.rollout.max_surge = 0;
  scene.cluster.spec.rollout.max_unavailable = 1;
  EXPECT_THAT(scene.steps(), ElementsAre("RequestDrain A-0-1 rollout"));
  Scene next("A0 draining; A1 active; A2 active", "B");
  next.cluster.spec.rollout = scene.cluster.spec.rollout;
  EXPECT_THAT(next.steps(), ElementsAre("PutRevision B", "Create B-0-1"));
}

TEST(Plan, WithoutSurgeAFailingRolloutIsNotHealedForth) {
  // maxUnavailable allows the gap; healing it would delete the failing one and start over for ever.
  Scene scene("A1 active; A2 active; B0 failing=ImagePullFailed", "B");
  scene.cluster.spec.rollout.max_surge = 0;
  scene.cluster.spec.rollout.max_unavailable = 1;
  EXPECT_THAT(scene.steps(), IsEmpty());
}

TEST(Plan, PausedHoldsBackTheRolloutOnly) {
  Scene scene("A0 active; A1 active; A2 active", "B");
  scene.cluster.spec.rollout.paused = true;
  EXPECT_THAT(scene.steps(), IsEmpty());
  EXPECT_EQ(scene.condition("Progressing"), "False RolloutPaused: held back: A-0-1, A-1-1, A-2-1");
  EXPECT_EQ(scene.condition("Ready"), "False Paused");
  EXPECT_EQ(scene.condition("Paused"), "True PausedByUser");
  // Healing and scaling go on, with the revision that serves.
  scene.cluster.spec.replicas = 4;
  EXPECT_THAT(scene.steps(), ElementsAre("Create A-3-1"));
  scene.cluster.spec.replicas = 2;
  EXPECT_THAT(scene.steps(), ElementsAre("RequestDrain A-0-1 scale-down"));
  // So do running drains.
  Scene half("A0 drained; A1 active; A2 active; B0 active", "B");
  half.cluster.spec.rollout.paused = true;
  EXPECT_THAT(half.steps(), ElementsAre("Delete A-0-1"));
}

TEST(Plan, AMissingSecretIsAConfigErrorAndNothingIsCreated) {
  Scene scene("A0 active; A1 active; A2 active", "B");
  scene.observed.missing_secrets[Scene::revision("B")] = {"agents"};
  EXPECT_THAT(scene.steps(), IsEmpty());
  EXPECT_THAT(scene.condition("Progressing"),
              StartsWith("False ConfigError: missing Secret agents; the rollout is held back"));
  Scene fresh("", "A");
  fresh.observed.missing_secrets[Scene::revision("A")] = {"agents"};
  EXPECT_THAT(fresh.steps(), IsEmpty());
  // Old replicas are healed with what they were made from, if that is complete.
  scene.observed.replicas.pop_back();
  EXPECT_THAT(scene.steps(), ElementsAre("Create A-2-1"));
}

TEST(Plan, AFailureIsNamedAtOnceWithItsCause) {
  const Scene scene("A0 active; A1 active; A2 active; B0 failing=ImagePullFailed", "B");
  EXPECT_EQ(scene.condition("Progressing"),
            "False ImagePullFailed: B-0-1: no such image; the rollout is held back, A-0-1, A-1-1, "
            "A-2-1 not replaced");
  EXPECT_EQ(scene.condition("Available"), "True MinimumReplicasAvailable");
  EXPECT_THAT(Scene("A0 active; A1 active; A2 active; B0 crashed", "B").condition("Progressing"),
              StartsWith("False ContainerCrashing: B-0-1: exited 1"));
  EXPECT_THAT(
      Scene("A0 active; A1 active; A2 active; B0 starting overdue", "B").condition("Progressing"),
      StartsWith("False ProgressDeadlineExceeded: B-0-1: did not become healthy within 600 s"));
  EXPECT_THAT(
      Scene("A0 active; A1 active; A2 active; B0 joining overdue", "B").condition("Progressing"),
      StartsWith("False ProgressDeadlineExceeded: B-0-1: did not join the mesh within 600 s"));
}

TEST(Plan, AFailingOneThatRecoversJoins) {
  const Scene scene("A0 active; A1 active; A2 active; B0 joining linked overdue", "B");
  EXPECT_THAT(scene.mesh_steps(), ElementsAre("OpenGate B-0-1"));
}

TEST(Plan, OneThatReplacedACrashedOneMustStandLonger) {
  // An image that dies after a few seconds must not drain the old replicas one by one.
  Scene scene("A0 active; A1 active; A2 active; B0.3 active", "B");
  ObservedReplica& late = scene.at("B0.3");
  late.mesh_gate_since = kNow - seconds(19);
  EXPECT_THAT(scene.steps(), IsEmpty());
  late.mesh_gate_since = kNow - seconds(20);
  EXPECT_THAT(scene.steps(), ElementsAre("RequestDrain A-0-1 rollout"));
}

TEST(Plan, RetryPausesDoubleUpToFiveMinutes) {
  EXPECT_EQ(retry_pause(1), seconds(10));
  EXPECT_EQ(retry_pause(2), seconds(20));
  EXPECT_EQ(retry_pause(6), seconds(300));
  EXPECT_EQ(retry_pause(1000), seconds(300));
}

TEST(Plan, StatusIsOutputOnly) {
  for (const char* text :
       {"A0 active; A1 active; A2 active; B0 active", "A0 drained; A1 active; B0 joining",
        "A0 active; B0 failing=ImagePullFailed; A1 killed"}) {
    Scene scene(text, "B");
    const std::vector<std::string> without = scene.steps();
    scene.observed.previous_status = scene.plan().status;
    EXPECT_EQ(scene.steps(), without) << text;
    EXPECT_THAT(without, Not(IsEmpty())) << text;
  }
}

TEST(Plan, StatusCountsEachKind) {
  const Scene scene(
      "A0 active; A1 unready; A2 draining; A3 deleting; B0 settling; B1 starting; B2 joining", "B",
      4);
  const ClusterStatus status = scene.plan().status;
  EXPECT_EQ(status.replicas, 5);
  EXPECT_EQ(status.ready, 2);
  EXPECT_EQ(status.available, 1);
  EXPECT_EQ(status.updated, 3);
  EXPECT_EQ(status.draining, 1);
  EXPECT_EQ(status.terminating, 1);
  EXPECT_EQ(status.selector, "cluster=demo,role=serving");
  EXPECT_EQ(status.current_revision, Scene::revision("A"));
  EXPECT_EQ(status.update_revision, Scene::revision("B"));
  ASSERT_EQ(status.draining_replicas.size(), 1u);
  EXPECT_EQ(status.draining_replicas[0].visits_remaining, 3u);
  EXPECT_EQ(scene.condition("Available"), "False MinimumReplicasUnavailable");
  EXPECT_EQ(scene.condition("Ready"), "False InsufficientReplicas: 1 of 4 replicas are available");
}

TEST(Plan, VisitsOfADrainAreRoundedAndUnknownIsNotZero) {
  Scene scene("A0 draining; B0 active", "B", 1);
  scene.at("A0").sample->drain.visits = 12345;
  EXPECT_EQ(scene.plan().status.draining_replicas.at(0).visits_remaining, 12000u);
  scene.at("A0").sample->age = seconds(6);
  EXPECT_EQ(scene.plan().status.draining_replicas.at(0).visits_remaining, std::nullopt);
  EXPECT_THAT(scene.condition("Draining"), StartsWith("True DrainEndpointUnreachable: A-0-1"));
}

TEST(Plan, ConditionsNameEachKindOfWaiting) {
  const auto progressing = [](const char* text) {
    return Scene(text, "B").condition("Progressing");
  };
  EXPECT_EQ(progressing("A0 active; A1 active; A2 active; B0 creating"),
            "True WaitingForReady: B-0-1");
  EXPECT_EQ(progressing("A0 active; A1 active; A2 active; B0 joining"),
            "True WaitingForMesh: B-0-1");
  EXPECT_EQ(progressing("A0 active; A1 active; A2 active; B0 settling"),
            "True WaitingForMinReady: B-0-1");
  EXPECT_EQ(progressing("A0 active; A1 active; A2 active; B0 active"),
            "True ReplacingReplicas: to be replaced: A-0-1, A-1-1, A-2-1");
  EXPECT_EQ(progressing("B0 active; B1 active; B2 active"), "True NewRevisionAvailable");
}

TEST(Plan, EventsTellTransitionsOnce) {
  Scene scene("A0 active; A1 active; A2 active; B0 failing=ImagePullFailed", "B");
  EXPECT_THAT(scene.event_reasons(), UnorderedElementsAre("RolloutStarted", "RolloutFrozen"));
  scene.observed.previous_status = scene.plan().status;
  EXPECT_THAT(scene.event_reasons(), IsEmpty());
  Scene fixed("A0 active; A1 active; A2 active; B0 failing=ImagePullFailed", "A");
  fixed.observed.previous_status = scene.observed.previous_status;
  EXPECT_THAT(fixed.event_reasons(),
              ElementsAre("ReplicaDeleted", "RolloutStarted", "RolloutResumed"));
  fixed.observed.previous_status = fixed.plan().status;
  fixed.observed.replicas.pop_back();
  EXPECT_THAT(fixed.event_reasons(), ElementsAre("RolloutCompleted"));
}

TEST(Plan, AForcedDrainTellsWhatWasLost) {
  const Scene scene("A0 forced lost=7; B0 active", "B", 1);
  const Plan plan = scene.plan();
  const Event& event = plan.steps.at(0).event.value();
  EXPECT_EQ(event.reason, "DrainForced");
  EXPECT_EQ(event.type, Event::Type::kWarning);
  EXPECT_THAT(event.text, HasSubstr("7 visits were reset"));
}

TEST(Plan, AtMostOneRiskyStepAReplica) {
  // Every combination of three states: no replica is touched twice, and no step deletes one that
  // may hold visits.
  const std::vector<std::string> states = {"creating",        "starting",
                                           "joining",         "active",
                                           "settling",        "unready unreadyfor=99",
                                           "failing=X",       "crashed endedfor=99",
                                           "killed",          "notstarted",
                                           "drainrequested",  "draining drainnow",
                                           "drained",         "forced",
                                           "deleting",        "nodelost",
                                           "starting overdue"};
  int checked = 0;
  for (const std::string& a : states) {
    for (const std::string& b : states) {
      for (const std::string& c : states) {
        for (const char* revision : {"A", "B", "C"}) {
          const Scene scene("A0 " + a + "; A1 " + b + "; B0 " + c, revision, 2);
          std::map<std::string, int> touched;
          const Plan plan = scene.plan();
          for (const Step& step : plan.steps) {
            if (const auto* request = std::get_if<RequestDrain>(&step.action)) {
              ++touched[request->uid];
            } else if (const auto* order = std::get_if<SendDrain>(&step.action)) {
              ++touched[order->uid];
            } else if (const auto* gone = std::get_if<DeleteReplica>(&step.action)) {
              ++touched[gone->uid];
              const std::string& state = gone->uid == "A0" ? a : gone->uid == "A1" ? b : c;
              for (const char* holds : {"active", "settling", "unready", "drainreq", "draining"}) {
                ASSERT_THAT(state, Not(StartsWith(holds))) << to_string(step.action);
              }
            }
          }
          for (const auto& [uid, times] : touched) ASSERT_EQ(times, 1) << uid << a << b << c;
          ++checked;
        }
      }
    }
  }
  EXPECT_EQ(checked, 17 * 17 * 17 * 3);
}

TEST(Plan, WakesForWhatTimeAloneChanges) {
  const auto wake = [](const char* text) { return Scene(text, "A").plan().wake_up; };
  EXPECT_EQ(wake("A0 active; A1 active; A2 active"), seconds(5));
  EXPECT_EQ(wake("A0 active; A1 active; A2 starting"), std::chrono::milliseconds(500));
  Scene scene("A0 active; A1 active; A2 settling");
  scene.at("A2").mesh_gate_since = kNow - std::chrono::milliseconds(4900);
  EXPECT_EQ(scene.plan().wake_up, std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace fairlead::op
