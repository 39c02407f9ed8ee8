// What is kept on disk about one replica of the local backend: <state>/replicas/<name>/record.json.
// A record stands for a replica from before its process starts until after it has ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "local/child_process.h"
#include "plan/replica.h"

namespace fairlead::op {

struct ReplicaRecord {
  std::string name;
  std::string uid;
  std::string revision;
  int slot = 0;
  int attempt = 1;
  std::string image;
  std::string address;  // of all its listeners
  WallTime created_at{};

  // The process: none yet, one that runs as far as we know, or one that ended. A record whose
  // process ended is never started again.
  std::optional<ProcessId> process;
  WallTime started_at{};
  bool was_ready = false;
  std::optional<WallTime> ended_at;
  std::string ended_how;  // "exit code 2", or that it is not known

  std::optional<bool> mesh_gate;
  WallTime mesh_gate_since{};
  std::optional<DrainIntent> drain;
  std::optional<WallTime> deletion_requested;
};

std::string to_json(const ReplicaRecord& record);
std::optional<ReplicaRecord> parse_replica_record(std::string_view json, std::string& error);

// The records of a state folder. A name's folder also holds what its process reads and writes; its
// lock file stands beside the folder, so that it outlives the folder by the one moment that counts.
class ReplicaStore {
 public:
  explicit ReplicaStore(std::filesystem::path folder) : root_(std::move(folder)) {}

  std::filesystem::path folder(const std::string& name) const { return root_ / name; }
  std::filesystem::path lock(const std::string& name) const { return root_ / (name + ".lock"); }
  std::filesystem::path file(const std::string& name, const char* what) const {
    return root_ / name / what;
  }

  // Reads everything, and removes folders in which the writer died before there was a record: no
  // process was ever started for them. nullopt when done, else what failed.
  std::optional<std::string> load(std::map<std::string, ReplicaRecord>& records);

  // Durable when it returns.
  std::optional<std::string> save(const ReplicaRecord& record) const;
  // The record first, then the rest. Only for a replica whose process is gone.
  std::optional<std::string> remove(const std::string& name) const;

 private:
  std::filesystem::path root_;
};

}  // namespace fairlead::op
