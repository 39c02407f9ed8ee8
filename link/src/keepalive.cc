#include "keepalive.h"

#include <algorithm>

namespace fairlead::link {

Keepalive::Keepalive(const Liveness& liveness, Instant now)
    : liveness_(liveness), seen_(now), last_received_(now), last_wrote_(now), last_ping_(now) {}

void Keepalive::notice(Instant now) {
  const bool held_up = now - seen_ >= liveness_.interval + liveness_.interval / 2;
  seen_ = now;
  if (!held_up) return;
  grace_until_ = now + liveness_.timeout;
  ping_owed_ = true;
  if (backlog_since_) backlog_since_ = now;
  if (unanswered_since_) {
    unanswered_since_ = std::max(*unanswered_since_, now - 2 * liveness_.timeout);
  }
}

void Keepalive::received(Instant now) {
  notice(now);
  last_received_ = now;
  grace_until_.reset();
}

bool Keepalive::received_pong(std::uint64_t token) {
  // A PONG answers its PING and all older ones; token 0 and unknown tokens answer nothing.
  if (!unanswered_since_ || token > last_token_ || token < oldest_unanswered_) return false;
  if (token == last_token_) {
    unanswered_since_.reset();
    return true;
  }
  // Some younger PING is still out. When it was sent is not kept; it cannot be earlier than the
  // last but one, and judging it from the last one sent is at most one ping interval too kind.
  oldest_unanswered_ = token + 1;
  unanswered_since_ = last_ping_;
  return true;
}

void Keepalive::wrote(Instant now, bool backlog) {
  notice(now);
  last_wrote_ = now;
  data_unanswered_ = sign_of_life_owed_ = false;
  backlog_since_ = backlog ? std::optional(now) : std::nullopt;
}

void Keepalive::backlogged(Instant now) {
  if (!backlog_since_) backlog_since_ = now;
}

Instant Keepalive::dead_at() const {
  const Instant at = last_received_ + liveness_.bound();
  return grace_until_ ? std::max(at, *grace_until_) : at;
}

Instant Keepalive::ping_at() const {
  const Instant busy = last_ping_ + 3 * liveness_.interval;
  const Instant silent = last_received_ + liveness_.interval;
  // One PING for each silence: when the last one went out after the last byte came, it is waiting
  // for its answer and another would add nothing.
  return last_ping_ > last_received_ ? busy : std::min(busy, silent);
}

std::optional<Instant> Keepalive::unanswered_at() const {
  if (!unanswered_since_) return std::nullopt;
  return *unanswered_since_ + 3 * liveness_.timeout;
}

std::optional<Instant> Keepalive::stalled_at() const {
  if (!backlog_since_) return std::nullopt;
  return *backlog_since_ + liveness_.bound();
}

Keepalive::Verdict Keepalive::check(Instant now) {
  notice(now);
  if (now >= dead_at()) return Verdict::kDead;
  if (const auto at = unanswered_at(); at && now >= *at) return Verdict::kUnanswered;
  if (const auto at = stalled_at(); at && now >= *at) return Verdict::kStalled;
  if (now >= ping_at()) ping_owed_ = true;
  if (data_unanswered_ && now >= last_wrote_ + liveness_.interval / 2) sign_of_life_owed_ = true;
  return Verdict::kAlive;
}

std::uint64_t Keepalive::next_token(Instant now) {
  ping_owed_ = false;
  last_ping_ = now;
  ++last_token_;
  if (!unanswered_since_) {
    unanswered_since_ = now;
    oldest_unanswered_ = last_token_;
  }
  return last_token_;
}

std::uint64_t Keepalive::request_ping() {
  ping_owed_ = true;
  return last_token_ + 1;
}

Instant Keepalive::next_deadline() const {
  Instant next = std::min(dead_at(), seen_ + liveness_.interval);
  if (!ping_owed_) next = std::min(next, ping_at());
  if (data_unanswered_ && !sign_of_life_owed_) {
    next = std::min(next, last_wrote_ + liveness_.interval / 2);
  }
  if (const auto at = unanswered_at()) next = std::min(next, *at);
  if (const auto at = stalled_at()) next = std::min(next, *at);
  return next;
}

bool Keepalive::probe_overdue(Instant now) const {
  return unanswered_since_ && now >= *unanswered_since_ + liveness_.timeout;
}

}  // namespace fairlead::link
