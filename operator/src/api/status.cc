#include "api/status.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/node.h"

namespace fairlead::op {
namespace {

using nlohmann::ordered_json;

const char* to_text(ConditionStatus status) {
  switch (status) {
    case ConditionStatus::kTrue:
      return "True";
    case ConditionStatus::kFalse:
      return "False";
    case ConditionStatus::kUnknown:
      break;
  }
  return "Unknown";
}

ConditionStatus condition_status(std::string_view text) {
  if (text == "True") return ConditionStatus::kTrue;
  return text == "False" ? ConditionStatus::kFalse : ConditionStatus::kUnknown;
}

ordered_json to_json_object(const ClusterStatus& status) {
  ordered_json out = {
      {"observedGeneration", status.observed_generation},
      {"replicas", status.replicas},
      {"readyReplicas", status.ready},
      {"availableReplicas", status.available},
      {"updatedReplicas", status.updated},
      {"drainingReplicas", status.draining},
      {"terminatingReplicas", status.terminating},
      {"selector", status.selector},
      {"currentRevision", status.current_revision},
      {"updateRevision", status.update_revision},
      {"podTemplateVersion", status.pod_template_version},
      {"meshEpoch", status.mesh_epoch},
      {"draining", ordered_json::array()},
      {"conditions", ordered_json::array()},
  };
  for (const DrainingReplica& drain : status.draining_replicas) {
    ordered_json item = {{"pod", drain.replica}, {"reason", drain.reason}};
    if (drain.visits_remaining) item["visitsRemaining"] = *drain.visits_remaining;
    item["startedAt"] = format_time(drain.started_at);
    item["deadline"] = format_time(drain.deadline);
    out["draining"].push_back(std::move(item));
  }
  for (const Condition& condition : status.conditions) {
    out["conditions"].push_back({{"type", condition.type},
                                 {"status", to_text(condition.status)},
                                 {"reason", condition.reason},
                                 {"message", condition.message},
                                 {"lastTransitionTime", format_time(condition.last_transition)},
                                 {"observedGeneration", condition.observed_generation}});
  }
  return out;
}

void emit_yaml(YAML::Emitter& out, const ordered_json& value) {
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      out << YAML::Key << key << YAML::Value;
      emit_yaml(out, member);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const auto& item : value) emit_yaml(out, item);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    out << YAML::DoubleQuoted << value.get_ref<const std::string&>();
  } else {
    out << value.dump();
  }
}

// Lenient: a status is only read back for the transition times in it.
std::string text_of(const Node& node, std::string_view key) {
  const Node* member = node.find(key);
  return member == nullptr ? "" : member->text;
}

template <typename Integer>
void integer_of(const Node& node, std::string_view key, Integer& out) {
  const Node* member = node.find(key);
  if (member == nullptr || member->kind != Node::Kind::kInteger) return;
  if (member->integer < 0 || !std::in_range<Integer>(member->integer)) return;
  out = static_cast<Integer>(member->integer);
}

WallTime time_of(const Node& node, std::string_view key) {
  return parse_time(text_of(node, key)).value_or(WallTime{});
}

void read_lists(const Node& root, ClusterStatus& status) {
  if (const Node* draining = root.find("draining")) {
    for (const Node& item : draining->items) {
      DrainingReplica& drain = status.draining_replicas.emplace_back();
      drain.replica = text_of(item, "pod");
      drain.reason = text_of(item, "reason");
      if (item.find("visitsRemaining") != nullptr) {
        integer_of(item, "visitsRemaining", drain.visits_remaining.emplace());
      }
      drain.started_at = time_of(item, "startedAt");
      drain.deadline = time_of(item, "deadline");
    }
  }
  if (const Node* conditions = root.find("conditions")) {
    for (const Node& item : conditions->items) {
      Condition& condition = status.conditions.emplace_back();
      condition.type = text_of(item, "type");
      condition.status = condition_status(text_of(item, "status"));
      condition.reason = text_of(item, "reason");
      condition.message = text_of(item, "message");
      condition.last_transition = time_of(item, "lastTransitionTime");
      integer_of(item, "observedGeneration", condition.observed_generation);
    }
  }
}

}  // namespace

std::string format_time(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, size);
}

std::optional<WallTime> parse_time(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

const Condition* find_condition(const ClusterStatus& status, std::string_view type) {
  const auto found = std::find_if(status.conditions.begin(), status.conditions.end(),
                                  [&](const Condition& c) { return c.type == type; });
  return found == status.conditions.end() ? nullptr : &*found;
}

void settle_conditions(const std::optional<ClusterStatus>& previous, WallTime now,
                       ClusterStatus& next) {
  for (Condition& condition : next.conditions) {
    const Condition* before = previous ? find_condition(*previous, condition.type) : nullptr;
    const bool kept = before != nullptr && before->status == condition.status;
    condition.last_transition = kept ? before->last_transition : now;
  }
}

bool same_meaning(const ClusterStatus& a, const ClusterStatus& b) {
  const auto timeless = [](ClusterStatus status) {
    for (Condition& condition : status.conditions) condition.last_transition = {};
    return to_json_object(status);
  };
  return timeless(a) == timeless(b);
}

std::string render_status_yaml(const ClusterStatus& status) {
  YAML::Emitter out;
  emit_yaml(out, to_json_object(status));
  return std::string(out.c_str()) + "\n";
}

std::string render_status_json(const ClusterStatus& status) {
  return to_json_object(status).dump();
}

std::optional<ClusterStatus> parse_status(std::string_view text) {
  NodeError error;
  const std::optional<Node> root = parse_yaml(text, error);
  if (!root || root->kind != Node::Kind::kMap) return std::nullopt;
  ClusterStatus status;
  integer_of(*root, "observedGeneration", status.observed_generation);
  integer_of(*root, "replicas", status.replicas);
  integer_of(*root, "readyReplicas", status.ready);
  integer_of(*root, "availableReplicas", status.available);
  integer_of(*root, "updatedReplicas", status.updated);
  integer_of(*root, "drainingReplicas", status.draining);
  integer_of(*root, "terminatingReplicas", status.terminating);
  status.selector = text_of(*root, "selector");
  status.current_revision = text_of(*root, "currentRevision");
  status.update_revision = text_of(*root, "updateRevision");
  integer_of(*root, "podTemplateVersion", status.pod_template_version);
  integer_of(*root, "meshEpoch", status.mesh_epoch);
  read_lists(*root, status);
  return status;
}

}  // namespace fairlead::op
