#include "plan/picture.h"

#include <algorithm>
#include <map>

namespace fairlead::op {
namespace {

PlannedReplica look_at(const ObservedReplica& facts, const Picture& picture) {
  const RolloutSpec& rollout = picture.cluster.spec.rollout;
  PlannedReplica replica;
  replica.facts = &facts;
  replica.assessment = assess(facts, rollout, picture.observed.now);
  replica.updated = facts.revision == picture.update_revision;
  replica.ever_active = ever_active(facts);
  replica.serving = replica.is(ReplicaState::kActive);
  replica.available = replica.serving && picture.observed.now >= available_at(facts, rollout);
  replica.fresh = has_fresh_sample(facts);
  return replica;
}

// The old revision that most replicas serve with. When none is left, the update revision has taken
// over if it ever served; otherwise the one that drains now is the last that is known to work.
std::string find_fallback(const Picture& picture) {
  std::map<std::string, int> serving;
  bool update_served = false;
  std::string draining;
  for (const PlannedReplica& replica : picture.replicas) {
    if (!replica.ever_active) continue;
    if (replica.updated) {
      update_served = true;
    } else if (replica.live()) {
      ++serving[replica.facts->revision];
    } else {
      draining = replica.facts->revision;
    }
  }
  if (serving.empty()) {
    return update_served || draining.empty() ? picture.update_revision : draining;
  }
  const auto most =
      std::max_element(serving.begin(), serving.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first;
}

void find_freeze(Picture& picture) {
  const auto missing = picture.observed.missing_secrets.find(picture.update_revision);
  if (missing != picture.observed.missing_secrets.end() && !missing->second.empty()) {
    picture.freeze_reason = "ConfigError";
    picture.freeze_message = "missing Secret";
    for (const std::string& name : missing->second) picture.freeze_message += " " + name;
    return;
  }
  for (const PlannedReplica& replica : picture.replicas) {
    const bool failing = replica.is(ReplicaState::kFailing) && replica.updated &&
                         !replica.ever_active && !replica.facts->drain;
    if (!failing || replica.assessment.cause == kNotStarted) continue;
    picture.freeze_reason = replica.assessment.cause;
    picture.freeze_message = replica.facts->name + ": " + replica.assessment.detail;
    return;
  }
}

}  // namespace

bool PlannedReplica::live() const {
  if (taken || facts->drain) return false;
  switch (assessment.state) {
    case ReplicaState::kCreating:
    case ReplicaState::kStarting:
    case ReplicaState::kJoining:
    case ReplicaState::kActive:
    case ReplicaState::kFailing:
      return true;
    default:
      return false;
  }
}

Picture make_picture(const RelayCluster& cluster, const Observed& observed) {
  Picture picture{cluster, observed, render_intent(cluster.spec), {}, {}, {}, {}, {}};
  picture.update_revision = revision_of(picture.update_intent);
  for (const ObservedReplica& facts : observed.replicas) {
    picture.replicas.push_back(look_at(facts, picture));
  }
  std::sort(picture.replicas.begin(), picture.replicas.end(),
            [](const PlannedReplica& a, const PlannedReplica& b) {
              return a.facts->name < b.facts->name;
            });
  picture.fallback_revision = find_fallback(picture);
  find_freeze(picture);
  return picture;
}

}  // namespace fairlead::op
