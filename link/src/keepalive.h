// When to probe the peer and when to call it dead.
#pragma once

#include <cstdint>
#include <optional>

#include "fairlead/link/liveness.h"
#include "fairlead/link/types.h"

namespace fairlead::link {

// Pure timer logic; the connection tells it what happened and asks what is due. Rules:
//   dead        nothing received for interval + timeout
//   unanswered  bytes arrive, but the oldest PING got no PONG for 3 x timeout (while bytes arrive a
//               PING goes out every 3 x interval, so this is found within 3 x (interval + timeout))
//   stalled     there was something to write for interval + timeout and the transport took nothing
// next_deadline() is at most an interval away. So when nothing at all happened for an interval and
// a half, this process was held up (stopped, suspended), and the silence says nothing about the
// peer: it gets one more `timeout` to answer a new PING, and a stall is measured afresh.
class Keepalive {
 public:
  enum class Verdict : std::uint8_t { kAlive, kDead, kUnanswered, kStalled };

  Keepalive(const Liveness& liveness, Instant now);

  void adopt(const Liveness& liveness) { liveness_ = liveness; }
  const Liveness& liveness() const { return liveness_; }

  void received(Instant now);
  void received_data() { data_unanswered_ = true; }
  // False when it answers no PING that is out.
  bool received_pong(std::uint64_t token);
  // Something was handed to the transport. `backlog`: more is waiting.
  void wrote(Instant now, bool backlog);
  // There is something to write; remembered from the first call until wrote() or
  // nothing_to_write().
  void backlogged(Instant now);
  void nothing_to_write() { backlog_since_.reset(); }

  Verdict check(Instant now);
  // True when a PING is owed; next_token() then is what to send, and counts as sent.
  bool ping_owed() const { return ping_owed_; }
  std::uint64_t next_token(Instant now);
  // Ask for a PING outside the schedule (goaway's round trip); returns the token it will carry.
  std::uint64_t request_ping();
  // We received data and sent nothing for interval / 2: any frame will do. Set by check().
  bool sign_of_life_owed() const { return sign_of_life_owed_; }

  Instant next_deadline() const;
  // A PING is out for longer than the timeout.
  bool probe_overdue(Instant now) const;
  Instant last_received() const { return last_received_; }

 private:
  void notice(Instant now);
  Instant dead_at() const;
  Instant ping_at() const;
  std::optional<Instant> unanswered_at() const;
  std::optional<Instant> stalled_at() const;

  Liveness liveness_;
  Instant seen_;  // the last call that knew the time
  Instant last_received_;
  Instant last_wrote_;
  Instant last_ping_;
  std::optional<Instant> grace_until_;       // after this process was held up
  std::optional<Instant> unanswered_since_;  // when the oldest unanswered PING was sent
  std::uint64_t oldest_unanswered_ = 0;
  std::uint64_t last_token_ = 0;
  std::optional<Instant> backlog_since_;
  bool ping_owed_ = false;
  bool data_unanswered_ = false;  // DATA came since we last wrote
  bool sign_of_life_owed_ = false;
};

}  // namespace fairlead::link
