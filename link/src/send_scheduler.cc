#include "send_scheduler.h"

#include <algorithm>

namespace fairlead::link {

void SendScheduler::add(SessionId id, Place& place) {
  if (place.queued) return;
  place.queued = true;
  queues_[static_cast<std::size_t>(place.priority)].push_back(id);
}

std::size_t SendScheduler::choose_class() const {
  std::size_t chosen = 0;
  while (queues_[chosen].empty()) ++chosen;
  for (std::size_t lower = chosen + 1; lower < kClasses; ++lower) {
    if (queues_[lower].empty()) continue;
    if (ahead_[chosen] < kLowerTurn) break;
    chosen = lower;
  }
  return chosen;
}

void SendScheduler::sent(SessionId id, Place& place, std::uint64_t bytes, bool more) {
  for (std::size_t upper = 0; upper < chosen_; ++upper) {
    if (!queues_[upper].empty()) ahead_[upper] -= std::min(ahead_[upper], bytes * kLowerEvery);
  }
  const bool passes_over =
      std::any_of(queues_.begin() + static_cast<std::ptrdiff_t>(chosen_) + 1, queues_.end(),
                  [](const auto& lower) { return !lower.empty(); });
  if (passes_over) ahead_[chosen_] = std::min(ahead_[chosen_] + bytes, kLowerTurn);
  auto& queue = queues_[chosen_];
  place.deficit -= static_cast<std::int64_t>(bytes);
  if (more && place.deficit > 0) return;
  queue.pop_front();
  if (more) {
    queue.push_back(id);
  } else {
    leave(place);
  }
}

void SendScheduler::leave(Place& place) {
  place.queued = false;
  place.deficit = std::min<std::int64_t>(place.deficit, 0);
}

bool SendScheduler::empty() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const auto& queue) { return queue.empty(); });
}

}  // namespace fairlead::link
