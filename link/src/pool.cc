#include "fairlead/link/pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace fairlead::link {
namespace {

// A link that stood for less than this before its goaway does not earn an immediate redial.
constexpr Duration kShortLived = std::chrono::seconds(1);

}  // namespace

Pool::Pool(const PoolConfig& config, std::uint64_t seed)
    : config_(config), random_(seed), slots_(std::max<std::uint32_t>(config.size, 1)) {}

void Pool::start() {
  stopped_ = false;
  for (SlotIndex index = 0; index < slots_.size(); ++index) {
    if (slots_[index].state != SlotState::kClosed) continue;
    slots_[index].attempts = 0;
    dial(index);
  }
}

void Pool::stop() {
  if (stopped_) return;
  stopped_ = true;
  const auto close = [this](LinkId link) {
    actions_.push_back(action::Close{link, code::kOk, "the pool was stopped"});
  };
  for (Slot& slot : slots_) {
    if (slot.state == SlotState::kWaiting) slot.state = SlotState::kClosed;
    if (slot.state == SlotState::kUp) close(slot.link);
  }
  for (DrainingLink& draining : draining_) {
    if (!std::exchange(draining.closing, true)) close(draining.link);
  }
}

void Pool::dial(SlotIndex index) {
  slots_[index].state = SlotState::kDialing;
  actions_.push_back(action::Dial{index});
}

// Puts the slot to sleep for its next backoff.
Duration Pool::wait(Slot& slot, Instant now) {
  Duration ceiling = config_.backoff_first;
  for (std::uint32_t n = 0; n < slot.attempts && ceiling < config_.backoff_max; ++n) ceiling *= 2;
  ceiling = std::min(ceiling, config_.backoff_max);
  ++slot.attempts;
  const Duration chosen(std::uniform_int_distribution<Duration::rep>(0, ceiling.count())(random_));
  slot.state = SlotState::kWaiting;
  slot.dial_at = now + chosen;
  return chosen;
}

void Pool::dial_succeeded(SlotIndex index, LinkId link, Instant now) {
  if (index >= slots_.size() || slots_[index].state != SlotState::kDialing) return;
  Slot& slot = slots_[index];
  slot.state = SlotState::kUp;
  slot.link = link;
  slot.up_since = now;
  actions_.push_back(action::Up{link, index});
  if (stopped_) actions_.push_back(action::Close{link, code::kOk, "the pool was stopped"});
}

void Pool::dial_failed(SlotIndex index, std::string cause, Instant now) {
  if (index >= slots_.size() || slots_[index].state != SlotState::kDialing) return;
  if (stopped_) {
    slots_[index].state = SlotState::kClosed;
    return;
  }
  const Duration retry_in = wait(slots_[index], now);
  actions_.push_back(action::DialFailed{index, std::move(cause), retry_in});
}

Pool::Slot* Pool::slot_of(LinkId link) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [link](const Slot& slot) {
    return slot.state == SlotState::kUp && slot.link == link;
  });
  return found == slots_.end() ? nullptr : &*found;
}

void Pool::link_draining(LinkId link, int phase, GoawayReason reason, Instant now) {
  if (Slot* slot = slot_of(link)) {
    draining_.push_back({link, phase, stopped_});
    actions_.push_back(action::Draining{link, reason});
    const Duration lived = now - slot->up_since;
    if (lived >= config_.backoff_max) slot->attempts = 0;
    if (stopped_ || reason == GoawayReason::kLeave) {
      slot->state = SlotState::kClosed;
    } else if (lived < kShortLived) {
      wait(*slot, now);
    } else {
      dial(static_cast<SlotIndex>(slot - slots_.data()));
    }
    close_oldest_draining();
    return;
  }
  for (DrainingLink& draining : draining_) {
    if (draining.link == link) draining.phase = std::max(draining.phase, phase);
  }
}

void Pool::close_oldest_draining() {
  if (links_draining() <= slots_.size()) return;
  const auto oldest = std::find_if(draining_.begin(), draining_.end(),
                                   [](const DrainingLink& link) { return !link.closing; });
  oldest->closing = true;
  actions_.push_back(action::Close{oldest->link, code::kDrainTimeout,
                                   "too many draining links linger; this is the oldest"});
}

void Pool::link_closed(LinkId link, bool clean, std::string cause, Instant now) {
  if (Slot* slot = slot_of(link)) {
    if (clean || now - slot->up_since >= config_.backoff_max) slot->attempts = 0;
    if (stopped_) {
      slot->state = SlotState::kClosed;
    } else {
      wait(*slot, now);
    }
  } else if (std::erase_if(draining_, [link](const auto& each) { return each.link == link; }) ==
             0) {
    return;
  }
  actions_.push_back(action::Down{link, clean, std::move(cause)});
}

std::optional<Instant> Pool::next_deadline() const {
  std::optional<Instant> next;
  for (const Slot& slot : slots_) {
    if (slot.state == SlotState::kWaiting && (!next || slot.dial_at < *next)) next = slot.dial_at;
  }
  return next;
}

void Pool::on_timer(Instant now) {
  for (SlotIndex index = 0; index < slots_.size(); ++index) {
    const Slot& slot = slots_[index];
    if (slot.state == SlotState::kWaiting && now >= slot.dial_at) dial(index);
  }
}

std::optional<PoolAction> Pool::poll_action() {
  if (actions_.empty()) return std::nullopt;
  PoolAction next = std::move(actions_.front());
  actions_.pop_front();
  return next;
}

std::optional<LinkId> Pool::pick(const std::function<std::optional<LinkLoad>(LinkId)>& load) const {
  if (stopped_) return std::nullopt;
  std::optional<std::tuple<int, std::uint32_t>> best;  // group, sessions: less is better
  std::optional<LinkId> chosen;
  const auto consider = [&](LinkId link, int group) {
    const std::optional<LinkLoad> candidate = load(link);
    if (!candidate) return;
    const std::tuple rank(group + (candidate->probe_overdue ? 2 : 0), candidate->sessions);
    if (best && rank >= *best) return;
    best = rank;
    chosen = link;
  };
  for (const Slot& slot : slots_) {
    if (slot.state == SlotState::kUp) consider(slot.link, 1);
  }
  for (const DrainingLink& draining : draining_) {
    if (draining.phase == 0 && !draining.closing) consider(draining.link, 2);
  }
  return chosen;
}

std::uint32_t Pool::links_up() const {
  return static_cast<std::uint32_t>(std::count_if(
      slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == SlotState::kUp; }));
}

std::uint32_t Pool::links_draining() const {
  return static_cast<std::uint32_t>(std::count_if(
      draining_.begin(), draining_.end(), [](const DrainingLink& link) { return !link.closing; }));
}

}  // namespace fairlead::link
