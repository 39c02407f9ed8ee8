// What the peer's bytes do. Everything is checked before any state is made or changed.
#include <algorithm>
#include <cassert>

#include "connection_impl.h"

namespace fairlead::link {

void Connection::Impl::receive(Bytes bytes, Instant now) {
  if (!alive() || bytes.empty()) return;
  now_ = now;
  stats_.bytes_in += bytes.size();
  keepalive_.received(now);
  while (alive() && !partial_.empty() && !bytes.empty()) {
    // First the header, then the rest of the frame it announces.
    std::size_t whole = wire::kHeaderSize;
    if (partial_.size() >= whole) whole += wire::decode_header(Bytes(partial_).first(8)).length;
    const std::size_t n = std::min(whole - partial_.size(), bytes.size());
    partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (partial_.size() < whole) break;
    if (take_frame(partial_) > 0) partial_ = {};
  }
  while (alive() && !bytes.empty()) {
    const std::size_t taken = take_frame(bytes);
    if (taken == 0) break;
    bytes = bytes.subspan(taken);
  }
  if (alive() && !bytes.empty()) {
    if (bytes.size() >= wire::kHeaderSize) {
      partial_.reserve(wire::kHeaderSize + wire::decode_header(bytes.first(8)).length);
    }
    partial_.assign(bytes.begin(), bytes.end());
  }
  if (alive() && wants_write()) keepalive_.backlogged(now);
}

// Processes the frame at the start of `bytes`. Returns its size, or 0 when it is not complete.
std::size_t Connection::Impl::take_frame(Bytes bytes) {
  if (bytes.size() < wire::kHeaderSize) return 0;
  const wire::Header header = wire::decode_header(bytes.first(wire::kHeaderSize));
  const bool hello = header.type == static_cast<std::uint8_t>(wire::Type::kHello);
  if (!peer_ && !hello) {
    fail(code::kProtocol, "the first frame is of type " + std::to_string(header.type) +
                              ", not HELLO: the peer does not speak link");
    return 0;
  }
  if (header.length > kMaxDataPayload) {
    fail(code::kProtocol, "a frame of " + std::to_string(header.length) + " bytes: allowed is " +
                              std::to_string(kMaxDataPayload));
    return 0;
  }
  const std::size_t whole = wire::kHeaderSize + header.length;
  if (bytes.size() < whole) return 0;
  on_frame(header, bytes.subspan(wire::kHeaderSize, header.length));
  return whole;
}

void Connection::Impl::on_frame(const wire::Header& header, Bytes payload) {
  ++stats_.frames_in;
  std::string error;
  std::optional<wire::Frame> frame = wire::decode(header, payload, error);
  if (!frame) {
    fail(code::kProtocol, std::move(error));
    return;
  }
  std::visit([&](auto& each) { on(header, each); }, *frame);
}

// The session a frame is for. Null when there is nothing to do with it: an id that has retired, or
// one that was never opened, which ends the link.
Session* Connection::Impl::session_of(const wire::Header& header, const char* name) {
  Session* session = find(header.session);
  if (session != nullptr && !session->owes_open) return session->retired ? nullptr : session;
  const bool opened =
      session == nullptr &&
      (is_ours(header.session) ? header.session < next_id_ : header.session <= peer_last_id_);
  if (!opened) {
    fail(code::kProtocol, std::string(name) + " for session " + std::to_string(header.session) +
                              ", which was never opened");
  }
  return nullptr;
}

void Connection::Impl::no_effect() {
  if (!alive() || no_effect_.take(1, now_)) return;
  fail(code::kCalm, "too many frames without effect");
}

void Connection::Impl::on(const wire::Header&, wire::Hello& frame) {
  if (peer_) {
    fail(code::kProtocol, "a second HELLO");
    return;
  }
  if (std::find(frame.versions.begin(), frame.versions.end(), wire::kVersion) ==
      frame.versions.end()) {
    fail(code::kVersion,
         "no common version: this end speaks version 1 of link only; use a release "
         "that does, on both ends");
    return;
  }
  if (config_.side == Side::kListener) {
    if (!frame.liveness) {
      fail(code::kProtocol, "HELLO of a dialer without keepalive");
      return;
    }
    if (std::string wrong = check_liveness(*frame.liveness); !wrong.empty()) {
      fail(code::kProtocol, std::move(wrong));
      return;
    }
    keepalive_.adopt(*frame.liveness);
  }
  keepalive_.received(now_);
  peer_ = PeerHello{frame.software, frame.role, frame.name};
  peer_opens_ = std::max(peer_opens_, frame.opens);
  peer_initial_window_ = std::max(peer_initial_window_, frame.initial_window);
  events_.push_back(event::Up{*peer_, keepalive_.liveness()});
}

void Connection::Impl::on(const wire::Header& header, wire::Open& frame) {
  const SessionId id = header.session;
  const SessionId expected =
      peer_last_id_ == 0 ? (config_.side == Side::kDialer ? 2u : 1u) : peer_last_id_ + 2;
  if (id != expected) {
    fail(code::kProtocol, "OPEN of session " + std::to_string(id) + " where " +
                              std::to_string(expected) + " comes next");
    return;
  }
  if (peer_opened_ >= opens_told_) {
    fail(code::kProtocol, "OPEN beyond the limit of " + std::to_string(opens_told_) + " sessions");
    return;
  }
  peer_last_id_ = id;
  ++peer_opened_;
  if (leaving_ == Leaving::kYes && id > refuse_above_) {
    // Crossed our goaway: the peer learns from last_id that nothing was processed. What it sends in
    // the window it was entitled to is dropped. Its right to open is not repaid: it has no use for
    // it here, and OPENs that cost us nothing could come without end.
    late_bytes_allowed_ += kFloorWindow;
    return;
  }
  const bool reserved = budget_.reserve_floor();
  assert(reserved);  // both openers' ceilings fit the floors' half of the budget
  static_cast<void>(reserved);
  auto session = std::make_unique<Session>(id, false, config_.window_max, kFloorWindow, now_);
  session->visit = frame.visit;
  session->peer_limit = frame.limit;
  session->path_rtt_us = frame.path_rtt_us;
  session->place.priority = frame.priority;
  session->place.weight = frame.weight;
  sessions_.emplace(id, std::move(session));
  events_.push_back(event::Opened{id, Slice::copy_of(frame.meta), frame.priority, frame.weight,
                                  frame.visit, frame.path_rtt_us});
}

void Connection::Impl::on(const wire::Header& header, wire::Accept& frame) {
  if (!is_ours(header.session)) {
    fail(code::kProtocol,
         "ACCEPT for session " + std::to_string(header.session) + ", which the peer opened itself");
    return;
  }
  Session* session = session_of(header, "ACCEPT");
  if (session == nullptr) return no_effect();
  if (session->accepted) {
    fail(code::kProtocol, "a second ACCEPT for session " + std::to_string(header.session));
    return;
  }
  session->accepted = true;
  session->path_rtt_us = frame.path_rtt_us;
  tell(*session, event::Accepted{session->id, Slice::copy_of(frame.meta), frame.path_rtt_us});
  if (frame.limit > session->peer_limit) {
    session->peer_limit = frame.limit;
    if (!session->credit_event_queued) {
      session->credit_event_queued = true;
      tell(*session, event::Credit{session->id, 0, 0});
    }
    queue_data(*session);
  }
}

void Connection::Impl::on(const wire::Header& header, wire::Data& frame) {
  keepalive_.received_data();
  if (frame.bytes.size() < limit::kTinyFrame && !frame.fin && !tiny_.take(1, now_)) {
    fail(code::kCalm, "too many DATA frames of less than 64 bytes");
    return;
  }
  Session* session = session_of(header, "DATA");
  if (session == nullptr) {
    if (!alive()) return;
    if (frame.bytes.size() > late_bytes_allowed_) {
      fail(code::kCalm, "DATA for session " + std::to_string(header.session) + " after its end");
      return;
    }
    late_bytes_allowed_ -= frame.bytes.size();
    return;
  }
  if (session->ours && !session->accepted) {
    fail(code::kProtocol, "DATA before ACCEPT on session " + std::to_string(header.session));
    return;
  }
  if (session->overrun) {
    if (frame.bytes.size() > late_bytes_allowed_) {
      fail(code::kFlow,
           "DATA far beyond the granted limit on session " + std::to_string(header.session));
      return;
    }
    late_bytes_allowed_ -= frame.bytes.size();
    if (frame.fin) {
      session->recv = RecvState::kReset;
      session->owes_stop = false;
      maybe_retire(*session);
    }
    return;
  }
  if (session->recv != RecvState::kOpen) {
    fail(code::kProtocol, "DATA after the end of session " + std::to_string(header.session));
    return;
  }
  if (!session->window.receive(frame.bytes.size())) return flow_error(*session);
  if (!frame.bytes.empty()) {
    if (session->discarding) {
      session->window.consume(frame.bytes.size(), round_trip(*session), now_, budget_);
    } else {
      tell(*session, event::Data{session->id, Slice::copy_of(frame.bytes)});
    }
  }
  if (frame.fin) {
    session->got_fin = true;
    session->recv = RecvState::kFinished;
    session->window.finish(budget_);
    if (!session->visit) session->fin_acknowledged = true;
    if (!session->discarding) tell(*session, event::Finished{session->id});
    if (!session->visit) session->owes_stop = false;  // the half is over: nothing left to stop
  }
  credit_changed(*session, now_);
  maybe_retire(*session);
}

// More than was granted: the first time costs the session, the second time the link. What the peer
// still sends until it learns of the STOP is dropped, at most another window of it.
void Connection::Impl::flow_error(Session& session) {
  if (++flow_errors_ >= limit::kFlowErrors) {
    fail(code::kFlow,
         "DATA beyond the granted limit, again, on session " + std::to_string(session.id));
    return;
  }
  if (!session.send_done()) reset_send(session, code::kFlow);
  session.overrun = true;
  late_bytes_allowed_ += config_.window_max;
  if (!session.discarding) {
    session.discarding = true;
    session.stop_code = code::kFlow;
    session.owes_stop = true;
    queue_control(session);
  }
  session.window.finish(budget_);
  tell(session, event::Reset{session.id, code::kFlow, false});
}

void Connection::Impl::on(const wire::Header& header, wire::Credit& frame) {
  Session* session = session_of(header, "CREDIT");
  if (session == nullptr) return no_effect();
  if (session->ours && !session->accepted) {
    fail(code::kProtocol, "CREDIT before ACCEPT on session " + std::to_string(header.session));
    return;
  }
  if (frame.received > session->sent + (session->sent_fin ? 1 : 0)) {
    fail(code::kProtocol, "CREDIT acknowledges " + std::to_string(frame.received) + " of " +
                              std::to_string(session->sent) + " bytes sent on session " +
                              std::to_string(header.session));
    return;
  }
  if (frame.limit <= session->peer_limit && frame.received <= session->peer_received) {
    return no_effect();
  }
  session->peer_limit = std::max(session->peer_limit, frame.limit);
  session->peer_received = std::max(session->peer_received, frame.received);
  if (!session->credit_event_queued) {
    session->credit_event_queued = true;
    tell(*session, event::Credit{session->id, 0, 0});
  }
  queue_data(*session);
}

void Connection::Impl::on(const wire::Header& header, wire::Reset& frame) {
  const bool moving = frame.code == code::kSuperseded || frame.code == code::kPathLost;
  Session* session = session_of(header, "RESET");
  if (session == nullptr || session->recv_done()) {
    if (!moving) no_effect();
    return;
  }
  if (frame.final != session->window.received() && !session->overrun) {
    fail(code::kProtocol, "RESET of session " + std::to_string(header.session) + " at offset " +
                              std::to_string(frame.final) + ", but " +
                              std::to_string(session->window.received()) + " bytes came");
    return;
  }
  const bool early = !session->ours && !session->answered;
  if (early && !moving && !early_resets_.take(1, now_)) {
    fail(code::kCalm, "too many sessions reset before they were accepted");
    return;
  }
  session->recv = RecvState::kReset;
  session->window.finish(budget_);
  session->owes_stop = false;
  session->owes_credit = false;
  if (!session->overrun) tell(*session, event::Reset{session->id, frame.code, session->got_fin});
  maybe_retire(*session);
}

void Connection::Impl::on(const wire::Header& header, wire::Stop& frame) {
  Session* session = session_of(header, "STOP");
  if (session == nullptr) return no_effect();
  if (session->send_done()) return no_effect();  // crossed our end
  tell(*session, event::Stopped{session->id, frame.code});
  reset_send(*session, frame.code);
}

void Connection::Impl::on(const wire::Header&, wire::Ping& frame) {
  if (!pings_.take(1, now_)) {
    fail(code::kCalm, "too many PINGs");
    return;
  }
  pong_owed_ = frame.token;
}

void Connection::Impl::on(const wire::Header&, wire::Pong& frame) {
  if (!keepalive_.received_pong(frame.token)) no_effect();  // a sign of life is one of these
  if (leaving_ == Leaving::kRoundTrip && frame.token >= goaway_token_) {
    leaving_ = Leaving::kPhase1Owed;
  }
}

void Connection::Impl::on(const wire::Header&, wire::Opens& frame) {
  if (frame.limit <= peer_opens_) return no_effect();
  peer_opens_ = frame.limit;
}

void Connection::Impl::not_processed(Session& session) {
  session.retired = true;
  session.send = SendState::kReset;
  session.recv = RecvState::kReset;
  session.queue.clear();
  session.owes_open = session.owes_credit = session.owes_stop = session.owes_reset = false;
  session.window.release(budget_);
  tell(session, event::NotProcessed{session.id});
}

void Connection::Impl::on(const wire::Header&, wire::Goaway& frame) {
  if (++peer_goaways_ > limit::kGoaways) {
    fail(code::kCalm, "too many GOAWAYs");
    return;
  }
  const bool first = peer_goaway_phase_ < 0;
  if (frame.phase <= peer_goaway_phase_) return;  // said before
  if (frame.phase == 1) {
    for (const auto& [id, session] : sessions_) {
      if (!session->ours || id <= frame.last_id ||
          !(session->accepted || session->recv != RecvState::kOpen))
        continue;
      fail(code::kProtocol,
           "GOAWAY excludes session " + std::to_string(id) + ", which the peer used");
      return;
    }
  }
  peer_goaway_phase_ = frame.phase;
  events_.push_back(event::LinkDraining{frame.phase, frame.reason, frame.grace_ms, frame.text});
  std::vector<Session*> released_now;
  for (auto& [id, session] : sessions_) {
    if (session->retired) continue;
    if (frame.phase == 1 && session->ours && id > frame.last_id) {
      not_processed(*session);
      if (session->released) released_now.push_back(session.get());
    } else if (first) {
      tell(*session, event::SessionDraining{id});
    }
  }
  for (Session* session : released_now) erase(*session);
}

void Connection::Impl::on(const wire::Header&, wire::Close& frame) {
  end(Life::kDone, Cut{CutKind::kPeerClosed, frame.code, std::move(frame.text)});
}

void Connection::Impl::on(const wire::Header& header, wire::Skipped&) {
  if (!skipped_.take(header.length + 1.0, now_)) {
    fail(code::kCalm, "too many bytes of unknown frame types");
  }
}

}  // namespace fairlead::link
