// The status of a cluster, and what is worth telling when it changes.
#include <algorithm>

#include "plan/picture.h"

namespace fairlead::op {
namespace {

constexpr std::size_t kMaxDrainsShown = 10;
constexpr int kPodTemplateVersion = 1;

// Two significant digits: a busy drain is not news every second.
std::uint64_t rounded(std::uint64_t count) {
  std::uint64_t unit = 1;
  while (count / unit >= 100) unit *= 10;
  return count / unit * unit;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class Report {
 public:
  Report(const Picture& picture, const RolloutNotes& notes)
      : picture_(picture), spec_(picture.cluster.spec), notes_(notes) {}

  ClusterStatus make() {
    count_replicas();
    list_drains();
    status_.observed_generation = picture_.cluster.generation;
    status_.selector = "cluster=" + picture_.cluster.name + ",role=serving";
    status_.current_revision = picture_.fallback_revision;
    status_.update_revision = picture_.update_revision;
    status_.pod_template_version = kPodTemplateVersion;
    status_.mesh_epoch = picture_.observed.membership.epoch;
    available();
    draining();
    mesh();
    paused();
    progressing();
    ready();
    std::sort(status_.conditions.begin(), status_.conditions.end(),
              [](const Condition& a, const Condition& b) { return a.type < b.type; });
    return status_;
  }

 private:
  void add(std::string type, ConditionStatus status, std::string reason, std::string message = "") {
    Condition condition;
    condition.type = std::move(type);
    condition.status = status;
    condition.reason = std::move(reason);
    condition.message = std::move(message);
    condition.observed_generation = picture_.cluster.generation;
    status_.conditions.push_back(std::move(condition));
  }

  template <typename Condition>
  std::vector<std::string> names(Condition condition) const {
    std::vector<std::string> found;
    for (const PlannedReplica& replica : picture_.replicas) {
      if (condition(replica)) found.push_back(replica.facts->name);
    }
    return found;
  }

  static bool is_draining(const PlannedReplica& replica) {
    return (replica.facts->drain || replica.is(ReplicaState::kDraining)) &&
           !replica.is(ReplicaState::kDeleting);
  }

  void count_replicas() {
    for (const PlannedReplica& replica : picture_.replicas) {
      if (replica.is(ReplicaState::kDeleting)) ++status_.terminating;
      if (is_draining(replica)) ++status_.draining;
      if (!replica.live()) continue;
      ++status_.replicas;
      status_.ready += replica.serving ? 1 : 0;
      status_.available += replica.available ? 1 : 0;
      status_.updated += replica.updated ? 1 : 0;
    }
  }

  void list_drains() {
    for (const PlannedReplica& replica : picture_.replicas) {
      if (!is_draining(replica) || !replica.facts->drain) continue;
      const DrainIntent& intent = *replica.facts->drain;
      DrainingReplica& drain = status_.draining_replicas.emplace_back();
      drain.replica = replica.facts->name;
      drain.reason = intent.reason;
      if (replica.fresh && !replica.is(ReplicaState::kDrainRequested)) {
        drain.visits_remaining = rounded(replica.facts->sample->drain.visits);
      }
      drain.started_at = intent.requested_at;
      drain.deadline = intent.deadline;
    }
    std::stable_sort(status_.draining_replicas.begin(), status_.draining_replicas.end(),
                     [](const auto& a, const auto& b) { return a.deadline < b.deadline; });
    if (status_.draining_replicas.size() > kMaxDrainsShown) {
      status_.draining_replicas.resize(kMaxDrainsShown);
    }
  }

  void available() {
    const bool enough = status_.available >= spec_.replicas - spec_.rollout.max_unavailable;
    add("Available", enough ? ConditionStatus::kTrue : ConditionStatus::kFalse,
        enough ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable");
  }

  void draining() {
    if (status_.draining == 0) return add("Draining", ConditionStatus::kFalse, "NoDrain");
    const auto silent =
        names([](const PlannedReplica& r) { return is_draining(r) && !r.fresh && !r.ended(); });
    if (!silent.empty()) {
      return add("Draining", ConditionStatus::kTrue, "DrainEndpointUnreachable",
                 join(silent) + " does not answer: what it still holds is not known");
    }
    const auto overdue = names([&](const PlannedReplica& r) {
      return is_draining(r) && r.facts->drain && r.facts->drain->deadline <= picture_.observed.now;
    });
    if (!overdue.empty()) {
      return add("Draining", ConditionStatus::kTrue, "DrainDeadlineExceeded", join(overdue));
    }
    add("Draining", ConditionStatus::kTrue, "DrainInProgress", join(names(is_draining)));
  }

  void mesh() {
    const std::string fault = mesh_fault(picture_);
    if (fault.empty()) return add("MeshReady", ConditionStatus::kTrue, "AllLinksUp");
    const bool conflict = fault.find("another list") != std::string::npos;
    const bool stale = fault.find("present list") != std::string::npos;
    add("MeshReady", ConditionStatus::kFalse,
        conflict ? "PeerListConflict"
        : stale  ? "PeerListStale"
                 : "LinksMissing",
        fault);
  }

  void paused() {
    const bool on = spec_.rollout.paused;
    add("Paused", on ? ConditionStatus::kTrue : ConditionStatus::kFalse,
        on ? "PausedByUser" : "NotPaused");
  }

  void progressing() {
    const auto live_and = [](auto condition) {
      return [condition](const PlannedReplica& r) { return r.live() && condition(r); };
    };
    const auto outdated = names(live_and([](const PlannedReplica& r) { return !r.updated; }));
    const auto unready = names(live_and([](const PlannedReplica& r) {
      return r.is(ReplicaState::kCreating) || r.is(ReplicaState::kStarting);
    }));
    const auto joining =
        names(live_and([](const PlannedReplica& r) { return r.is(ReplicaState::kJoining); }));
    const auto settling =
        names(live_and([](const PlannedReplica& r) { return r.serving && !r.available; }));
    const auto say = [&](ConditionStatus status, const char* reason, const std::string& message) {
      add("Progressing", status, reason, message);
    };
    if (picture_.frozen()) {
      const std::string held =
          outdated.empty() ? "" : "; the rollout is held back, " + join(outdated) + " not replaced";
      say(ConditionStatus::kFalse, picture_.freeze_reason.c_str(), picture_.freeze_message + held);
    } else if (spec_.rollout.paused && !outdated.empty()) {
      say(ConditionStatus::kFalse, "RolloutPaused", "held back: " + join(outdated));
    } else if (notes_.waits_for_drain) {
      say(ConditionStatus::kTrue, "WaitingForDrain", drain_in_the_way());
    } else if (!unready.empty()) {
      say(ConditionStatus::kTrue, "WaitingForReady", join(unready));
    } else if (!joining.empty()) {
      say(ConditionStatus::kTrue, "WaitingForMesh", join(joining));
    } else if (!settling.empty()) {
      say(ConditionStatus::kTrue, "WaitingForMinReady", join(settling));
    } else if (!outdated.empty()) {
      say(ConditionStatus::kTrue, "ReplacingReplicas", "to be replaced: " + join(outdated));
    } else if (status_.replicas != spec_.replicas) {
      say(ConditionStatus::kTrue, "Scaling", "");
    } else {
      say(ConditionStatus::kTrue, "NewRevisionAvailable", "");
    }
  }

  std::string drain_in_the_way() const {
    for (const DrainingReplica& drain : status_.draining_replicas) {
      return drain.replica + " drains until " + format_time(drain.deadline) + " at the latest";
    }
    return join(names([](const PlannedReplica& r) { return r.is(ReplicaState::kDeleting); })) +
           " is still ending";
  }

  void ready() {
    const bool enough = status_.available >= spec_.replicas;
    const bool rolled = status_.updated == status_.replicas;
    if (!enough) {
      add("Ready", ConditionStatus::kFalse, "InsufficientReplicas",
          std::to_string(status_.available) + " of " + std::to_string(spec_.replicas) +
              " replicas are available");
    } else if (!rolled && spec_.rollout.paused) {
      add("Ready", ConditionStatus::kFalse, "Paused");
    } else if (!rolled || status_.replicas != spec_.replicas) {
      add("Ready", ConditionStatus::kFalse, "RolloutInProgress");
    } else if (picture_.frozen()) {
      add("Ready", ConditionStatus::kFalse, picture_.freeze_reason, picture_.freeze_message);
    } else {
      add("Ready", ConditionStatus::kTrue, "AllReplicasReady");
    }
  }

  const Picture& picture_;
  const RelayClusterSpec& spec_;
  const RolloutNotes& notes_;
  ClusterStatus status_;
};

std::string reason_of(const std::optional<ClusterStatus>& status, std::string_view type) {
  const Condition* condition = status ? find_condition(*status, type) : nullptr;
  return condition == nullptr ? "" : condition->reason;
}

bool is_false(const std::optional<ClusterStatus>& status, std::string_view type) {
  const Condition* condition = status ? find_condition(*status, type) : nullptr;
  return condition != nullptr && condition->status == ConditionStatus::kFalse;
}

}  // namespace

ClusterStatus make_status(const Picture& picture, const RolloutNotes& notes) {
  return Report(picture, notes).make();
}

std::vector<Event> transition_events(const std::optional<ClusterStatus>& before,
                                     const ClusterStatus& after) {
  std::vector<Event> events;
  const std::string old_revision = before ? before->update_revision : "";
  if (old_revision != after.update_revision) {
    events.push_back({Event::Type::kNormal, "RolloutStarted", "",
                      (old_revision.empty() ? "" : "from revision " + old_revision + " ") +
                          "to revision " + after.update_revision});
  }
  const std::string was = reason_of(before, "Progressing");
  const std::string is = reason_of(after, "Progressing");
  const Condition* progressing = find_condition(after, "Progressing");
  if (was != is && progressing != nullptr) {
    if (is_false(after, "Progressing")) {
      events.push_back({Event::Type::kWarning, is == "RolloutPaused" ? is : "RolloutFrozen", "",
                        is + ": " + progressing->message});
    } else if (is_false(before, "Progressing")) {
      events.push_back({Event::Type::kNormal, "RolloutResumed", "", "after " + was});
    }
    if (is == "WaitingForDrain") {
      events.push_back({Event::Type::kNormal, is, "", progressing->message});
    }
    if (is == "NewRevisionAvailable") {
      events.push_back({Event::Type::kNormal, "RolloutCompleted", "",
                        "all replicas are of revision " + after.update_revision});
    }
  }
  const std::string mesh = reason_of(after, "MeshReady");
  if (mesh == "PeerListConflict" && reason_of(before, "MeshReady") != mesh) {
    events.push_back({Event::Type::kWarning, "PeerListConflict", "",
                      find_condition(after, "MeshReady")->message});
  }
  return events;
}

}  // namespace fairlead::op
