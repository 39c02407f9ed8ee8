// Several links to one peer, kept up: when to dial, which link gets the next session, which one has
// to go. No sockets and no clock here: the owner dials, closes and tells what happened.
//
//   start()                           then carry out what poll_action() gives, after every call
//   dial_succeeded / dial_failed      exactly one of them for every action::Dial
//   link_draining / link_closed       as the links report it
//   on_timer(now)                     when next_deadline() has come
//   pick(load)                        a link for a new session
//
// A slot holds at most one link that is in use, and has at most one dial in flight. A link whose
// peer said goaway leaves its slot and is dialled a replacement at once; until that stands the old
// one is still picked when nothing better is up. Draining links do not count against the size; when
// more than `size` of them linger, the oldest is closed.
//
// Not thread-safe. Calls with a link or slot that the pool does not know do nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "fairlead/link/connection.h"
#include "fairlead/link/types.h"

namespace fairlead::link {

// The owner's name for a link; never used twice in one pool.
using LinkId = std::uint64_t;
using SlotIndex = std::uint32_t;

struct PoolConfig {
  std::uint32_t size = 4;  // links in use at the same time, at least 1
  // Wait before dial n+1 of a slot is uniform in [0, min(backoff_max, backoff_first * 2^n)]. n goes
  // back to 0 when a link ends cleanly or lived for backoff_max.
  Duration backoff_first = std::chrono::milliseconds(250);
  Duration backoff_max = std::chrono::seconds(15);
};

namespace action {
// Dial the peer for this slot.
struct Dial {
  SlotIndex slot;
};
// Close this link; answer with link_closed() once it is over.
struct Close {
  LinkId link;
  Code code;
  std::string text;
};
// News for the log and for whoever needs to know whether the peer can be reached.
struct Up {
  LinkId link;
  SlotIndex slot;
};
struct Draining {  // once for each link
  LinkId link;
  GoawayReason reason;
};
struct Down {
  LinkId link;
  bool clean;
  std::string cause;
};
struct DialFailed {
  SlotIndex slot;
  std::string cause;
  Duration retry_in;
};
}  // namespace action

using PoolAction = std::variant<action::Dial, action::Close, action::Up, action::Draining,
                                action::Down, action::DialFailed>;

// What pick() asks about a link.
struct LinkLoad {
  std::uint32_t sessions = 0;
  bool probe_overdue = false;  // Connection::probe_overdue()
};

class Pool {
 public:
  // `seed` decides the jitter: give each process and pool another one, or they dial in step.
  Pool(const PoolConfig& config, std::uint64_t seed);

  // Dials every slot that is empty. Call it again to reopen slots that `leave` closed, or after
  // stop().
  void start();
  // Dials no more and closes every link. A dial in flight is answered as always; if it succeeds its
  // link is closed.
  void stop();

  void dial_succeeded(SlotIndex slot, LinkId link, Instant now);
  void dial_failed(SlotIndex slot, std::string cause, Instant now);
  // The peer's goaway; call it for phase 0 and for phase 1. After kRoll the slot dials a
  // replacement at once (after the backoff when the link stood for less than a second: a peer that
  // says goaway to every newcomer is not dialled in a tight loop). After kLeave the slot stays
  // closed.
  void link_draining(LinkId link, int phase, GoawayReason reason, Instant now);
  // `clean`: a CLOSE with code kOk came or went. A link that ends while in use is redialled after
  // the backoff.
  void link_closed(LinkId link, bool clean, std::string cause, Instant now);

  std::optional<Instant> next_deadline() const;
  void on_timer(Instant now);
  std::optional<PoolAction> poll_action();

  // The link for a new session: the one with the fewest sessions of the first of these groups that
  // is not empty; the lowest slot of equals.
  //   1. in use, no overdue probe
  //   2. draining in phase 0, no overdue probe
  //   3. in use, probe overdue
  //   4. draining in phase 0, probe overdue
  // Links that said phase 1 refuse opens and are never picked, nor those for which `load` returns
  // nothing (use that to skip a link that was just tried). Nothing when no link is left or the pool
  // was stopped.
  std::optional<LinkId> pick(const std::function<std::optional<LinkLoad>(LinkId)>& load) const;

  std::uint32_t links_up() const;        // in use
  std::uint32_t links_draining() const;  // lingering, not yet told to close
  bool stopped() const { return stopped_; }

 private:
  enum class SlotState : std::uint8_t { kClosed, kWaiting, kDialing, kUp };
  struct Slot {
    SlotState state = SlotState::kClosed;
    std::uint32_t attempts = 0;  // since the backoff was last reset
    Instant dial_at{};           // kWaiting
    LinkId link = 0;             // kUp
    Instant up_since{};          // kUp
  };
  struct DrainingLink {
    LinkId link;
    int phase;
    bool closing;  // told to close
  };

  void dial(SlotIndex index);
  Duration wait(Slot& slot, Instant now);
  void close_oldest_draining();
  Slot* slot_of(LinkId link);

  PoolConfig config_;
  std::mt19937_64 random_;
  bool stopped_ = true;
  std::vector<Slot> slots_;
  std::deque<DrainingLink> draining_;  // oldest first
  std::deque<PoolAction> actions_;
};

}  // namespace fairlead::link
