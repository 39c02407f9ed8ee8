// Which links an agent keeps: `target` of them, each to another replica, replaced before they are
// left. No sockets and no clock here.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <variant>

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

using link::Duration;
using link::Instant;

// The owner's name for one dial and the link that came of it; never used twice.
using HomeId = std::uint64_t;

namespace home_action {
// Dial the relay with this index, register, and report what came of it.
struct Dial {
  HomeId home;
  std::size_t relay;
};
// Ask the replica for no more visits on this link; it closes when those it has are over.
struct Leave {
  HomeId home;
  std::string why;
};
// Close this link in order: it carries no visit and its replica is held by another link or drains,
// or the agent stops.
struct Close {
  HomeId home;
  std::string why;
};
}  // namespace home_action
using HomeAction = std::variant<home_action::Dial, home_action::Leave, home_action::Close>;

// The relay addresses usually lead to a load balancer, which gives no promise where a dial ends: a
// link to a replica that is held already is left, and the next dial waits a little longer. Left,
// not cut: the replica may have sent visits by it as soon as it was registered.
//
// A draining home does not count. Its replacement is dialled at once, and it is closed when it has
// no visits and `target` other homes stand. Until then it serves.
//
// Pauses between dials that failed are drawn uniformly from [0, min(kMaxPause, kFirstPause x 2^n)];
// n goes back to 0 when a home is registered or ends in order. A replica's own Retry-After is the
// least that is waited after its refusal.
class Homes {
 public:
  static constexpr Duration kFirstPause = std::chrono::milliseconds(100);
  static constexpr Duration kMaxPause = std::chrono::seconds(15);

  // `relays`: how many addresses there are, dialled in turn; at least 1. `seed` decides the pauses.
  Homes(std::uint32_t target, std::size_t relays, std::uint64_t seed);

  void start(Instant now);
  // Dials no more and closes every home.
  void stop();

  // The dial or the registration failed, or was refused for now. `clean`: the replica said so in
  // order. `wait` is its Retry-After.
  void failed(HomeId home, bool clean, Duration wait, Instant now);
  void registered(HomeId home, const std::string& replica_uid, std::uint32_t target, Instant now);
  // A replica told how many homes to keep now.
  void set_target(std::uint32_t target, Instant now);
  // The replica drains or says goaway.
  void draining(HomeId home, Instant now);
  // Visits that the home carries now.
  void set_visits(HomeId home, std::size_t visits, Instant now);
  // The link is over.
  void lost(HomeId home, bool clean, Instant now);

  void on_timer(Instant now);
  std::optional<Instant> next_deadline() const;
  std::optional<HomeAction> poll();

  // Registered and not draining.
  std::uint32_t standing() const;
  std::uint32_t target() const { return target_; }

 private:
  enum class State : std::uint8_t { kDialing, kStanding, kDraining, kLeaving, kClosing };
  struct Home {
    State state = State::kDialing;
    std::string replica_uid;
    std::size_t visits = 0;
    std::string why;  // of kLeaving
  };

  void fill(Instant now);
  void close_drained();
  void leave(HomeId id, Home& home, std::string why);
  void close(HomeId id, Home& home, std::string why);
  void pause(Duration least, Instant now);
  std::uint32_t count(State state) const;

  std::uint32_t target_;
  std::size_t relays_;
  std::mt19937_64 random_;
  std::map<HomeId, Home> homes_;
  HomeId next_id_ = 1;
  std::size_t next_relay_ = 0;
  std::uint32_t failures_ = 0;  // since the pauses were last reset
  Instant not_before_{};        // the next dial
  bool running_ = false;
  std::deque<HomeAction> actions_;
};

}  // namespace fairlead::dataplane
