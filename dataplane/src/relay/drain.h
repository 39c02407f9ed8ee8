// The life of one replica's drain, without I/O: what to do when, and when it is over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

using link::Instant;

struct DrainOrder {
  std::string reason;                  // "SIGTERM", "rollout", ...: for logs and status
  std::chrono::milliseconds deadline;  // from now
  std::chrono::milliseconds delay;     // keep accepting this long: endpoints elsewhere are stale
  bool final = false;                  // no other replica will come: close listeners regardless
};

// What the replica still holds.
struct DrainLoad {
  std::uint32_t visits = 0;             // own visitors' and those that pass through
  std::uint32_t keepalive_sockets = 0;  // visitor connections without a visit
  std::uint32_t agents = 0;             // agents whose only home this is
  bool other_active = false;            // another replica of the cluster serves
};

struct DrainActions {
  bool close_listeners = false;  // accept what is queued, then close
  bool goaway_agents = false;    // also to agents without another home
  bool reset_rest = false;       // the deadline: what is left is reset and counted as lost
  bool finished = false;         // Drained or Forced was latched by this step
};

// Order of events: start (agents are told to move, registrations refused) -> delay -> listeners
// closed -> load gone (Drained) or deadline (Forced). One-way: nothing undoes a drain, and a second
// order can only bring the deadline forward.
class Drain {
 public:
  enum class State : std::uint8_t { kNone, kDelay, kDraining, kDrained, kForced };
  // Agents that found no other home by then are told to leave all the same.
  static constexpr std::chrono::seconds kAgentGrace{5};
  // Unless the order is final, listeners stay open this long past the delay while no other replica
  // serves: refusing visitors then would help nobody.
  static constexpr std::chrono::seconds kLastReplicaGrace{120};

  void start(const DrainOrder& order, Instant now);
  // Call at next_deadline() and whenever the load changed.
  DrainActions step(const DrainLoad& load, Instant now);
  // Nothing when not draining or over.
  std::optional<Instant> next_deadline() const;

  State state() const { return state_; }
  bool started() const { return state_ != State::kNone; }
  bool over() const { return state_ == State::kDrained || state_ == State::kForced; }
  const std::string& reason() const { return reason_; }
  std::chrono::milliseconds elapsed(Instant now) const;
  std::chrono::milliseconds deadline() const;  // from the start

 private:
  State state_ = State::kNone;
  std::string reason_;
  Instant started_at_;
  Instant ended_at_;
  Instant deadline_at_;
  Instant close_at_;
  bool final_ = false;
  bool goaway_sent_ = false;
};

const char* drain_state_name(Drain::State state);

}  // namespace fairlead::dataplane
