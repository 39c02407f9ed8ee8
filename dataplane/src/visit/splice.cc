#include "visit/splice.h"

#include <variant>

namespace fairlead::dataplane {

link::OpenRequest relay_request(const link::event::Opened& opened, const SessionPort& inbound) {
  return link::OpenRequest{.meta = opened.meta,
                           .priority = opened.priority,
                           .weight = opened.weight,
                           .visit = opened.visit,
                           .path_rtt_us = opened.path_rtt_us + inbound.rtt_us(),
                           .credit_cap = inbound.peer_limit()};
}

Splice::Splice(SessionPort inbound, SessionPort outbound, link::Instant now)
    : inbound_{.port = inbound}, outbound_{.port = outbound} {
  // From here on `received` of either session is the far end's, not this relay's.
  inbound_.port.relay_credit(outbound_.port.peer_limit(), 0, now);
}

void Splice::on_event(Side side, const link::Event& event, link::Instant now) {
  Half& from = side == Side::kInbound ? inbound_ : outbound_;
  Half& to = side == Side::kInbound ? outbound_ : inbound_;
  if (!from.port) return;
  std::visit([&](const auto& each) { on(from, to, each, now); }, event);
}

void Splice::drop(link::Instant now) {
  inbound_.port.release(now, link::code::kPathLost);
  outbound_.port.release(now, link::code::kPathLost);
}

void Splice::on(Half& from, Half& to, const link::event::Accepted& event, link::Instant now) {
  if (!to.port) return;
  to.port.accept(event.meta, event.path_rtt_us + from.port.rtt_us(), now, from.port.peer_limit());
}

void Splice::on(Half& from, Half& to, const link::event::Data& event, link::Instant) {
  from.received += event.bytes.size();
  // Refused when that half is over, and then STOP was passed back: the inbound link drops the bytes
  // and returns their credit.
  if (to.port) to.port.write(event.bytes);
}

void Splice::on(Half&, Half& to, const link::event::Finished&, link::Instant) {
  if (to.port) to.port.finish();
}

void Splice::on(Half&, Half& to, const link::event::Reset& event, link::Instant) {
  if (to.port) to.port.reset(event.code);
}

void Splice::on(Half&, Half& to, const link::event::Stopped& event, link::Instant) {
  if (to.port) to.port.stop(event.code);
}

void Splice::on(Half&, Half& to, const link::event::Credit& event, link::Instant now) {
  if (to.port) to.port.relay_credit(event.limit, event.received, now);
}

void Splice::on(Half& from, Half& to, const link::event::Sent& event, link::Instant now) {
  if (to.port && event.offset > from.sent) to.port.consume(event.offset - from.sent, now);
  from.sent = event.offset;
}

void Splice::on(Half& from, Half& to, const link::event::NotProcessed&, link::Instant now) {
  from.port.release(now, link::code::kCancel);
  to.port.release(now, link::code::kRefused);
}

void Splice::on(Half& from, Half& to, const link::event::SessionCut&, link::Instant now) {
  from.port.release(now, link::code::kPathLost);
  to.port.release(now, link::code::kPathLost);
}

void Splice::on(Half& from, Half&, const link::event::Retired&, link::Instant now) {
  from.port.release(now, link::code::kOk);
}

}  // namespace fairlead::dataplane
