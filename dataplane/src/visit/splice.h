// A relay in the middle of a visit: two sessions joined so that the visit's ends see one byte
// stream.
#pragma once

#include <cstdint>

#include "fairlead/link/connection.h"
#include "visit/session_port.h"

namespace fairlead::dataplane {

// The request for the outbound session of a visit that came in by `inbound`: same metadata, class
// and weight; the round trip of the inbound side added; and no more credit for the agent end than
// the inbound session can take on. Open it at once or answer the inbound session with
// RESET(kRefused): a relay never queues an OPEN.
link::OpenRequest relay_request(const link::event::Opened& opened, const SessionPort& inbound);

// Joins them. Bytes, FIN, RESET, STOP, ACCEPT and credit pass both ways and in order; nothing is
// added or removed, so both sessions share offset 0, and nothing is kept here: bytes wait in the
// links' queues only, within the credit of the session they go out by, since no more is granted
// inbound than was granted outbound, and inbound credit returns when the outbound link has handed
// bytes to its transport. The visit's ends acknowledge to each other: `received` passes unchanged.
//
// When one side's link ends, or the drain deadline comes, the other session is reset and stopped
// with kPathLost at once, and never finished. An outbound session that the other replica did not
// process, before anything was accepted, is answered with kRefused: the visit may be opened
// elsewhere.
//
// Both sessions are released here. Not thread-safe; both links must have one owner thread.
class Splice {
 public:
  enum class Side : std::uint8_t {
    kInbound,   // opened by a peer, towards the visitor
    kOutbound,  // opened by this process with relay_request(), towards the agent
  };

  // Before any event of either session but Opened was handled.
  Splice(SessionPort inbound, SessionPort outbound, link::Instant now);
  Splice(const Splice&) = delete;
  Splice& operator=(const Splice&) = delete;

  // Any event of the session at `side`. Events of the link itself mean nothing here.
  void on_event(Side side, const link::Event& event, link::Instant now);
  // The drain deadline: this relay holds neither end, so the path is lost and the visit may live.
  void drop(link::Instant now);
  // Both sessions were released: the owner may destroy this.
  bool done() const { return !inbound_.port && !outbound_.port; }
  // Bytes that came in by `side`, for counters.
  std::uint64_t bytes_from(Side side) const { return half(side).received; }

 private:
  struct Half {
    SessionPort port;
    std::uint64_t received = 0;  // bytes that came in by it
    std::uint64_t sent = 0;      // offset that its link has handed to the transport
  };

  const Half& half(Side side) const { return side == Side::kInbound ? inbound_ : outbound_; }
  void on(Half& from, Half& to, const link::event::Accepted& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::Data& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::Finished& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::Reset& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::Stopped& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::Credit& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::Sent& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::NotProcessed& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::SessionCut& event, link::Instant now);
  void on(Half& from, Half& to, const link::event::Retired& event, link::Instant now);
  template <typename E>
  void on(Half&, Half&, const E&, link::Instant) {}

  Half inbound_;
  Half outbound_;
};

}  // namespace fairlead::dataplane
