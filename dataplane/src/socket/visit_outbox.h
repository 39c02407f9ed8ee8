// Bytes on their way into a visit that has no room for them yet.
#pragma once

#include <algorithm>
#include <deque>

#include "visit/visit_end.h"

namespace fairlead::dataplane {

// For local sides that make bytes (an HTTP head, a chunk's frame) and so cannot read exactly what
// there is room for. Its owner stops making more while it is not empty.
class VisitOutbox {
 public:
  void push(link::Slice bytes) {
    if (!bytes.empty()) queue_.push_back(std::move(bytes));
  }
  void finish() { finish_ = true; }
  bool empty() const { return queue_.empty(); }

  // Gives the visit what it has room for, then its FIN. Call on Room and after push() and finish().
  void flush(VisitEnd& end, link::Instant now) {
    while (!queue_.empty()) {
      const std::uint64_t room = end.local_room();
      if (room == 0) return;
      link::Slice& front = queue_.front();
      const std::size_t n = std::min<std::uint64_t>(room, front.size());
      end.local_data(front.first(n), now);
      if (n < front.size()) {
        front = front.from(n);
      } else {
        queue_.pop_front();
      }
    }
    if (finish_) {
      finish_ = false;
      end.local_fin(now);
    }
  }

 private:
  std::deque<link::Slice> queue_;
  bool finish_ = false;
};

}  // namespace fairlead::dataplane
