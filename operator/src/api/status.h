// Status of a RelayCluster: what the operator tells. It is output only: nothing reads it back to
// decide what happens to a replica, and emptying it changes none.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::op {

using WallTime = std::chrono::system_clock::time_point;

// "2024-05-06T07:08:09Z", and back; nullopt for any other form.
std::string format_time(WallTime time);
std::optional<WallTime> parse_time(std::string_view text);

enum class ConditionStatus { kTrue, kFalse, kUnknown };

struct Condition {
  std::string type;  // "Ready", "Available", "Progressing", "Draining", "MeshReady", ...
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason;          // CamelCase, one for each kind of waiting
  std::string message;         // for people; names the replica and the cause
  WallTime last_transition{};  // of `status`
  std::int64_t observed_generation = 0;
};

struct DrainingReplica {
  std::string replica;
  std::string reason;
  // Rounded to two digits, so that a busy drain is not a change every second; nullopt: not known.
  std::optional<std::uint64_t> visits_remaining;
  WallTime started_at{};
  WallTime deadline{};
};

struct ClusterStatus {
  std::int64_t observed_generation = 0;
  int replicas = 0;   // neither draining nor terminating
  int ready = 0;      // serving
  int available = 0;  // serving for minReadySeconds
  int updated = 0;    // of `replicas`, those of the update revision
  int draining = 0;
  int terminating = 0;
  std::string selector;
  std::string current_revision;  // what serves until the update revision has proven itself
  std::string update_revision;   // of the spec
  int pod_template_version = 0;
  std::uint64_t mesh_epoch = 0;
  std::vector<DrainingReplica> draining_replicas;  // at most 10, earliest deadline first
  std::vector<Condition> conditions;               // sorted by type
};

const Condition* find_condition(const ClusterStatus& status, std::string_view type);

// Keeps the transition times of conditions whose status did not change since `previous`; all others
// get `now`.
void settle_conditions(const std::optional<ClusterStatus>& previous, WallTime now,
                       ClusterStatus& next);

// Whether a reader would learn nothing new: equal in everything but transition times.
bool same_meaning(const ClusterStatus& a, const ClusterStatus& b);

// As it stands in the resource, the `status` object with its Kubernetes field names.
std::string render_status_yaml(const ClusterStatus& status);
std::string render_status_json(const ClusterStatus& status);

// Reads either rendering back (JSON is YAML). nullopt when the text is not a status: the caller
// then goes on without one.
std::optional<ClusterStatus> parse_status(std::string_view text);

}  // namespace fairlead::op
