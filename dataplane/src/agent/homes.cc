#include "agent/homes.h"

#include <algorithm>

namespace fairlead::dataplane {

Homes::Homes(std::uint32_t target, std::size_t relays, std::uint64_t seed)
    : target_(std::max(target, 1u)), relays_(relays), random_(seed) {}

void Homes::start(Instant now) {
  running_ = true;
  not_before_ = now;
  fill(now);
}

void Homes::stop() {
  running_ = false;
  for (auto& [id, home] : homes_) close(id, home, "the agent stops");
}

std::uint32_t Homes::count(State state) const {
  return static_cast<std::uint32_t>(
      std::count_if(homes_.begin(), homes_.end(),
                    [state](const auto& each) { return each.second.state == state; }));
}

std::uint32_t Homes::standing() const {
  return count(State::kStanding);
}

void Homes::fill(Instant now) {
  if (!running_ || now < not_before_) return;
  for (std::uint32_t have = standing() + count(State::kDialing); have < target_; ++have) {
    const HomeId id = next_id_++;
    homes_[id] = Home{};
    actions_.push_back(home_action::Dial{id, next_relay_});
    next_relay_ = (next_relay_ + 1) % relays_;
  }
}

void Homes::leave(HomeId id, Home& home, std::string why) {
  if (home.visits == 0) return close(id, home, std::move(why));
  home.state = State::kLeaving;
  home.why = why;
  actions_.push_back(home_action::Leave{id, std::move(why)});
}

void Homes::close(HomeId id, Home& home, std::string why) {
  if (home.state == State::kClosing) return;
  home.state = State::kClosing;
  actions_.push_back(home_action::Close{id, std::move(why)});
}

void Homes::close_drained() {
  // With the wanted homes standing there is nothing a drained one could still add.
  if (standing() < target_) return;
  for (auto& [id, home] : homes_) {
    if (home.state == State::kDraining && home.visits == 0) close(id, home, "drained");
  }
}

void Homes::pause(Duration least, Instant now) {
  const Duration most =
      std::min<Duration>(kMaxPause, kFirstPause * (1l << std::min(failures_, 16u)));
  ++failures_;
  std::uniform_int_distribution<Duration::rep> draw(0, most.count());
  not_before_ = std::max(not_before_, now + std::max(least, Duration(draw(random_))));
}

void Homes::failed(HomeId home, bool clean, Duration wait, Instant now) {
  const auto found = homes_.find(home);
  if (found == homes_.end()) return;
  homes_.erase(found);
  if (clean) failures_ = std::min(failures_, 1u);
  pause(wait, now);
  fill(now);
}

void Homes::registered(HomeId home, const std::string& replica_uid, std::uint32_t target,
                       Instant now) {
  const auto found = homes_.find(home);
  if (found == homes_.end() || found->second.state != State::kDialing) return;
  target_ = std::max(target, 1u);
  const bool held = std::any_of(homes_.begin(), homes_.end(), [&](const auto& each) {
    return each.first != home && each.second.replica_uid == replica_uid &&
           each.second.state == State::kStanding;
  });
  found->second.replica_uid = replica_uid;
  if (held || standing() >= target_) {
    leave(home, found->second, held ? "this replica is a home already" : "enough homes");
    pause(Duration(0), now);
  } else {
    found->second.state = State::kStanding;
    failures_ = 0;
  }
  close_drained();
  fill(now);
}

void Homes::set_target(std::uint32_t target, Instant now) {
  target_ = std::max(target, 1u);
  close_drained();
  fill(now);
}

void Homes::draining(HomeId home, Instant now) {
  const auto found = homes_.find(home);
  if (found == homes_.end() || found->second.state != State::kStanding) return;
  found->second.state = State::kDraining;
  failures_ = 0;
  not_before_ = now;
  close_drained();
  fill(now);
}

void Homes::set_visits(HomeId home, std::size_t visits, Instant) {
  const auto found = homes_.find(home);
  if (found == homes_.end()) return;
  found->second.visits = visits;
  if (found->second.state == State::kLeaving && visits == 0) {
    close(home, found->second, found->second.why);
  }
  close_drained();
}

void Homes::lost(HomeId home, bool clean, Instant now) {
  const auto found = homes_.find(home);
  if (found == homes_.end()) return;
  const State state = found->second.state;
  homes_.erase(found);
  if (state == State::kDialing) {
    pause(Duration(0), now);
  } else if (state == State::kStanding) {
    if (clean) failures_ = 0;
    // The first dial after a loss is a short draw away: a replica's agents do not come back as one.
    pause(Duration(0), now);
  }
  fill(now);
}

void Homes::on_timer(Instant now) {
  fill(now);
}

std::optional<Instant> Homes::next_deadline() const {
  if (!running_ || standing() + count(State::kDialing) >= target_) return std::nullopt;
  return not_before_;
}

std::optional<HomeAction> Homes::poll() {
  if (actions_.empty()) return std::nullopt;
  HomeAction next = std::move(actions_.front());
  actions_.pop_front();
  return next;
}

}  // namespace fairlead::dataplane
