// Two connections joined in memory on a virtual clock, for tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fairlead/link/connection.h"
#include "wire.h"

namespace fairlead::link::testing {

// The bytes of one frame, for what a core of ours would never send.
inline std::vector<std::byte> raw(SessionId session, const wire::Frame& frame) {
  std::vector<std::byte> out;
  wire::encode(session, frame, out);
  return out;
}

// One end with what it reported. Data is collected per event so that order can be checked.
struct End {
  explicit End(const Config& config, Instant now) : core(config, now) {}

  Connection core;
  std::vector<Event> events;

  // Feeds frames as if the peer had sent them.
  void receive(SessionId session, const wire::Frame& frame, Instant now) {
    core.receive(raw(session, frame), now);
    poll();
  }
  void poll() {
    while (auto next = core.poll_event()) events.push_back(std::move(*next));
  }
  // The first event of a kind, or null.
  template <typename E>
  const E* first() const {
    for (const Event& each : events) {
      if (const E* found = std::get_if<E>(&each)) return found;
    }
    return nullptr;
  }
  template <typename E>
  std::size_t count() const {
    std::size_t n = 0;
    for (const Event& each : events) n += std::holds_alternative<E>(each) ? 1 : 0;
    return n;
  }
  std::string text_of(SessionId id) const {
    std::string text;
    for (const Event& each : events) {
      if (const auto* data = std::get_if<event::Data>(&each); data && data->id == id) {
        text += data->bytes.text();
      }
    }
    return text;
  }
};

class Pair {
 public:
  Pair() : Pair(Config{.side = Side::kDialer}, Config{.side = Side::kListener}) {}
  Pair(const Config& a, const Config& b) : dialer(a, now), listener(b, now) {}

  // Moves bytes both ways until neither end has anything to say.
  void settle() {
    bool moved = true;
    while (moved) {
      moved = move(dialer, listener);
      moved = move(listener, dialer) || moved;
    }
  }
  // Lets time pass, serving each end's timers at their very moment.
  void advance(Duration by) {
    const Instant end = now + by;
    for (;;) {
      Instant next = end;
      for (End* each : {&dialer, &listener}) {
        if (const auto at = each->core.next_deadline()) next = std::min(next, std::max(*at, now));
      }
      now = next;
      for (End* each : {&dialer, &listener}) {
        if (const auto at = each->core.next_deadline(); at && *at <= now) each->core.on_timer(now);
        each->poll();
      }
      if (connected) settle();
      if (now >= end) return;
    }
  }
  bool move(End& from, End& to) {
    std::vector<std::byte> buffer(64 * 1024);
    const std::size_t n = from.core.wants_write() ? from.core.produce(buffer, now) : 0;
    from.poll();
    if (n == 0) return false;
    to.core.receive(Bytes(buffer).first(n), now);
    to.poll();
    return true;
  }

  Instant now{std::chrono::hours(1)};
  End dialer;
  End listener;
  bool connected = true;  // false: nothing moves while time passes
};

}  // namespace fairlead::link::testing
