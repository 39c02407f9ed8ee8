#include "log_limiter.h"

#include <gtest/gtest.h>

namespace fairlead::dataplane {
namespace {

using std::chrono::seconds;
constexpr link::Instant kStart{std::chrono::hours(1)};

TEST(LogLimiter, OneLineAMinuteForEachCauseAndSource) {
  LogLimiter limiter;
  EXPECT_TRUE(limiter.ask("not-tls", "1.2.3.4", kStart).log);
  EXPECT_FALSE(limiter.ask("not-tls", "1.2.3.4", kStart + seconds(59)).log);
  EXPECT_TRUE(limiter.ask("no-alpn", "1.2.3.4", kStart + seconds(1)).log);
  EXPECT_TRUE(limiter.ask("not-tls", "5.6.7.8", kStart + seconds(1)).log);
  const auto later = limiter.ask("not-tls", "1.2.3.4", kStart + seconds(60));
  EXPECT_TRUE(later.log);
  EXPECT_EQ(later.suppressed, 1u);
}

TEST(LogLimiter, AFloodOfSourcesSharesOneLine) {
  LogLimiter limiter;
  int lines = 0;
  for (std::size_t i = 0; i < 3 * LogLimiter::kMaxKeys; ++i) {
    lines += limiter.ask("not-tls", std::to_string(i), kStart).log ? 1 : 0;
  }
  EXPECT_EQ(lines, static_cast<int>(LogLimiter::kMaxKeys) + 1);
}

}  // namespace
}  // namespace fairlead::dataplane
