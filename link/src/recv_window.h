// Credit of one receiving half: what was granted, what came, what may be granted next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "fairlead/link/connection.h"

namespace fairlead::link {

// What the sessions of one link may hold together. Floors are guaranteed at admission; what is
// above them is lent from here and from the process's pool.
class LinkBudget {
 public:
  LinkBudget(std::uint64_t budget, CreditPool* pool) : budget_(budget), pool_(pool) {}

  bool reserve_floor();
  void return_floor() { floors_ -= kFloorWindow; }
  // Bytes really lent, at most `want`; the holder ends with at most half of what it had plus what
  // was free, here and in the pool.
  std::uint64_t lend(std::uint64_t want, std::uint64_t held);
  void give_back(std::uint64_t bytes);

  std::uint64_t used() const { return floors_ + lent_; }
  std::uint64_t budget() const { return budget_; }

 private:
  std::uint64_t budget_;
  CreditPool* pool_;
  std::uint64_t floors_ = 0;
  std::uint64_t lent_ = 0;
};

// Invariants, after every call:
//   consumed <= received <= limit
//   limit - consumed <= kFloorWindow + lent      what the peer may make us hold is paid for
//   lent is accounted in the LinkBudget
//   limit never falls
class RecvWindow {
 public:
  RecvWindow(std::uint64_t window_max, std::uint64_t initial_limit, Instant now)
      : window_max_(window_max),
        limit_(initial_limit),
        epoch_start_(now),
        trend_start_(now),
        last_consumed_at_(now) {}

  // False when the bytes exceed the granted limit: nothing is counted then.
  bool receive(std::uint64_t n);
  // The application is done with n bytes (more than it holds counts as all it holds). `rtt` is the
  // round trip over which a grant returns as data.
  void consume(std::uint64_t n, std::chrono::microseconds rtt, Instant now, LinkBudget& budget);
  // For a relay: no limit beyond `cap`. Only rises.
  void set_cap(std::uint64_t cap) {
    cap_ = capped_ ? std::max(cap_, cap) : cap;
    capped_ = true;
  }
  // No more bytes will come: what was granted beyond the received bytes returns.
  void finish(LinkBudget& budget);
  // Everything lent returns; the last call.
  void release(LinkBudget& budget);

  // The limit that may be told to the peer now, and marks it as told.
  std::uint64_t grant();
  // What grant() would return.
  std::uint64_t next_limit() const;
  // The difference is worth a frame at once: a quarter of the window, or the sender runs low.
  bool grant_due() const;

  std::uint64_t limit() const { return limit_; }
  std::uint64_t received() const { return received_; }
  std::uint64_t consumed() const { return consumed_; }
  std::uint64_t window() const { return window_; }
  // What this session is charged for, floor included.
  std::uint64_t charged() const { return kFloorWindow + lent_; }

 private:
  void tune(std::chrono::microseconds rtt, Instant now, LinkBudget& budget);
  void settle(LinkBudget& budget);

  std::uint64_t window_max_;
  std::uint64_t limit_;
  std::uint64_t received_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t cap_ = 0;
  std::uint64_t window_ = kFloorWindow;  // wanted: limit aims at consumed + window
  std::uint64_t lent_ = 0;
  bool capped_ = false;
  bool finished_ = false;
  bool sender_ran_low_ = false;

  // Growth is judged once per round trip, shrinking over eight slow ones.
  Instant epoch_start_;
  std::uint64_t epoch_consumed_ = 0;
  Instant trend_start_;
  std::uint64_t trend_consumed_ = 0;
  Instant last_consumed_at_;
};

}  // namespace fairlead::link
