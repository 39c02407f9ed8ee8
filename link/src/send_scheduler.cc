#include "send_scheduler.h"

#include <algorithm>

namespace fairlead::link {

void SendScheduler::add(SessionId id, Place& place) {
  if (place.queued) return;
  place.queued = true;
  queues_[static_cast<std::size_t>(place.priority)].push_back(id);
}

std::size_t SendScheduler::choose_class() {
  std::size_t first = 0;
  while (queues_[first].empty()) ++first;
  // The share is checked from the lowest waiting class up: what passed it over also passed over
  // everything between.
  for (std::size_t lower = first + 1; lower < kClasses; ++lower) {
    if (!queues_[lower].empty() && passed_over_[lower] >= (kLowerShare - 1) * kMaxShareUnit) {
      return lower;
    }
  }
  return first;
}

void SendScheduler::sent(SessionId id, Place& place, std::uint64_t bytes, bool more) {
  auto& queue = queues_[chosen_];
  place.deficit -= static_cast<std::int64_t>(bytes);
  for (std::size_t lower = 0; lower < kClasses; ++lower) {
    if (lower < chosen_) continue;
    if (lower == chosen_) {
      passed_over_[lower] = 0;
    } else if (!queues_[lower].empty()) {
      passed_over_[lower] += bytes;
    }
  }
  if (more) {
    if (place.deficit > 0) return;
    queue.pop_front();
    queue.push_back(id);
    return;
  }
  // Nothing left: what it did not use is forgotten, what it overdrew is not.
  place.deficit = std::min<std::int64_t>(place.deficit, 0);
  place.queued = false;
  queue.pop_front();
}

bool SendScheduler::empty() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const auto& queue) { return queue.empty(); });
}

}  // namespace fairlead::link
