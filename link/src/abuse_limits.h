// What a peer may do how often. Crossing one ends the link with CALM and the limit's name: the cost
// of each is small, so they are set where no honest peer comes, not where it hurts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fairlead/link/types.h"

namespace fairlead::link {

class TokenBucket {
 public:
  TokenBucket(double capacity, double per_second, Instant now)
      : capacity_(capacity), per_second_(per_second), level_(capacity), last_(now) {}

  bool take(double tokens, Instant now) {
    const std::chrono::duration<double> elapsed = now - last_;
    last_ = now;
    level_ = std::min(capacity_, level_ + elapsed.count() * per_second_);
    if (level_ < tokens) return false;
    level_ -= tokens;
    return true;
  }
  void refund(double tokens) { level_ = std::min(capacity_, level_ + tokens); }

 private:
  double capacity_, per_second_, level_;
  Instant last_;
};

namespace limit {
// PINGs are answered with one PONG of the newest token, so a flood costs reading alone.
inline constexpr double kPingBurst = 64, kPingsPerSecond = 10;
// Sessions their opener reset before we accepted them (rapid reset). The opener is already held by
// OPENS, which is repaid only when the application let go; this bounds the churn itself.
inline constexpr double kEarlyResetBurst = 1000, kEarlyResetsPerSecond = 100;
// Frames that change nothing: a CREDIT that advances neither value, anything for a retired id. Each
// retired session allows kIdlePerRetired more, which is what can honestly cross its end.
inline constexpr double kNoEffectBurst = 1000, kNoEffectPerSecond = 100, kIdlePerRetired = 4;
// DATA of less than kTinyFrame bytes. Typing over many sessions is honest; a sender of ours merges
// what is queued, so this rate means somebody makes frames for the work they cause.
inline constexpr std::size_t kTinyFrame = 64;
inline constexpr double kTinyBurst = 100'000, kTinyPerSecond = 50'000;
// Payload bytes of frame types this version does not know.
inline constexpr double kSkippedBurst = 64 * 1024, kSkippedPerSecond = 16 * 1024;
inline constexpr int kGoaways = 4;
// A second breach of a session's limit is not an accident.
inline constexpr int kFlowErrors = 2;
}  // namespace limit

}  // namespace fairlead::link
