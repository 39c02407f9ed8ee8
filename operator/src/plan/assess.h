// From the facts about one replica to its state. The only place that says what a state means.
#pragma once

#include <chrono>
#include <string>

#include "api/relay_cluster.h"
#include "plan/replica.h"

namespace fairlead::op {

enum class ReplicaState {
  kCreating,        // a record; the process does not run yet
  kStarting,        // runs; its health endpoint does not say 200 (yet, or any more)
  kJoining,         // healthy; its mesh gate is closed
  kActive,          // takes visitors and agents
  kDrainRequested,  // the intent is written; the relay has not confirmed
  kDraining,        // the relay says so
  kDrained,         // the relay latched: nothing is left
  kForced,          // the relay latched: the deadline came first
  kDeleting,        // delete was called; the process may still run
  kFailing,         // its process ended or cannot start, or it never served before the deadline
  kLost,            // its node is gone
};
const char* to_string(ReplicaState state);

struct Assessment {
  ReplicaState state = ReplicaState::kCreating;
  std::string cause;   // of kFailing: "ImagePullFailed", "ProgressDeadlineExceeded", ...
  std::string detail;  // of kFailing, for people
};
Assessment assess(const ObservedReplica& replica, const RolloutSpec& rollout, WallTime now);

// An answer of the admin endpoint that is older than this says nothing about now.
inline constexpr std::chrono::milliseconds kSampleLife{5000};
// Whether the process runs and its last answer is young enough.
bool has_fresh_sample(const ObservedReplica& replica);

// Whether visitors were ever sent to it. What never was may be deleted without a drain.
inline bool ever_active(const ObservedReplica& replica) {
  return replica.mesh_gate.has_value();
}

// When a replica that is active counts as available, if nothing happens to it. One that replaced a
// crashed one must stand for as long as the retry pause: an image that serves for a few seconds and
// dies would otherwise pass for healthy again and again.
WallTime available_at(const ObservedReplica& replica, const RolloutSpec& rollout);

// How long a replica that failed stays for people to look at before the next attempt: 10 s, doubled
// by each attempt, at most 5 min.
std::chrono::seconds retry_pause(int attempt);

}  // namespace fairlead::op
