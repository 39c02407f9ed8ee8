// What to do next about a cluster: a pure function of what is asked for and what is observed.
//
// Nothing is remembered between two calls; whatever a decision needs stands in a record, in the
// stored membership or in a relay's own answer. Hence an operator that is killed after any action
// and started afresh goes on as if nothing had happened.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/relay_cluster.h"
#include "api/status.h"
#include "plan/actions.h"
#include "plan/membership.h"
#include "plan/replica.h"

namespace fairlead::op {

struct Observed {
  WallTime now{};
  std::vector<ObservedReplica> replicas;
  std::vector<RevisionRecord> revisions;
  // Secrets that are certainly missing, by the revision that needs them.
  std::map<std::string, std::vector<std::string>> missing_secrets;
  Membership membership;  // as stored
  WallTime membership_written_at{};
  bool epoch_raised = false;  // by this operator process; a new one raises it before it leads
  std::vector<std::string> endpoints;  // as stored
  // For transition times and events only: emptying it changes no action.
  std::optional<ClusterStatus> previous_status;
};

struct Plan {
  std::vector<Step> steps;    // in the order in which they are to be applied
  std::vector<Event> events;  // transitions of the cluster as a whole since previous_status
  ClusterStatus status;
  // When to look again even if nothing is reported until then.
  std::chrono::milliseconds wake_up{0};
};

// Guarantees of the steps, whatever is observed:
//  - no replica is deleted that ever served and whose process may still hold visits: only what the
//    relay itself latched as Drained or Forced, whose process ended, or whose node is gone;
//  - a replica meets at most one of delete, request of a drain, order of a drain;
//  - a drain is ordered only for a replica whose record carries the intent already;
//  - replicas that are neither draining nor being deleted never become more than
//    replicas + maxSurge, and those that are available never fewer than replicas - maxUnavailable
//    by our doing.
Plan make_plan(const RelayCluster& cluster, const Observed& observed);

}  // namespace fairlead::op
