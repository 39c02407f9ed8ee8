#include "plan/plan.h"

#include <algorithm>

#include "plan/picture.h"

namespace fairlead::op {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Samples are polled, not reported: this often while something is on its way, and when all is
// quiet.
constexpr milliseconds kBusyPoll{500};
constexpr milliseconds kQuietPoll{5000};

bool is_settled(const Picture& picture) {
  const auto settled = [](const PlannedReplica& replica) {
    return replica.available && replica.fresh;
  };
  return std::all_of(picture.replicas.begin(), picture.replicas.end(), settled) &&
         static_cast<int>(picture.replicas.size()) == picture.cluster.spec.replicas;
}

// Waiting is computed, never assumed: the next moment at which time alone changes a decision.
milliseconds next_wake_up(const Picture& picture) {
  const RolloutSpec& rollout = picture.cluster.spec.rollout;
  const WallTime now = picture.observed.now;
  milliseconds next = is_settled(picture) ? kQuietPoll : kBusyPoll;
  const auto at = [&](WallTime moment) {
    if (moment > now) {
      next = std::min(next, std::chrono::ceil<milliseconds>(moment - now));
    }
  };
  for (const PlannedReplica& replica : picture.replicas) {
    if (replica.serving) at(available_at(*replica.facts, rollout));
    if (!replica.ever_active) at(replica.facts->created_at + rollout.progress_deadline);
    if (replica.ended()) at(replica.facts->process_since + retry_pause(replica.facts->attempt));
  }
  return next;
}

}  // namespace

Plan make_plan(const RelayCluster& cluster, const Observed& observed) {
  Picture picture = make_picture(cluster, observed);
  // Before the rollout marks what it takes: the report shows what is, not what will be.
  const Picture seen = picture;
  Plan plan;
  const std::uint64_t epoch = plan_membership(seen, plan.steps);
  plan_endpoints_and_gates(seen, plan.steps);
  const RolloutNotes notes = plan_rollout(picture, plan.steps);
  plan_drains(picture, epoch, plan.steps);
  plan.status = make_status(seen, notes);
  settle_conditions(observed.previous_status, observed.now, plan.status);
  plan.events = transition_events(observed.previous_status, plan.status);
  plan.wake_up = next_wake_up(seen);
  return plan;
}

}  // namespace fairlead::op
