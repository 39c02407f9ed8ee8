#include "fairlead/link/connection.h"

#include <algorithm>
#include <cassert>

#include "connection_impl.h"

namespace fairlead::link {
namespace {

// `received` is told to the sender at least this often, so that it can drop what it keeps.
constexpr std::uint64_t kReceivedStep = 64 * 1024;
constexpr std::uint64_t kLeastFrame = 4096;
// A round trip that is not known yet.
constexpr std::chrono::microseconds kUnknownRtt = std::chrono::milliseconds(1);

std::uint32_t session_ceiling(const Config& config) {
  // Each opener's sessions fit a quarter of the budget by their floors, so both fit the half that
  // is set aside for floors.
  const std::uint64_t fitting = config.budget / 4 / kFloorWindow;
  const std::uint64_t wanted = std::max(config.max_peer_sessions, kMinOpens);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(std::min(wanted, fitting), kMinOpens));
}

std::uint64_t least_budget(const Config& config) {
  return std::max<std::uint64_t>(config.budget, std::uint64_t{kMinOpens} * kFloorWindow * 4);
}

}  // namespace

std::string_view open_error_name(OpenError error) {
  switch (error) {
    case OpenError::kNone:
      return "none";
    case OpenError::kClosed:
      return "the link is closed";
    case OpenError::kDraining:
      return "the link is draining";
    case OpenError::kExhausted:
      return "the peer allows no more sessions on this link now";
    case OpenError::kBadMeta:
      return "the metadata is larger than 4096 bytes";
    case OpenError::kIds:
      return "the link's session ids are used up";
  }
  return "unknown";
}

void SendQueue::pop_into(std::span<std::byte> out) {
  bytes_ -= out.size();
  while (!out.empty()) {
    Slice& slice = slices_[head_];
    const std::size_t n = std::min(out.size(), slice.size());
    std::copy_n(slice.bytes().begin(), n, out.begin());
    out = out.subspan(n);
    if (n < slice.size()) {
      slice = slice.from(n);
      return;
    }
    slice = Slice();
    ++head_;
  }
  if (head_ == slices_.size()) {
    slices_ = {};
    head_ = 0;
  } else if (head_ >= 64 && head_ * 2 >= slices_.size()) {
    slices_.erase(slices_.begin(), slices_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

Connection::Impl::Impl(const Config& config, Instant now)
    : config_(config),
      keepalive_(config.liveness, now),
      budget_(least_budget(config), config.pool),
      hello_deadline_(now + kHelloTimeout),
      now_(now),
      closed_at_(now),
      max_sessions_(session_ceiling(config)),
      next_id_(config.side == Side::kDialer ? 1 : 2),
      opens_told_(max_sessions_),
      goaway_deadline_(now),
      pings_(limit::kPingBurst, limit::kPingsPerSecond, now),
      early_resets_(limit::kEarlyResetBurst, limit::kEarlyResetsPerSecond, now),
      no_effect_(limit::kNoEffectBurst, limit::kNoEffectPerSecond, now),
      tiny_(limit::kTinyBurst, limit::kTinyPerSecond, now),
      skipped_(limit::kSkippedBurst, limit::kSkippedPerSecond, now) {
  assert(check_liveness(config.liveness).empty());
}

Session* Connection::Impl::find(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

const Session* Connection::Impl::find(SessionId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

// Ends the link for its user: every session that lived is cut, then Closed. What `life` leaves to
// be produced is still sent.
void Connection::Impl::end(Life life, Cut cut) {
  if (!alive()) {
    if (life == Life::kDone) life_ = Life::kDone;
    reap();
    return;
  }
  life_ = life;
  closed_at_ = now_;
  for (auto& [id, session] : sessions_) {
    session->window.release(budget_);
    if (!session->retired) {
      session->retired = true;
      tell(*session, event::SessionCut{id});
    }
    if (life != Life::kClosing) session->queue.clear();
  }
  events_.push_back(event::Closed{std::move(cut)});
  reap();
}

// What a closing link still has to say for a session.
bool Connection::Impl::has_something_to_send(const Session& session) const {
  return life_ == Life::kClosing && (session.owes_control() || sendable(session));
}

// Frees the sessions that nobody waits for any more, once the link is over.
void Connection::Impl::reap() {
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    Session& session = *(next++)->second;
    if (session.released && !has_something_to_send(session)) erase(session);
  }
}

void Connection::Impl::fail(Code code, std::string text) {
  if (!alive()) return;
  close_owed_ = wire::Close{code, text};
  end(Life::kFailing, Cut{CutKind::kProtocolError, code, std::move(text)});
}

void Connection::Impl::transport_ended(CutKind kind, std::string text) {
  close_owed_.reset();
  end(Life::kDone, Cut{kind, code::kOk, std::move(text)});
}

void Connection::Impl::close(Code code, std::string_view text, Instant now) {
  if (!alive()) return;
  now_ = now;
  close_owed_ = wire::Close{code, std::string(text.substr(0, kMaxText))};
  if (leaving_ != Leaving::kYes) exclude_untold(text);
  end(Life::kClosing, Cut{CutKind::kClosed, code, std::string(text)});
}

// The peer's opens that the application has not heard of, on their way or in our queue, were not
// processed: a GOAWAY before CLOSE says so, and their opener may repeat them elsewhere.
void Connection::Impl::exclude_untold(std::string_view text) {
  const auto untold = [this](SessionId id) { return !is_ours(id) && id > told_last_id_; };
  std::erase_if(events_, [&](const Event& event) {
    return std::visit(
        [&](const auto& each) {
          if constexpr (requires { each.id; }) {
            return untold(each.id);
          } else {
            return false;
          }
        },
        event);
  });
  std::vector<Session*> excluded;
  for (auto& [id, session] : sessions_) {
    if (untold(id)) excluded.push_back(session.get());
  }
  for (Session* session : excluded) erase(*session);
  if (leaving_ == Leaving::kNo) {
    goaway_.reason = GoawayReason::kRoll;
    goaway_.text = std::string(text.substr(0, kMaxText));
  }
  leaving_ = Leaving::kPhase1Owed;
}

std::optional<Instant> Connection::Impl::next_deadline() const {
  if (life_ == Life::kDone) return std::nullopt;
  if (!alive()) return closed_at_ + keepalive_.liveness().bound();
  Instant next = keepalive_.next_deadline();
  if (!peer_) next = std::min(next, hello_deadline_);
  if (!flush_.empty()) next = std::min(next, flush_.front().first);
  if (leaving_ == Leaving::kRoundTrip) next = std::min(next, goaway_deadline_);
  return next;
}

void Connection::Impl::on_timer(Instant now) {
  now_ = now;
  if (!alive()) {
    if (now >= closed_at_ + keepalive_.liveness().bound()) life_ = Life::kDone;
    reap();
    return;
  }
  while (!flush_.empty() && flush_.front().first <= now) {
    const SessionId id = flush_.front().second;
    flush_.pop_front();
    if (Session* session = find(id)) {
      session->flush_armed = false;
      credit_owed(*session);
    }
  }
  if (leaving_ == Leaving::kRoundTrip && now >= goaway_deadline_) leaving_ = Leaving::kPhase1Owed;
  if (!peer_ && now >= hello_deadline_) {
    fail(code::kCalm, "no HELLO within 10 s");
    return;
  }
  const auto bound = [&] { return std::to_string(keepalive_.liveness().bound().count()) + " ms"; };
  switch (keepalive_.check(now)) {
    case Keepalive::Verdict::kAlive:
      if (wants_write()) keepalive_.backlogged(now);
      break;
    case Keepalive::Verdict::kDead:
      end(Life::kDone, Cut{CutKind::kDeadPeer, code::kOk, "nothing received for " + bound()});
      break;
    case Keepalive::Verdict::kUnanswered:
      end(Life::kDone, Cut{CutKind::kUnanswered, code::kOk,
                           "bytes arrive, but a PING got no answer for three timeouts"});
      break;
    case Keepalive::Verdict::kStalled:
      end(Life::kDone, Cut{CutKind::kStalled, code::kOk, "nothing could be sent for " + bound()});
      break;
  }
}

std::optional<Event> Connection::Impl::poll_event() {
  // False for an event of a session that was released after it was queued.
  const auto wanted = [this](auto& next) {
    if constexpr (requires { next.id; }) {
      Session* session = find(next.id);
      if (session == nullptr || session->released) return false;
      // These two carry the newest values, whenever they were queued.
      using E = std::remove_reference_t<decltype(next)>;
      if constexpr (std::is_same_v<E, event::Credit>) {
        session->credit_event_queued = false;
        next = {session->id, session->peer_limit, session->peer_received};
      } else if constexpr (std::is_same_v<E, event::Sent>) {
        session->sent_event_queued = false;
        next = {session->id, session->sent};
      } else if constexpr (std::is_same_v<E, event::Opened>) {
        told_last_id_ = next.id;
      }
    }
    return true;
  };
  while (!events_.empty()) {
    Event next = std::move(events_.front());
    events_.pop_front();
    if (std::visit(wanted, next)) return next;
  }
  return std::nullopt;
}

// --- what sessions owe ---

void Connection::Impl::queue_control(Session& session) {
  if (session.control_queued) return;
  session.control_queued = true;
  control_.push_back(session.id);
}

bool Connection::Impl::sendable(const Session& session) const {
  if (session.send == SendState::kReset || session.send == SendState::kFinished) return false;
  if (session.owes_open || session.owes_accept || (!session.ours && !session.accepted))
    return false;
  const std::uint64_t queued = session.queue.bytes();
  if (queued == 0) return session.send == SendState::kFinishing;
  const std::uint64_t room = session.peer_limit - session.sent;
  // A small grant is saved up until it carries the rest or is worth a frame (silly windows), but
  // not when the peer holds all we sent: its reader may be waiting for just these bytes.
  if (room >= std::min<std::uint64_t>(queued, kLeastFrame)) return true;
  return room > 0 && session.peer_received == session.sent;
}

void Connection::Impl::queue_data(Session& session) {
  if (sendable(session)) scheduler_.add(session.id, session.place);
}

void Connection::Impl::reset_send(Session& session, Code code) {
  session.send = SendState::kReset;
  session.reset_code = code;
  session.queue.clear();
  session.owes_reset = true;
  queue_control(session);
}

// A grant or an acknowledgement changed: tell it now when that is worth a frame, else within
// kCreditDelay, together with what changes until then.
void Connection::Impl::credit_changed(Session& session, Instant now) {
  if (!session.ours && !session.accepted) return;  // ACCEPT goes first and carries the limit
  const std::uint64_t received = session.received();
  const std::uint64_t news = received - std::min(received, session.received_told);
  const bool granting = session.recv == RecvState::kOpen && !session.discarding;
  if (news >= kReceivedStep || (session.got_fin && news > 0) ||
      (granting && session.window.grant_due())) {
    credit_owed(session);
    return;
  }
  const bool more = granting && session.window.next_limit() > session.window.limit();
  if ((news > 0 || more) && !session.flush_armed && !session.owes_credit) {
    session.flush_armed = true;
    flush_.emplace_back(now + kCreditDelay, session.id);
  }
}

void Connection::Impl::credit_owed(Session& session) {
  if (session.retired || session.recv == RecvState::kReset) return;
  session.owes_credit = true;
  queue_control(session);
}

void Connection::Impl::maybe_retire(Session& session) {
  if (session.retired || !session.send_done() || !session.recv_done() || session.owes_control()) {
    return;
  }
  session.retired = true;
  no_effect_.refund(limit::kIdlePerRetired);
  tell(session, event::Retired{session.id});
  if (session.released) erase(session);
}

void Connection::Impl::erase(Session& session) {
  session.window.release(budget_);
  budget_.return_floor();
  if (session.ours) {
    --live_ours_;
  } else {
    ++peer_repaid_;
  }
  sessions_.erase(session.id);
}

bool Connection::Impl::opens_due() const {
  const std::uint32_t allowed = peer_repaid_ + max_sessions_;
  return allowed > opens_told_ && opens_told_ - peer_opened_ <= max_sessions_ / 2;
}

std::chrono::microseconds Connection::Impl::round_trip(const Session& session) const {
  const auto own = rtt_.count() > 0 ? rtt_ : kUnknownRtt;
  // A relay sizes the window of its own hop; an end sizes the window of the whole path.
  return session.relayed ? own : own + std::chrono::microseconds(session.path_rtt_us);
}

// --- commands ---

OpenResult Connection::Impl::open(const OpenRequest& request, Instant now) {
  if (!alive()) return {0, OpenError::kClosed};
  if (peer_goaway_phase_ == 1) return {0, OpenError::kDraining};
  if (request.meta.size() > kMaxMeta) return {0, OpenError::kBadMeta};
  if (next_id_ > 0xffff'fffd) return {0, OpenError::kIds};
  if (opened_ >= peer_opens_ || live_ours_ >= max_sessions_) return {0, OpenError::kExhausted};
  if (!budget_.reserve_floor()) return {0, OpenError::kExhausted};
  const SessionId id = next_id_;
  next_id_ += 2;
  ++opened_;
  ++live_ours_;
  const std::uint64_t limit =
      std::min<std::uint64_t>(kFloorWindow, request.credit_cap.value_or(kFloorWindow));
  auto session = std::make_unique<Session>(id, true, config_.window_max, limit, now);
  session->visit = request.visit;
  session->relayed = request.credit_cap.has_value();
  if (request.credit_cap) session->window.set_cap(*request.credit_cap);
  session->place.priority = request.priority;
  session->place.weight = std::max<std::uint8_t>(request.weight, 1);
  session->path_rtt_told = request.path_rtt_us;
  session->meta = request.meta;
  session->peer_limit = peer_initial_window_;
  session->owes_open = true;
  queue_control(*session);
  sessions_.emplace(id, std::move(session));
  return {id, OpenError::kNone};
}

bool Connection::Impl::accept(SessionId id, Slice meta, std::uint32_t path_rtt_us, Instant now,
                              std::optional<std::uint64_t> credit_cap) {
  Session* session = find(id);
  if (session == nullptr || session->retired || session->released || session->ours ||
      session->accepted || meta.size() > kMaxMeta) {
    return false;
  }
  session->accepted = session->answered = true;
  session->owes_accept = true;
  session->meta = std::move(meta);
  session->path_rtt_told = path_rtt_us;
  if (credit_cap) {
    session->relayed = true;
    session->window.set_cap(*credit_cap);
  }
  queue_control(*session);
  credit_changed(*session, now);
  return true;
}

bool Connection::Impl::write(SessionId id, Slice bytes) {
  Session* session = find(id);
  if (session == nullptr || session->retired || session->released ||
      session->send != SendState::kOpen) {
    return false;
  }
  if (bytes.empty()) return true;
  session->queue.push(std::move(bytes));
  queue_data(*session);
  return true;
}

bool Connection::Impl::finish(SessionId id) {
  Session* session = find(id);
  if (session == nullptr || session->retired || session->released ||
      session->send != SendState::kOpen) {
    return false;
  }
  session->send = SendState::kFinishing;
  queue_data(*session);
  return true;
}

bool Connection::Impl::reset(SessionId id, Code code) {
  Session* session = find(id);
  if (session == nullptr || session->retired || session->released || session->send_done()) {
    return false;
  }
  session->answered = true;
  reset_send(*session, code);
  return true;
}

bool Connection::Impl::stop(SessionId id, Code code) {
  Session* session = find(id);
  if (session == nullptr || session->retired || session->released || session->recv_done() ||
      session->discarding) {
    return false;
  }
  session->answered = true;
  session->discarding = true;
  session->stop_code = code;
  session->owes_stop = true;
  queue_control(*session);
  return true;
}

bool Connection::Impl::consume(SessionId id, std::uint64_t n, Instant now) {
  Session* session = find(id);
  if (session == nullptr || session->retired || session->released) return false;
  session->window.consume(n, round_trip(*session), now, budget_);
  credit_changed(*session, now);
  return true;
}

bool Connection::Impl::relay_credit(SessionId id, std::uint64_t cap, std::uint64_t received,
                                    Instant now) {
  Session* session = find(id);
  if (session == nullptr || session->retired || session->released) return false;
  session->relayed = true;
  session->window.set_cap(cap);
  // More than came in cannot have gone out: telling it would make the peer end the link.
  const std::uint64_t most = session->window.received() + (session->got_fin ? 1 : 0);
  session->relayed_received = std::max(session->relayed_received, std::min(received, most));
  credit_changed(*session, now);
  return true;
}

bool Connection::Impl::acknowledge_fin(SessionId id, Instant now) {
  Session* session = find(id);
  if (session == nullptr || session->retired || session->released || !session->got_fin ||
      session->fin_acknowledged) {
    return false;
  }
  session->fin_acknowledged = true;
  credit_changed(*session, now);
  return true;
}

bool Connection::Impl::release(SessionId id, Instant now, Code code) {
  Session* session = find(id);
  if (session == nullptr || session->released) return false;
  session->released = session->answered = true;
  if (session->retired) {
    if (!has_something_to_send(*session)) erase(*session);
    return true;
  }
  session->window.consume(session->window.received(), round_trip(*session), now, budget_);
  if (!session->send_done()) reset_send(*session, code);
  if (!session->recv_done() && !session->discarding) {
    session->discarding = true;
    session->stop_code = code;
    session->owes_stop = true;
    queue_control(*session);
  }
  maybe_retire(*session);
  return true;
}

void Connection::Impl::goaway(GoawayReason reason, std::chrono::milliseconds grace,
                              std::string_view text) {
  if (!alive() || leaving_ != Leaving::kNo) return;
  leaving_ = Leaving::kPhase0Owed;
  goaway_.reason = reason;
  goaway_.grace_ms = static_cast<std::uint32_t>(
      std::clamp<std::chrono::milliseconds::rep>(grace.count(), 0, 0xffff'ffff));
  goaway_.text = std::string(text.substr(0, kMaxText));
}

// --- the public face ---

Connection::Connection(const Config& config, Instant now)
    : impl_(std::make_unique<Impl>(config, now)) {}
Connection::~Connection() = default;

void Connection::receive(Bytes bytes, Instant now) {
  impl_->receive(bytes, now);
}
void Connection::transport_ended(CutKind kind, std::string text, Instant now) {
  impl_->now_ = now;
  impl_->transport_ended(kind, std::move(text));
}
bool Connection::wants_write() const {
  return impl_->wants_write();
}
std::size_t Connection::produce(std::span<std::byte> out, Instant now) {
  return impl_->produce(out, now);
}
std::optional<Instant> Connection::next_deadline() const {
  return impl_->next_deadline();
}
void Connection::on_timer(Instant now) {
  impl_->on_timer(now);
}
void Connection::set_rtt(std::chrono::microseconds rtt) {
  impl_->rtt_ = rtt;
}
bool Connection::done() const {
  return impl_->life_ == Impl::Life::kDone;
}
bool Connection::closed() const {
  return impl_->life_ != Impl::Life::kOpen;
}
std::optional<Event> Connection::poll_event() {
  return impl_->poll_event();
}

OpenResult Connection::open(const OpenRequest& request, Instant now) {
  return impl_->open(request, now);
}
bool Connection::accept(SessionId id, Slice meta, std::uint32_t path_rtt_us, Instant now,
                        std::optional<std::uint64_t> credit_cap) {
  return impl_->accept(id, std::move(meta), path_rtt_us, now, credit_cap);
}
bool Connection::write(SessionId id, Slice bytes) {
  return impl_->write(id, std::move(bytes));
}
bool Connection::finish(SessionId id) {
  return impl_->finish(id);
}
bool Connection::reset(SessionId id, Code code) {
  return impl_->reset(id, code);
}
bool Connection::stop(SessionId id, Code code) {
  return impl_->stop(id, code);
}
bool Connection::consume(SessionId id, std::uint64_t n, Instant now) {
  return impl_->consume(id, n, now);
}
bool Connection::relay_credit(SessionId id, std::uint64_t cap, std::uint64_t received,
                              Instant now) {
  return impl_->relay_credit(id, cap, received, now);
}
bool Connection::acknowledge_fin(SessionId id, Instant now) {
  return impl_->acknowledge_fin(id, now);
}
bool Connection::release(SessionId id, Instant now, Code code) {
  return impl_->release(id, now, code);
}
std::uint64_t Connection::send_room(SessionId id) const {
  const Session* session = impl_->find(id);
  if (session == nullptr || session->retired) return 0;
  const std::uint64_t written = session->sent + session->queue.bytes();
  return session->peer_limit > written ? session->peer_limit - written : 0;
}
std::uint64_t Connection::queued(SessionId id) const {
  const Session* session = impl_->find(id);
  return session == nullptr ? 0 : session->queue.bytes();
}
std::uint64_t Connection::peer_limit(SessionId id) const {
  const Session* session = impl_->find(id);
  return session == nullptr ? 0 : session->peer_limit;
}
void Connection::goaway(GoawayReason reason, std::chrono::milliseconds grace, std::string_view text,
                        Instant) {
  impl_->goaway(reason, grace, text);
}
bool Connection::draining() const {
  return impl_->peer_goaway_phase_ >= 0;
}
void Connection::close(Code code, std::string_view text, Instant now) {
  impl_->close(code, text, now);
}
Liveness Connection::liveness() const {
  return impl_->keepalive_.liveness();
}
bool Connection::probe_overdue(Instant now) const {
  return impl_->keepalive_.probe_overdue(now);
}
std::uint32_t Connection::session_count() const {
  return static_cast<std::uint32_t>(impl_->sessions_.size());
}
std::uint32_t Connection::rtt_us() const {
  return static_cast<std::uint32_t>(impl_->rtt_.count());
}
LinkStats Connection::stats() const {
  LinkStats stats = impl_->stats_;
  stats.sessions = session_count();
  stats.granted = impl_->budget_.used();
  stats.rtt_us = rtt_us();
  return stats;
}

}  // namespace fairlead::link
