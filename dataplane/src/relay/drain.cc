#include "drain.h"

#include <algorithm>

namespace fairlead::dataplane {

void Drain::start(const DrainOrder& order, Instant now) {
  const Instant deadline = now + std::max(order.deadline, std::chrono::milliseconds(0));
  if (started()) {
    if (!over()) deadline_at_ = std::min(deadline_at_, deadline);
    final_ = final_ || order.final;
    return;
  }
  state_ = State::kDelay;
  reason_ = order.reason;
  started_at_ = now;
  deadline_at_ = deadline;
  close_at_ = now + std::max(order.delay, std::chrono::milliseconds(0));
  final_ = order.final;
}

DrainActions Drain::step(const DrainLoad& load, Instant now) {
  DrainActions actions;
  if (!started() || over()) return actions;
  if (!goaway_sent_ && now >= started_at_ + kAgentGrace)
    actions.goaway_agents = goaway_sent_ = true;
  if (state_ == State::kDelay && now >= close_at_) {
    const bool wait = !final_ && !load.other_active && now < close_at_ + kLastReplicaGrace;
    if (!wait || now >= deadline_at_) {
      state_ = State::kDraining;
      actions.close_listeners = true;
      // What was queued on the listeners is not in `load` yet.
      return actions;
    }
  }
  const bool empty =
      load.visits == 0 && load.keepalive_sockets == 0 && (load.agents == 0 || !load.other_active);
  if (state_ == State::kDraining && empty) {
    state_ = State::kDrained;
  } else if (now >= deadline_at_) {
    actions.close_listeners = state_ == State::kDelay;
    state_ = State::kForced;
    actions.reset_rest = true;
  }
  actions.finished = over();
  if (over()) ended_at_ = now;
  return actions;
}

std::optional<Instant> Drain::next_deadline() const {
  if (!started() || over()) return std::nullopt;
  Instant next = deadline_at_;
  if (state_ == State::kDelay) next = std::min(next, close_at_);
  if (!goaway_sent_) next = std::min(next, started_at_ + kAgentGrace);
  return next;
}

std::chrono::milliseconds Drain::elapsed(Instant now) const {
  if (!started()) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>((over() ? ended_at_ : now) -
                                                               started_at_);
}

std::chrono::milliseconds Drain::deadline() const {
  if (!started()) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline_at_ - started_at_);
}

const char* drain_state_name(Drain::State state) {
  switch (state) {
    case Drain::State::kNone:
      return "none";
    case Drain::State::kDelay:
      return "delay";
    case Drain::State::kDraining:
      return "draining";
    case Drain::State::kDrained:
      return "drained";
    case Drain::State::kForced:
      return "forced";
  }
  return "unknown";
}

}  // namespace fairlead::dataplane
