// What is known about one replica: facts from its record and its process, and the last answer of
// its admin endpoint. The vocabulary between a backend and the plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/status.h"

namespace fairlead::op {

// Of the replica's relay process ("container").
enum class ProcessState {
  kPending,  // not running yet; the backend is at it and goes on by itself
  kRunning,
  kEnded,     // ended, or never began; the backend will not start it again under this record
  kNodeLost,  // its node is gone: nothing can be said about the process
};

// Why a process is pending or ended. Any other text is shown as it is.
inline constexpr const char* kImagePullFailed = "ImagePullFailed";
inline constexpr const char* kContainerCrashing = "ContainerCrashing";
// The record was written and the operator ended before the start: replaced at once, not a failure.
inline constexpr const char* kNotStarted = "NotStarted";

// Written to the record before the drain is asked for, so that a new operator finds it.
struct DrainIntent {
  std::string reason;  // "rollout", "scale-down", "deletion", "terminated"
  WallTime requested_at{};
  WallTime deadline{};
  bool final = false;  // no other replica will come
  bool operator==(const DrainIntent&) const = default;
};

enum class DrainPhase { kNone, kDelay, kDraining, kDrained, kForced };  // admin.proto DrainStatus

struct DrainSample {
  DrainPhase phase = DrainPhase::kNone;
  std::string reason;
  std::uint64_t visits = 0;  // not yet ended, all kinds
  std::uint32_t agents = 0;
  std::uint32_t keepalive_sockets = 0;
  std::chrono::milliseconds elapsed{0};
  std::chrono::milliseconds deadline{0};  // from the drain's start
  std::uint64_t lost = 0;
};

struct PeerSample {
  std::string uid;
  std::uint32_t links_up = 0;
  std::uint32_t links_expected = 0;
};

// One answer of Admin.Status.
struct AdminSample {
  std::chrono::milliseconds age{0};  // since it was received, on the operator's monotonic clock
  std::string process_id;
  std::string version;
  std::uint64_t epoch = 0;  // of the membership it holds; 0: none yet
  std::string digest;
  std::vector<PeerSample> peers;
  std::uint64_t visits = 0;  // live, visitor end here
  std::uint32_t agents = 0;
  std::uint32_t forwarding = 0;  // visits of other replicas that pass through here
  DrainSample drain;
};

struct ObservedReplica {
  std::string name;  // <cluster>-<rev8>-<slot>-<attempt>
  std::string uid;
  std::string revision;
  int slot = 0;
  int attempt = 1;
  std::string node;  // "" where there are none
  bool node_draining = false;
  std::string peer_address;  // host:port of 7001; "" while not known
  WallTime created_at{};

  ProcessState process = ProcessState::kPending;
  std::string process_reason;   // see above; "" while all is well
  std::string process_message;  // for people: the error text, the exit code
  WallTime process_since{};     // when `process` became what it is, as far as known
  // Whether the health endpoint said 200 lately, and since when it is ready or not. A backend that
  // does not know since when (it was restarted) says since now.
  bool ready = false;
  WallTime ready_since{};

  // Readiness gate: nullopt until it is set for the first time. A replica whose gate was never set
  // was never offered to visitors ("never Active").
  std::optional<bool> mesh_gate;
  WallTime mesh_gate_since{};

  std::optional<DrainIntent> drain;
  bool drain_now = false;                      // a person asked to end the drain
  std::optional<WallTime> deletion_requested;  // delete was called; the process may still run

  std::optional<AdminSample> sample;  // nullopt: never answered. Old ones are kept with their age
};

}  // namespace fairlead::op
