// What the peer's bytes do. Everything is checked before any state is made or changed.
#include <algorithm>
#include <cassert>

#include "connection_impl.h"

namespace fairlead::link {

void Connection::Impl::receive(Bytes bytes, Instant now) {
  if (!alive() || bytes.empty()) return;
  stats_.bytes_in += bytes.size();
  keepalive_.received(now);
  while (alive() && !partial_.empty() && !bytes.empty()) {
    // First the header, then the rest of the frame it announces.
    std::size_t whole = wire::kHeaderSize;
    if (partial_.size() >= whole) whole += wire::decode_header(Bytes(partial_).first(8)).length;
    const std::size_t n = std::min(whole - partial_.size(), bytes.size());
    partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    const std::vector<std::byte> frame = std::move(partial_);
    partial_ = {};
    if (take_frame(frame, now) == 0 && alive()) partial_ = frame;
  }
  while (alive() && !bytes.empty()) {
    const std::size_t taken = take_frame(bytes, now);
    if (taken == 0) break;
    bytes = bytes.subspan(taken);
  }
  if (alive() && !bytes.empty()) partial_.assign(bytes.begin(), bytes.end());
  if (alive() && wants_write()) keepalive_.backlogged(now);
}

// Processes the frame at the start of `bytes`. Returns its size, or 0 when it is not complete.
std::size_t Connection::Impl::take_frame(Bytes bytes, Instant now) {
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
  on_frame(header, bytes.subspan(wire::kHeaderSize, header.length), now);
  return whole;
}

void Connection::Impl::on_frame(const wire::Header& header, Bytes payload, Instant now) {
  ++stats_.frames_in;
  std::string error;
  std::optional<wire::Frame> frame = wire::decode(header, payload, error);
  if (!frame) {
    fail(code::kProtocol, std::move(error));
    return;
  }
  std::visit([&](auto& each) { on(header, each, now); }, *frame);
}

// The session a frame is for. Null when there is nothing to do with it: an id that has retired, or
// one that was never opened, which ends the link.
Session* Connection::Impl::session_of(const wire::Header& header, const char* name) {
  if (Session* session = find(header.session)) {
    if (!session->retired) return session;
    return nullptr;
  }
  const bool opened =
      is_ours(header.session) ? header.session < next_id_ : header.session <= peer_last_id_;
  if (!opened) {
    fail(code::kProtocol, std::string(name) + " for session " + std::to_string(header.session) +
                              ", which was never opened");
  }
  return nullptr;
}

void Connection::Impl::no_effect(Instant now) {
  if (!alive() || no_effect_.take(1, now)) return;
  fail(code::kCalm, "too many frames without effect");
}

void Connection::Impl::on(const wire::Header&, wire::Hello& frame, Instant now) {
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
  keepalive_.received(now);
  peer_ = PeerHello{frame.software, frame.role, frame.name};
  peer_opens_ = std::max(peer_opens_, frame.opens);
  peer_initial_window_ = std::max(peer_initial_window_, frame.initial_window);
  events_.push_back(event::Up{*peer_, keepalive_.liveness()});
}

void Connection::Impl::on(const wire::Header& header, wire::Open& frame, Instant now) {
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
    // Crossed our goaway: the peer learns from last_id that nothing was processed. What it sent in
    // the window it was entitled to is dropped.
    ++peer_repaid_;
    late_bytes_allowed_ += kFloorWindow;
    return;
  }
  const bool reserved = budget_.reserve_floor();
  assert(reserved);  // both openers' ceilings fit the floors' half of the budget
  static_cast<void>(reserved);
  auto session = std::make_unique<Session>(id, false, config_.window_max, kFloorWindow, now);
  session->visit = frame.visit;
  session->peer_limit = frame.limit;
  session->path_rtt_us = frame.path_rtt_us;
  session->place.priority = frame.priority;
  session->place.weight = frame.weight;
  sessions_.emplace(id, std::move(session));
  events_.push_back(event::Opened{id, Slice::copy_of(frame.meta), frame.priority, frame.weight,
                                  frame.visit, frame.path_rtt_us});
}

void Connection::Impl::on(const wire::Header& header, wire::Accept& frame, Instant now) {
  if (!is_ours(header.session)) {
    fail(code::kProtocol,
         "ACCEPT for session " + std::to_string(header.session) + ", which the peer opened itself");
    return;
  }
  Session* session = session_of(header, "ACCEPT");
  if (session == nullptr) return no_effect(now);
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

void Connection::Impl::on(const wire::Header& header, wire::Data& frame, Instant now) {
  keepalive_.received_data();
  if (frame.bytes.size() < limit::kTinyFrame && !frame.fin && !tiny_.take(1, now)) {
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
    return;
  }
  if (session->recv != RecvState::kOpen) {
    fail(code::kProtocol, "DATA after the end of session " + std::to_string(header.session));
    return;
  }
  if (!session->window.receive(frame.bytes.size())) return flow_error(*session);
  if (!frame.bytes.empty()) {
    if (session->discarding) {
      session->window.consume(frame.bytes.size(), round_trip(*session), now, budget_);
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
  credit_changed(*session, now);
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

void Connection::Impl::on(const wire::Header& header, wire::Credit& frame, Instant now) {
  Session* session = session_of(header, "CREDIT");
  if (session == nullptr) return no_effect(now);
  if (session->ours && !session->accepted) {
    fail(code::kProtocol, "CREDIT before ACCEPT on session " + std::to_string(header.session));
    return;
  }
  const bool fin_sent = session->send == SendState::kFinished ||
                        (session->send == SendState::kReset && session->visit);
  if (frame.received > session->sent + (fin_sent ? 1 : 0)) {
    fail(code::kProtocol, "CREDIT acknowledges " + std::to_string(frame.received) + " of " +
                              std::to_string(session->sent) + " bytes sent on session " +
                              std::to_string(header.session));
    return;
  }
  if (frame.limit <= session->peer_limit && frame.received <= session->peer_received) {
    return no_effect(now);
  }
  session->peer_limit = std::max(session->peer_limit, frame.limit);
  session->peer_received = std::max(session->peer_received, frame.received);
  if (!session->credit_event_queued) {
    session->credit_event_queued = true;
    tell(*session, event::Credit{session->id, 0, 0});
  }
  queue_data(*session);
}

void Connection::Impl::on(const wire::Header& header, wire::Reset& frame, Instant now) {
  const bool moving = frame.code == code::kSuperseded || frame.code == code::kPathLost;
  Session* session = session_of(header, "RESET");
  if (session == nullptr || session->recv_done()) {
    if (!moving) no_effect(now);
    return;
  }
  const bool wrong_final = session->overrun   ? false
                           : session->got_fin ? frame.final != session->window.received()
                                              : frame.final < session->window.received();
  if (wrong_final) {
    fail(code::kProtocol, "RESET of session " + std::to_string(header.session) + " at offset " +
                              std::to_string(frame.final) + ", but " +
                              std::to_string(session->window.received()) + " bytes came");
    return;
  }
  const bool early = !session->ours && !session->accepted && session->send == SendState::kOpen;
  if (early && !moving && !early_resets_.take(1, now)) {
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

void Connection::Impl::on(const wire::Header& header, wire::Stop& frame, Instant now) {
  Session* session = session_of(header, "STOP");
  if (session == nullptr) return no_effect(now);
  if (session->send_done()) return;  // crossed our end
  tell(*session, event::Stopped{session->id, frame.code});
  reset_send(*session, frame.code);
}

void Connection::Impl::on(const wire::Header&, wire::Ping& frame, Instant now) {
  if (!pings_.take(1, now)) {
    fail(code::kCalm, "too many PINGs");
    return;
  }
  pong_owed_ = frame.token;
}

void Connection::Impl::on(const wire::Header&, wire::Pong& frame, Instant) {
  keepalive_.received_pong(frame.token);
  if (leaving_ == Leaving::kRoundTrip && frame.token >= goaway_token_) {
    leaving_ = Leaving::kPhase1Owed;
  }
}

void Connection::Impl::on(const wire::Header&, wire::Opens& frame, Instant now) {
  if (frame.limit <= peer_opens_) return no_effect(now);
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

void Connection::Impl::on(const wire::Header&, wire::Goaway& frame, Instant) {
  if (++peer_goaways_ > limit::kGoaways) {
    fail(code::kCalm, "too many GOAWAYs");
    return;
  }
  const bool first = peer_goaway_phase_ < 0;
  peer_goaway_phase_ = std::max<int>(peer_goaway_phase_, frame.phase);
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

void Connection::Impl::on(const wire::Header&, wire::Close& frame, Instant) {
  end(Life::kDone, Cut{CutKind::kPeerClosed, frame.code, std::move(frame.text)});
}

void Connection::Impl::on(const wire::Header& header, wire::Skipped&, Instant now) {
  if (!skipped_.take(header.length + 1.0, now)) {
    fail(code::kCalm, "too many bytes of unknown frame types");
  }
}

}  // namespace fairlead::link
