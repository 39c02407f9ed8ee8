// What is sent next: link control, then session control, then DATA by class, chosen when the
// transport has room and not before.
#include <algorithm>
#include <cstring>

#include "connection_impl.h"

namespace fairlead::link {

// The rest of the owner's buffer.
class Connection::Impl::Output {
 public:
  Output(std::span<std::byte> room, Impl& owner) : room_(room), owner_(owner) {}

  std::size_t written() const { return written_; }
  std::size_t room() const { return room_.size() - written_; }

  // False, and nothing written, when the frame does not fit.
  bool put(SessionId session, const wire::Frame& frame) {
    owner_.scratch_.clear();
    wire::encode(session, frame, owner_.scratch_);
    if (owner_.scratch_.size() > room()) return false;
    std::memcpy(room_.data() + written_, owner_.scratch_.data(), owner_.scratch_.size());
    written_ += owner_.scratch_.size();
    ++owner_.stats_.frames_out;
    return true;
  }
  // A DATA frame whose payload is filled in place.
  std::span<std::byte> put_data(SessionId session, std::size_t size, bool fin) {
    const wire::Header header{static_cast<std::uint16_t>(size),
                              static_cast<std::uint8_t>(wire::Type::kData),
                              fin ? wire::kFlagFin : std::uint8_t{0}, session};
    wire::encode_header(header, room_.subspan(written_, wire::kHeaderSize));
    const auto payload = room_.subspan(written_ + wire::kHeaderSize, size);
    written_ += wire::kHeaderSize + size;
    ++owner_.stats_.frames_out;
    return payload;
  }

 private:
  std::span<std::byte> room_;
  std::size_t written_ = 0;
  Impl& owner_;
};

bool Connection::Impl::wants_write() const {
  if (life_ == Life::kDone) return false;
  if (life_ != Life::kOpen) return true;  // CLOSE at least
  return hello_owed_ || pong_owed_ || keepalive_.ping_owed() || keepalive_.sign_of_life_owed() ||
         opens_due() || leaving_ == Leaving::kPhase0Owed || leaving_ == Leaving::kPhase1Owed ||
         !control_.empty() || !scheduler_.empty();
}

std::size_t Connection::Impl::produce(std::span<std::byte> room, Instant now) {
  Output out(room, *this);
  now_ = now;
  if (life_ == Life::kDone) return 0;
  if (life_ == Life::kFailing) {
    if (hello_owed_) {
      // The peer reads CLOSE only after HELLO.
      life_ = Life::kOpen;
      const bool told = produce_link(out, now);
      life_ = Life::kFailing;
      if (!told) return out.written();
    }
    produce_close(out);
  } else if (produce_link(out, now) && produce_session_control(out)) {
    produce_data(out);
    if (life_ == Life::kClosing && scheduler_.empty()) produce_close(out);
  }
  if (out.written() == 0 && alive() && keepalive_.sign_of_life_owed()) {
    out.put(0, wire::Pong{0});  // answers nothing: only shows that this end lives
  }
  if (!alive()) reap();
  stats_.bytes_out += out.written();
  if (out.written() > 0) keepalive_.wrote(now, wants_write());
  if (!wants_write()) keepalive_.nothing_to_write();
  return out.written();
}

void Connection::Impl::produce_close(Output& out) {
  if (!close_owed_ || !out.put(0, *close_owed_)) return;
  close_owed_.reset();
  life_ = Life::kDone;
}

// False when the room ended before all was said.
bool Connection::Impl::produce_link(Output& out, Instant now) {
  if (hello_owed_) {
    wire::Hello hello{.versions = {wire::kVersion},
                      .software = config_.software,
                      .role = config_.role,
                      .name = config_.name,
                      .opens = opens_told_};
    if (config_.side == Side::kDialer) hello.liveness = config_.liveness;
    if (!out.put(0, hello)) return false;
    hello_owed_ = false;
  }
  if (pong_owed_) {
    if (!out.put(0, wire::Pong{*pong_owed_})) return false;
    pong_owed_.reset();
  }
  if (leaving_ == Leaving::kPhase0Owed) {
    goaway_.phase = 0;
    goaway_.last_id = 0xffff'ffff;
    if (!out.put(0, goaway_)) return false;
    leaving_ = Leaving::kRoundTrip;
    goaway_token_ = keepalive_.request_ping();
    goaway_deadline_ = now + keepalive_.liveness().timeout;
  }
  if (leaving_ == Leaving::kPhase1Owed) {
    goaway_.phase = 1;
    goaway_.last_id = life_ == Life::kClosing ? told_last_id_ : peer_last_id_;
    if (!out.put(0, goaway_)) return false;
    refuse_above_ = goaway_.last_id;
    leaving_ = Leaving::kYes;
  }
  if (keepalive_.ping_owed()) {
    // Asked only when it fits, since next_token() counts it as sent.
    if (out.room() < wire::kHeaderSize + 8) return false;
    out.put(0, wire::Ping{keepalive_.next_token(now)});
  }
  if (opens_due()) {
    const std::uint32_t limit = peer_repaid_ + max_sessions_;
    if (!out.put(0, wire::Opens{limit})) return false;
    opens_told_ = limit;
  }
  return true;
}

bool Connection::Impl::produce_session_control(Output& out) {
  while (!control_.empty()) {
    Session* session = find(control_.front());
    if (session != nullptr) {
      if (!produce_control_of(*session, out)) return false;
      session->control_queued = false;
      queue_data(*session);
    }
    control_.pop_front();
    if (session != nullptr) maybe_retire(*session);
  }
  return true;
}

bool Connection::Impl::produce_control_of(Session& session, Output& out) {
  if (session.owes_open) {
    const wire::Open open{session.window.grant(), session.place.priority, session.place.weight,
                          session.path_rtt_told,  session.visit,          session.meta.bytes()};
    if (!out.put(session.id, open)) return false;
    session.owes_open = false;
    session.meta = Slice();
  }
  if (session.owes_accept) {
    const wire::Accept accept{session.window.grant(), session.path_rtt_told, session.meta.bytes()};
    if (!out.put(session.id, accept)) return false;
    session.owes_accept = false;
    session.meta = Slice();
  }
  if (session.owes_credit) {
    const wire::Credit credit{session.window.grant(), session.received()};
    if (!out.put(session.id, credit)) return false;
    session.owes_credit = false;
    session.received_told = credit.received;
  }
  if (session.owes_stop) {
    if (!out.put(session.id, wire::Stop{session.stop_code})) return false;
    session.owes_stop = false;
  }
  if (session.owes_reset) {
    if (!out.put(session.id, wire::Reset{session.reset_code, session.sent})) return false;
    session.owes_reset = false;
  }
  return true;
}

void Connection::Impl::produce_data(Output& out) {
  const auto place_of = [this](SessionId id) -> SendScheduler::Place* {
    Session* session = find(id);
    if (session == nullptr) return nullptr;
    if (sendable(*session)) return &session->place;
    SendScheduler::leave(session->place);
    return nullptr;
  };
  while (const auto id = scheduler_.next(place_of)) {
    Session& session = *find(*id);
    if (!produce_data_of(session, out)) return;
    maybe_retire(session);
  }
}

// One frame. False when it does not fit: the room that is left is not worth one.
bool Connection::Impl::produce_data_of(Session& session, Output& out) {
  const std::uint64_t queued = session.queue.bytes();
  const std::uint64_t credit = session.peer_limit - session.sent;
  std::uint64_t size = std::min({queued, credit, std::uint64_t{kMaxDataPayload}});
  if (out.room() < wire::kHeaderSize + size) {
    // A short frame is worth while only when it is not very short.
    constexpr std::uint64_t kLeastPart = 4096;
    if (out.room() < wire::kHeaderSize + kLeastPart) return false;
    size = out.room() - wire::kHeaderSize;
  }
  const bool fin = session.send == SendState::kFinishing && size == queued;
  const std::span<std::byte> payload =
      out.put_data(session.id, static_cast<std::size_t>(size), fin);
  session.queue.pop_into(payload);
  session.sent += size;
  if (fin) {
    session.send = SendState::kFinished;
    session.sent_fin = true;
  }
  if (session.relayed && size > 0 && !session.sent_event_queued && !session.retired) {
    session.sent_event_queued = true;
    tell(session, event::Sent{session.id, 0});
  }
  scheduler_.sent(session.id, session.place, std::max<std::uint64_t>(size, 1), sendable(session));
  return true;
}

}  // namespace fairlead::link
