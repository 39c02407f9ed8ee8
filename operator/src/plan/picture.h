// The observed cluster with every replica assessed: what the parts of the planner work on.
#pragma once

#include <string>
#include <vector>

#include "plan/assess.h"
#include "plan/plan.h"

namespace fairlead::op {

struct PlannedReplica {
  const ObservedReplica* facts = nullptr;
  Assessment assessment;
  bool updated = false;  // of the update revision
  bool ever_active = false;
  bool serving = false;    // state kActive
  bool available = false;  // serving for long enough
  bool fresh = false;      // has_fresh_sample()
  bool taken = false;      // this plan deletes it or asks it to drain

  ReplicaState state() const { return assessment.state; }
  bool is(ReplicaState s) const { return assessment.state == s; }
  // Neither draining nor going away: what the budget of creates counts.
  bool live() const;
  bool ended() const { return facts->process == ProcessState::kEnded; }
};

struct Picture {
  const RelayCluster& cluster;
  const Observed& observed;
  std::string update_intent;
  std::string update_revision;
  // What replicas are made from while a rollout is held back: the revision that served last. The
  // update revision itself when there is no other.
  std::string fallback_revision;
  std::vector<PlannedReplica> replicas;  // by name

  // Why new replicas of the update revision cannot be relied on; "" when they can. A rollout is
  // frozen meanwhile.
  std::string freeze_reason;
  std::string freeze_message;

  bool frozen() const { return !freeze_reason.empty(); }
  // Whether replicas of another revision than the update's are to be left alone.
  bool held_back() const {
    return (frozen() || cluster.spec.rollout.paused) && fallback_revision != update_revision;
  }
};

Picture make_picture(const RelayCluster& cluster, const Observed& observed);

// Set by the rollout for the report.
struct RolloutNotes {
  bool waits_for_drain = false;  // a rollout drain is due and the budget is full
};

// The parts of make_plan(), each appending its steps. The order of the calls is the order in which
// the steps are applied.
// Returns the epoch of the list that is in force once the steps are applied.
std::uint64_t plan_membership(const Picture& picture, std::vector<Step>& steps);
void plan_endpoints_and_gates(const Picture& picture, std::vector<Step>& steps);
RolloutNotes plan_rollout(Picture& picture, std::vector<Step>& steps);
void plan_drains(const Picture& picture, std::uint64_t epoch, std::vector<Step>& steps);
ClusterStatus make_status(const Picture& picture, const RolloutNotes& notes);
std::vector<Event> transition_events(const std::optional<ClusterStatus>& before,
                                     const ClusterStatus& after);

// A sentence for each fault of the mesh among the replicas that should form it; "" when whole.
std::string mesh_fault(const Picture& picture);

}  // namespace fairlead::op
