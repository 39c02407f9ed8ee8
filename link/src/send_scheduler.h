// Which session sends the next DATA frame.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "fairlead/link/types.h"

namespace fairlead::link {

// Four strict classes, deficit round robin inside each. While a class has something to send, the
// classes after it together keep one byte in twenty, so that a busy class cannot starve them; they
// share that twentieth by the same rule.
// Holds ids only; the owner adds a session when it becomes able to send and reports what it sent.
class SendScheduler {
 public:
  struct Place {
    Priority priority = Priority::kNormal;
    std::uint8_t weight = 16;
    std::int64_t deficit = 0;  // bytes this session may still send in its turn
    bool queued = false;
  };

  // Puts the session at the end of its class unless it is queued already.
  void add(SessionId id, Place& place);
  // The session that sends next. `place_of(id)` gives its Place, or null for one that is gone or
  // cannot send now: it loses its place, and the owner has called leave() if it still exists. The
  // choice stands until sent().
  template <typename PlaceOf>
  std::optional<SessionId> next(PlaceOf&& place_of);
  // The session chosen by next() sent `bytes` and `more` can follow.
  void sent(SessionId id, Place& place, std::uint64_t bytes, bool more);
  // What a session that stops sending did not use is forgotten; what it overdrew is not.
  static void leave(Place& place);
  bool empty() const;

 private:
  static constexpr std::size_t kClasses = 4;
  // The lower classes get a byte for each kLowerEvery of their class's own, at most a full frame at
  // a time.
  static constexpr std::uint64_t kLowerEvery = 19;
  static constexpr std::uint64_t kLowerTurn = kLowerEvery * 16 * 1024;
  static constexpr std::int64_t kQuantumPerWeight = 1024;

  std::size_t choose_class() const;

  std::array<std::deque<SessionId>, kClasses> queues_;
  // Bytes a class sent while a later one was waiting and for which the later ones got nothing yet.
  std::array<std::uint64_t, kClasses> ahead_{};
  std::size_t chosen_ = 0;
};

template <typename PlaceOf>
std::optional<SessionId> SendScheduler::next(PlaceOf&& place_of) {
  while (!empty()) {
    chosen_ = choose_class();
    auto& queue = queues_[chosen_];
    const SessionId id = queue.front();
    Place* place = place_of(id);
    if (place == nullptr) {
      queue.pop_front();
      continue;
    }
    if (place->deficit > 0) return id;
    // Its turn is over: it gets its share for the next one and waits behind the others. The number
    // of rounds is bounded by the largest frame over the smallest share.
    place->deficit += place->weight * kQuantumPerWeight;
    queue.pop_front();
    queue.push_back(id);
  }
  return std::nullopt;
}

}  // namespace fairlead::link
