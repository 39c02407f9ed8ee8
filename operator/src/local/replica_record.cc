#include "local/replica_record.h"

#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "local/durable_file.h"
#include "local/json_time.h"

namespace fairlead::op {
namespace {

using nlohmann::json;

constexpr char kRecordFile[] = "record.json";

json process_json(const ReplicaRecord& record) {
  if (!record.process) return nullptr;
  return {{"pid", record.process->pid},
          {"start_ticks", record.process->start_ticks},
          {"boot_id", record.process->boot_id}};
}

json drain_json(const std::optional<DrainIntent>& drain) {
  if (!drain) return nullptr;
  return {{"reason", drain->reason},
          {"requested_at", to_millis(drain->requested_at)},
          {"deadline", to_millis(drain->deadline)},
          {"final", drain->final}};
}

json time_json(const std::optional<WallTime>& time) {
  return time ? json(to_millis(*time)) : json(nullptr);
}

ReplicaRecord read_record(const json& root) {
  ReplicaRecord record;
  record.name = root.at("name");
  record.uid = root.at("uid");
  record.revision = root.at("revision");
  record.slot = root.at("slot");
  record.attempt = root.at("attempt");
  record.image = root.at("image");
  record.address = root.at("address");
  record.created_at = from_millis(root.at("created_at"));
  read_member(root, "process", [&](const json& process) {
    record.process = ProcessId{process.at("pid"), process.at("start_ticks"), process.at("boot_id")};
  });
  record.started_at = from_millis(root.at("started_at"));
  record.was_ready = root.at("was_ready");
  read_member(root, "ended_at", [&](const json& at) { record.ended_at = from_millis(at); });
  record.ended_how = root.at("ended_how");
  read_member(root, "mesh_gate", [&](const json& open) { record.mesh_gate = open.get<bool>(); });
  record.mesh_gate_since = from_millis(root.at("mesh_gate_since"));
  read_member(root, "drain", [&](const json& drain) {
    record.drain = DrainIntent{drain.at("reason"), from_millis(drain.at("requested_at")),
                               from_millis(drain.at("deadline")), drain.at("final")};
  });
  read_member(root, "deletion_requested",
              [&](const json& at) { record.deletion_requested = from_millis(at); });
  return record;
}

}  // namespace

std::string to_json(const ReplicaRecord& record) {
  const json root = {
      {"name", record.name},
      {"uid", record.uid},
      {"revision", record.revision},
      {"slot", record.slot},
      {"attempt", record.attempt},
      {"image", record.image},
      {"address", record.address},
      {"created_at", to_millis(record.created_at)},
      {"process", process_json(record)},
      {"started_at", to_millis(record.started_at)},
      {"was_ready", record.was_ready},
      {"ended_at", time_json(record.ended_at)},
      {"ended_how", record.ended_how},
      {"mesh_gate", record.mesh_gate ? json(*record.mesh_gate) : json(nullptr)},
      {"mesh_gate_since", to_millis(record.mesh_gate_since)},
      {"drain", drain_json(record.drain)},
      {"deletion_requested", time_json(record.deletion_requested)},
  };
  // What a process wrote may be part of `ended_how` and need not be UTF-8.
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<ReplicaRecord> parse_replica_record(std::string_view text, std::string& error) {
  try {
    return read_record(json::parse(text));
  } catch (const json::exception& e) {
    error = e.what();
    return std::nullopt;
  }
}

std::optional<std::string> ReplicaStore::load(std::map<std::string, ReplicaRecord>& records) {
  std::error_code ec;
  std::filesystem::create_directories(root_, ec);
  std::vector<std::string> unfinished;
  for (const auto& entry : std::filesystem::directory_iterator(root_, ec)) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    std::string error;
    bool missing = false;
    const auto text = read_file(file(name, kRecordFile), error, &missing);
    if (!text && missing) {
      unfinished.push_back(name);
      continue;
    }
    const auto record = text ? parse_replica_record(*text, error) : std::nullopt;
    if (!record || record->name != name) {
      return file(name, kRecordFile).string() + " is not usable: " + error +
             "; remove the folder once no process of this replica runs";
    }
    records[name] = *record;
  }
  if (ec) return "cannot read " + root_.string() + ": " + ec.message();
  for (const std::string& name : unfinished) {
    if (auto failed = remove(name)) return failed;
  }
  return std::nullopt;
}

std::optional<std::string> ReplicaStore::save(const ReplicaRecord& record) const {
  return replace_file(file(record.name, kRecordFile), to_json(record), Durability::kSynced);
}

std::optional<std::string> ReplicaStore::remove(const std::string& name) const {
  std::error_code ec;
  if (std::filesystem::exists(folder(name), ec)) {
    if (auto failed = remove_file(file(name, kRecordFile))) return failed;
    std::filesystem::remove_all(folder(name), ec);
    if (ec) return "cannot remove " + folder(name).string() + ": " + ec.message();
  }
  return remove_file(lock(name));
}

}  // namespace fairlead::op
