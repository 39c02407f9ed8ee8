// The process-wide bound on credit above the sessions' floors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace fairlead::link {

// Shared by the links of one process; thread-safe. Sum of what is taken never exceeds capacity().
class CreditPool {
 public:
  explicit CreditPool(std::uint64_t capacity_bytes) : capacity_(capacity_bytes) {}
  CreditPool(const CreditPool&) = delete;
  CreditPool& operator=(const CreditPool&) = delete;

  // Takes up to `want` bytes for a holder that has `held` already, so that it ends with at most
  // half of (held + free): one greedy reader leaves as much as it takes. Returns the bytes taken.
  std::uint64_t take(std::uint64_t want, std::uint64_t held) {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t free = capacity_ - used;
      const std::uint64_t most = (held + free) / 2;
      const std::uint64_t grant = most > held ? std::min({want, most - held, free}) : 0;
      if (grant == 0) return 0;
      if (used_.compare_exchange_weak(used, used + grant, std::memory_order_relaxed)) return grant;
    }
  }
  void give(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t capacity() const { return capacity_; }

 private:
  const std::uint64_t capacity_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace fairlead::link
