#include "plan/assess.h"

#include <algorithm>

namespace fairlead::op {
namespace {

Assessment failing(std::string cause, std::string detail) {
  return {ReplicaState::kFailing, std::move(cause), std::move(detail)};
}

// The state that the relay itself reports, when that is known.
ReplicaState drain_state(const ObservedReplica& replica) {
  if (!has_fresh_sample(replica)) return ReplicaState::kDrainRequested;
  switch (replica.sample->drain.phase) {
    case DrainPhase::kNone:
      return ReplicaState::kDrainRequested;
    case DrainPhase::kDelay:
    case DrainPhase::kDraining:
      return ReplicaState::kDraining;
    case DrainPhase::kDrained:
      return ReplicaState::kDrained;
    case DrainPhase::kForced:
      return ReplicaState::kForced;
  }
  return ReplicaState::kDrainRequested;
}

bool drains_by_itself(const ObservedReplica& replica) {
  return has_fresh_sample(replica) && replica.sample->drain.phase != DrainPhase::kNone;
}

Assessment not_serving_yet(ReplicaState state, const ObservedReplica& replica,
                           const RolloutSpec& rollout, WallTime now) {
  const bool overdue = now - replica.created_at >= rollout.progress_deadline;
  if (!overdue || ever_active(replica)) return {state, "", ""};
  const char* what = state == ReplicaState::kCreating   ? "did not start"
                     : state == ReplicaState::kStarting ? "did not become healthy"
                                                        : "did not join the mesh";
  return failing(
      "ProgressDeadlineExceeded",
      std::string(what) + " within " + std::to_string(rollout.progress_deadline.count()) + " s");
}

}  // namespace

const char* to_string(ReplicaState state) {
  switch (state) {
    case ReplicaState::kCreating:
      return "Creating";
    case ReplicaState::kStarting:
      return "Starting";
    case ReplicaState::kJoining:
      return "Joining";
    case ReplicaState::kActive:
      return "Active";
    case ReplicaState::kDrainRequested:
      return "DrainRequested";
    case ReplicaState::kDraining:
      return "Draining";
    case ReplicaState::kDrained:
      return "Drained";
    case ReplicaState::kForced:
      return "Forced";
    case ReplicaState::kDeleting:
      return "Deleting";
    case ReplicaState::kFailing:
      return "Failing";
    case ReplicaState::kLost:
      return "Lost";
  }
  return "Unknown";
}

Assessment assess(const ObservedReplica& replica, const RolloutSpec& rollout, WallTime now) {
  if (replica.deletion_requested) return {ReplicaState::kDeleting, "", ""};
  if (replica.process == ProcessState::kNodeLost) return {ReplicaState::kLost, "", ""};
  if (replica.process == ProcessState::kEnded) {
    return failing(replica.process_reason.empty() ? kContainerCrashing : replica.process_reason,
                   replica.process_message);
  }
  if (replica.drain || drains_by_itself(replica)) return {drain_state(replica), "", ""};
  if (replica.process == ProcessState::kPending) {
    if (!replica.process_reason.empty()) {
      return failing(replica.process_reason, replica.process_message);
    }
    return not_serving_yet(ReplicaState::kCreating, replica, rollout, now);
  }
  if (!replica.ready) return not_serving_yet(ReplicaState::kStarting, replica, rollout, now);
  if (replica.mesh_gate != true) {
    return not_serving_yet(ReplicaState::kJoining, replica, rollout, now);
  }
  return {ReplicaState::kActive, "", ""};
}

bool has_fresh_sample(const ObservedReplica& replica) {
  return replica.process == ProcessState::kRunning && replica.sample &&
         replica.sample->age <= kSampleLife;
}

WallTime available_at(const ObservedReplica& replica, const RolloutSpec& rollout) {
  std::chrono::seconds stand = rollout.min_ready;
  if (replica.attempt > 1) stand = std::max(stand, retry_pause(replica.attempt - 1));
  return std::max(replica.ready_since, replica.mesh_gate_since) + stand;
}

std::chrono::seconds retry_pause(int attempt) {
  const int doublings = std::clamp(attempt - 1, 0, 5);
  return std::min(std::chrono::seconds(10 << doublings), std::chrono::seconds(300));
}

}  // namespace fairlead::op
