// Keeps what strangers cause from filling the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

// One line a minute for each (cause, source). Remembers at most kMaxKeys of them; beyond that all
// others share one line a minute.
class LogLimiter {
 public:
  static constexpr std::chrono::minutes kPeriod{1};
  static constexpr std::size_t kMaxKeys = 4096;

  struct Verdict {
    bool log = false;
    std::uint64_t suppressed = 0;  // of this key since its last line
  };
  Verdict ask(const std::string& cause, const std::string& source, link::Instant now) {
    if (now - swept_at_ >= kPeriod) sweep(now);
    std::string key = cause + '\0' + source;
    if (keys_.size() >= kMaxKeys && !keys_.contains(key)) key.clear();
    auto [found, fresh] = keys_.try_emplace(std::move(key), Key{now, 0});
    if (fresh) return {true, 0};
    if (now - found->second.logged_at < kPeriod) {
      ++found->second.suppressed;
      return {};
    }
    const Verdict verdict{true, found->second.suppressed};
    found->second = Key{now, 0};
    return verdict;
  }

 private:
  struct Key {
    link::Instant logged_at;
    std::uint64_t suppressed;
  };
  void sweep(link::Instant now) {
    swept_at_ = now;
    std::erase_if(keys_, [now](const auto& each) {
      return now - each.second.logged_at >= kPeriod && each.second.suppressed == 0;
    });
  }

  std::unordered_map<std::string, Key> keys_;
  link::Instant swept_at_{};
};

}  // namespace fairlead::dataplane
