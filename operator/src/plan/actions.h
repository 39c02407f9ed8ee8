// What a plan asks for: each action is one call of the backend, idempotent, and safe to be the last
// one before the operator is killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plan/membership.h"
#include "plan/replica.h"

namespace fairlead::op {

// The pinned configuration of a revision: immutable, kept until no replica needs it any more.
struct RevisionRecord {
  std::string revision;  // first 8 hex digits of SHA-256 of `intent`
  std::string intent;    // render_intent() of the spec it came from
  WallTime created_at{};
};

struct DrainOrder {
  std::uint64_t epoch = 0;
  std::string reason;
  std::chrono::milliseconds deadline{0};  // from now; 0 ends the drain
  std::chrono::milliseconds endpoint_delay{0};
  bool final = false;
};

// One line for people. `about` is the name of a replica, or "" for the cluster.
struct Event {
  enum class Type { kNormal, kWarning };
  Type type = Type::kNormal;
  std::string reason;  // CamelCase: "RolloutStarted", "DrainForced"
  std::string about;
  std::string text;
  bool operator==(const Event&) const = default;
};

// Stores the configuration of a revision, before its first replica.
struct PutRevision {
  RevisionRecord record;
};
// Stores a new membership list. Its epoch is higher than any that was stored or reported.
struct PersistMembership {
  Membership membership;
};
// Sends the stored membership (the one persisted in the same plan, if any) to a replica.
struct PushMembership {
  std::string name;
  std::string uid;
};
// Who takes new visitors and agents: UIDs, sorted.
struct UpdateEndpoints {
  std::vector<std::string> uids;
};
struct SetMeshGate {
  std::string name;
  std::string uid;
  bool open = false;
};
struct DeleteReplica {
  std::string name;
  std::string uid;
  std::string why;
};
struct CreateReplica {
  std::string name;
  std::string revision;
  int slot = 0;
  int attempt = 1;
};
// Writes the intent to the record. The drain itself is ordered by a later plan that saw the intent.
struct RequestDrain {
  std::string name;
  std::string uid;
  DrainIntent intent;
};
struct SendDrain {
  std::string name;
  std::string uid;
  DrainOrder order;
};
struct RemoveRevision {
  std::string revision;
};

using Action =
    std::variant<PutRevision, PersistMembership, PushMembership, UpdateEndpoints, SetMeshGate,
                 DeleteReplica, CreateReplica, RequestDrain, SendDrain, RemoveRevision>;

// An action and what people are told once it succeeded.
struct Step {
  Action action;
  std::optional<Event> event;
};

// "Create demo-70c6c6a7-0-1", for logs and tests.
std::string to_string(const Action& action);

}  // namespace fairlead::op
