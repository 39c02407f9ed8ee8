// What replicas tell each other about the agents homed at them, as checked values, and the wire
// form.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fairlead::control::v1 {
class DirectorySnapshot;
class DirectoryDelta;
}  // namespace fairlead::control::v1

namespace fairlead::dataplane {

struct ServiceName {
  std::string kind;  // "tcp" or "http"
  std::string name;

  auto operator<=>(const ServiceName&) const = default;
};

// One agent process at one home.
struct AgentEntry {
  std::string agent_id;
  std::string tenant;
  std::string instance;          // 16 bytes
  std::uint64_t generation = 0;  // from 1; higher is newer
  std::vector<ServiceName> services;
  bool leaving = false;  // its home takes no new visits for it

  bool operator==(const AgentEntry&) const = default;
};

// An owner's whole list. A version is (boot_id, seq).
struct DirectorySnapshot {
  std::string owner_uid;
  std::string boot_id;  // of the owner's process
  std::uint64_t seq = 0;
  std::vector<AgentEntry> agents;

  bool operator==(const DirectorySnapshot&) const = default;
};

struct DirectoryDelta {
  std::string owner_uid;
  std::string boot_id;
  std::uint64_t seq = 0;  // the version it leads to: the one before + 1
  std::vector<AgentEntry> upsert;
  std::vector<AgentEntry> remove;  // only tenant, agent_id and instance count

  bool operator==(const DirectoryDelta&) const = default;
};

inline constexpr std::size_t kMaxEntriesPerOwner = 100'000;
inline constexpr std::size_t kMaxServicesPerAgent = 64;
inline constexpr std::uint64_t kMaxGeneration = 1ull
                                                << 62;  // what lies above cannot be an honest count

control::v1::DirectorySnapshot to_wire(const DirectorySnapshot& snapshot);
control::v1::DirectoryDelta to_wire(const DirectoryDelta& delta);

// Nothing when a field is not acceptable; `error` then names it. The peer is broken: end its link.
std::optional<DirectorySnapshot> from_wire(const control::v1::DirectorySnapshot& message,
                                           std::string& error);
std::optional<DirectoryDelta> from_wire(const control::v1::DirectoryDelta& message,
                                        std::string& error);

}  // namespace fairlead::dataplane
