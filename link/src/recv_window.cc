#include "recv_window.h"

#include <cassert>

namespace fairlead::link {
namespace {

// Growth x4 a round trip: a window that doubled when half consumed would hold back a sender that is
// still in slow start, and one that follows time gaps between updates sticks at twice the use.
constexpr std::uint64_t kGrowth = 4;
// A session silent for this long starts again from the floor.
constexpr Duration kIdleReset = std::chrono::seconds(10);
// The eight round trips over which a window must be badly used before it is halved are counted as
// if a round trip took at least this long, so that a pause on a fast path is not a trend.
constexpr std::chrono::microseconds kSlowRtt = std::chrono::milliseconds(125);
constexpr std::chrono::microseconds kLeastRtt = std::chrono::microseconds(100);
// Less than this is not worth a frame unless the flush timer is due (silly windows).
constexpr std::uint64_t kLeastGrant = 4096;

}  // namespace

bool LinkBudget::reserve_floor() {
  if (floors_ + kFloorWindow > budget_ / 2) return false;
  floors_ += kFloorWindow;
  return true;
}

std::uint64_t LinkBudget::lend(std::uint64_t want, std::uint64_t held) {
  // Half of the budget stays for floors, so that lending never keeps a session from being admitted.
  const std::uint64_t free = budget_ / 2 - lent_;
  const std::uint64_t most = (held + free) / 2;
  if (most <= held) return 0;
  std::uint64_t grant = std::min({want, most - held, free});
  if (pool_ != nullptr) grant = pool_->take(grant, held);
  lent_ += grant;
  return grant;
}

void LinkBudget::give_back(std::uint64_t bytes) {
  assert(bytes <= lent_);
  lent_ -= bytes;
  if (pool_ != nullptr) pool_->give(bytes);
}

bool RecvWindow::receive(std::uint64_t n) {
  if (n > limit_ - received_) return false;
  received_ += n;
  if (limit_ - received_ < window_ / 2) sender_ran_low_ = true;
  return true;
}

void RecvWindow::consume(std::uint64_t n, std::chrono::microseconds rtt, Instant now,
                         LinkBudget& budget) {
  n = std::min(n, received_ - consumed_);
  if (now - last_consumed_at_ >= kIdleReset) {
    window_ = kFloorWindow;
    epoch_start_ = trend_start_ = now;
    epoch_consumed_ = trend_consumed_ = 0;
    sender_ran_low_ = false;
  }
  last_consumed_at_ = now;
  consumed_ += n;
  epoch_consumed_ += n;
  trend_consumed_ += n;
  if (!finished_) tune(std::max(rtt, kLeastRtt), now, budget);
  settle(budget);
}

void RecvWindow::tune(std::chrono::microseconds rtt, Instant now, LinkBudget& budget) {
  if (now - epoch_start_ >= rtt) {
    // The rate over one round trip, even when nobody consumed for several.
    const auto elapsed = std::chrono::duration_cast<std::chrono::microseconds>(now - epoch_start_);
    const double share = static_cast<double>(rtt.count()) / static_cast<double>(elapsed.count());
    const auto used = static_cast<std::uint64_t>(static_cast<double>(epoch_consumed_) * share);
    const std::uint64_t target = std::min(used * kGrowth, window_max_);
    const bool held_by_cap = capped_ && cap_ <= consumed_ + window_;
    if (sender_ran_low_ && !held_by_cap && target > window_) {
      const std::uint64_t extra = target - kFloorWindow;
      if (extra > lent_) lent_ += budget.lend(extra - lent_, lent_);
      window_ = std::max(window_, std::min(target, kFloorWindow + lent_));
    }
    epoch_start_ = now;
    epoch_consumed_ = 0;
    sender_ran_low_ = false;
  }
  const auto slow = std::max(rtt, kSlowRtt);
  if (now - trend_start_ >= 8 * slow) {
    const std::uint64_t used_per_slow_rtt = trend_consumed_ / 8;
    if (used_per_slow_rtt < window_ / 8) {
      window_ = std::max<std::uint64_t>(window_ / 2, kFloorWindow);
    }
    trend_start_ = now;
    trend_consumed_ = 0;
  }
}

void RecvWindow::settle(LinkBudget& budget) {
  const std::uint64_t outstanding = limit_ - consumed_;
  const std::uint64_t needed = finished_ ? outstanding : std::max(window_, outstanding);
  const std::uint64_t lend_needed = needed > kFloorWindow ? needed - kFloorWindow : 0;
  if (lent_ > lend_needed) {
    budget.give_back(lent_ - lend_needed);
    lent_ = lend_needed;
  }
}

void RecvWindow::finish(LinkBudget& budget) {
  finished_ = true;
  limit_ = received_;
  settle(budget);
}

void RecvWindow::release(LinkBudget& budget) {
  finished_ = true;
  if (lent_ > 0) budget.give_back(lent_);
  lent_ = 0;
  limit_ = consumed_ = received_;
}

std::uint64_t RecvWindow::next_limit() const {
  if (finished_) return limit_;
  // window_ may be above what is lent only as the floor; so this never grants what is not paid for.
  const std::uint64_t paid = consumed_ + std::min(window_, kFloorWindow + lent_);
  return std::max(limit_, capped_ ? std::min(cap_, paid) : paid);
}

std::uint64_t RecvWindow::grant() {
  limit_ = next_limit();
  return limit_;
}

bool RecvWindow::grant_due() const {
  const std::uint64_t more = next_limit() - limit_;
  if (more == 0) return false;
  if (more >= window_ / 4) return true;
  return more >= kLeastGrant && limit_ - received_ < 2 * kMaxDataPayload;
}

}  // namespace fairlead::link
