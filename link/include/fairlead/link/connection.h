// One end of a link: the multiplexer's core, without I/O.
//
// The owner feeds it bytes, commands and the time, and takes bytes and events out:
//
//   receive(bytes, now)      whatever the transport delivered, split anywhere
//   poll_event()             until it returns nothing; do this after every call that takes `now`
//   produce(out, now)        when the transport can take more and wants_write(); send the result
//   on_timer(now)            when next_deadline() has come, after reading what the transport holds
//                            and giving it what it can take
//   transport_ended(...)     once, when the transport failed or ended
//
// Not thread-safe; one owner thread at a time. No call blocks, allocates without a bound that
// SPEC.md states, or calls back: results come as events. A peer can cause no assertion and no
// exception; std::bad_alloc is the only exception that leaves this class.
//
// Sessions. A session belongs to the application from open() or event::Opened until release(). The
// peer's right to open another session is repaid only at release(), so the application's work on a
// session is what bounds a peer that opens and resets quickly. Commands on a session that has
// ended, was released or never existed do nothing and return false: an event and a command may
// cross. No event names a session after its release().
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "fairlead/link/credit_pool.h"
#include "fairlead/link/liveness.h"
#include "fairlead/link/types.h"

namespace fairlead::link {

enum class Side : std::uint8_t { kDialer, kListener };

inline constexpr std::size_t kMaxMeta = 4096;             // bytes of OPEN's and ACCEPT's metadata
inline constexpr std::size_t kMaxText = 256;              // bytes of GOAWAY's and CLOSE's text
inline constexpr std::size_t kMaxDataPayload = 16376;     // a full frame is one 16,384 B TLS record
inline constexpr std::uint32_t kFloorWindow = 16 * 1024;  // bytes each session is always granted
inline constexpr std::uint32_t kMinOpens = 32;            // opens before the peer's HELLO arrived
inline constexpr Duration kHelloTimeout = std::chrono::seconds(10);
inline constexpr Duration kCreditDelay = std::chrono::milliseconds(10);

struct Config {
  Side side = Side::kDialer;
  // Used by the dialer; a listener adopts what HELLO states. Must pass check_liveness().
  Liveness liveness = kDefault;
  // Told to the peer in HELLO; each at most 200 bytes.
  std::string software;  // "fairlead-relay/0.1.0"
  std::string role;      // "agent", "relay", "connect"
  std::string name;      // who this process is, for the peer's log
  // Sessions opened by the peer and not yet released: at least kMinOpens. Together with as many of
  // our own it must fit half the budget at kFloorWindow each; larger values are lowered to that.
  std::uint32_t max_peer_sessions = 1024;
  // Bytes of credit one session may hold, and all sessions of this link together.
  std::uint64_t window_max = 16ull << 20;
  std::uint64_t budget = 64ull << 20;
  // Credit above the floors is also charged here, so that all links of a process share one bound.
  // May be null. Must outlive the connection.
  CreditPool* pool = nullptr;
};

struct OpenRequest {
  Slice meta;  // at most kMaxMeta bytes
  Priority priority = Priority::kNormal;
  std::uint8_t weight = 16;  // share inside the class, 1 to 255
  // A visit's session retires only when both halves were reset; a FIN alone ends neither, and its
  // FIN is acknowledged by acknowledge_fin() or relay_credit(), never by itself.
  bool visit = false;
  // Round trip of the hops behind this one, in microseconds: a relay states its other hop's.
  std::uint32_t path_rtt_us = 0;
  // For a relay: grant no more than this absolute offset until relay_credit() raises it.
  std::optional<std::uint64_t> credit_cap;
};

enum class OpenError : std::uint8_t {
  kNone,
  kClosed,     // the link has ended or is closing
  kDraining,   // the peer said goaway (phase 1): open elsewhere
  kExhausted,  // the peer's OPENS limit or our budget of floors is used up: open elsewhere
  kBadMeta,    // meta is larger than kMaxMeta
  kIds,        // this link's session ids are used up: replace the link
};
std::string_view open_error_name(OpenError error);

struct OpenResult {
  SessionId id = 0;  // 0 unless error is kNone
  OpenError error = OpenError::kNone;
};

enum class GoawayReason : std::uint8_t {
  kRoll = 1,   // this link ends; open a replacement
  kLeave = 2,  // this peer goes away; close the slot, do not dial it again
};

struct PeerHello {
  std::string software, role, name;
};

namespace event {
// The peer's HELLO arrived and was acceptable. Before this, protocol minimums hold.
struct Up {
  PeerHello peer;
  Liveness liveness;  // in force on this link, on both ends
};
// The peer opened a session. Answer with accept() or with reset() and stop(), then release().
struct Opened {
  SessionId id;
  Slice meta;
  Priority priority;
  std::uint8_t weight;
  bool visit;
  std::uint32_t path_rtt_us;
};
// The peer accepted our session. At most once, before its first Data.
struct Accepted {
  SessionId id;
  Slice meta;
  std::uint32_t path_rtt_us;
};
// Bytes in order. The credit they used returns with consume().
struct Data {
  SessionId id;
  Slice bytes;
};
// End of the peer's half after every byte: Eof. A later reset of that half changes nothing for the
// reader.
struct Finished {
  SessionId id;
};
// The peer aborted its half; bytes may be missing. Not an end of file.
struct Reset {
  SessionId id;
  Code code;
  bool after_fin;  // Finished came before: the half was complete
};
// The peer reads no more. The core has answered with RESET of our half unless that was over.
struct Stopped {
  SessionId id;
  Code code;
};
// The peer's limit or received offset advanced; both are absolute, `received` counts FIN as one.
struct Credit {
  SessionId id;
  std::uint64_t limit;
  std::uint64_t received;
};
// Offset of bytes of this session handed to produce() so far. Only for relayed sessions (see
// relay_credit), where it is what returns the inbound hop's credit.
struct Sent {
  SessionId id;
  std::uint64_t offset;
};
// The peer's goaway or close excluded our session: nothing of it was processed, it is safe to open
// elsewhere.
struct NotProcessed {
  SessionId id;
};
// The peer drains this link; sessions live on. Comes once for each session and phase 0.
struct SessionDraining {
  SessionId id;
};
// Both halves are over; only release() is left to do.
struct Retired {
  SessionId id;
};
// The link ended before this session did. Only release() is left to do.
struct SessionCut {
  SessionId id;
};
// The peer's goaway. Phase 0: open the replacement; opens still work. Phase 1: opens here fail.
struct LinkDraining {
  int phase;
  GoawayReason reason;
  std::uint32_t grace_ms;
  std::string text;
};
// The link is over, after a SessionCut for every session that was alive. The last event.
struct Closed {
  Cut cut;
};
}  // namespace event

using Event = std::variant<event::Up, event::Opened, event::Accepted, event::Data, event::Finished,
                           event::Reset, event::Stopped, event::Credit, event::Sent,
                           event::NotProcessed, event::SessionDraining, event::Retired,
                           event::SessionCut, event::LinkDraining, event::Closed>;

// What a status page shows of a link; all counts since its start.
struct LinkStats {
  std::uint64_t bytes_in = 0, bytes_out = 0;  // wire bytes, headers included
  std::uint64_t frames_in = 0, frames_out = 0;
  std::uint32_t sessions = 0;  // not yet released, both openers
  std::uint64_t granted = 0;   // bytes of credit outstanding above and below the floor
  std::uint32_t rtt_us = 0;
};

class Connection {
 public:
  Connection(const Config& config, Instant now);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // --- transport ---

  // Bytes from the peer, in order. Ignored once closed().
  void receive(Bytes bytes, Instant now);
  // The transport is gone: kTransport with the system's words, or kEnded. Sessions that had not
  // ended are cut. Harmless when the link is closed already.
  void transport_ended(CutKind kind, std::string text, Instant now);
  // True when produce() has something to look at. It may find that what was owed has become
  // pointless: then it returns 0 and this is false afterwards, so a loop over both always ends.
  bool wants_write() const;
  // Fills `out` with whole frames and returns the bytes written; 0 when there is nothing to send or
  // the next frame does not fit (give at least kMaxDataPayload + 8 bytes to be sure of progress).
  // The owner must send exactly these bytes, in order, and should call only when the transport has
  // room, since what to send is decided as late as this call.
  std::size_t produce(std::span<std::byte> out, Instant now);
  // When to call on_timer(); nothing when done(). May move earlier or later after any call. Later
  // than now once on_timer(now) was called and produce() has nothing more to write. A link that
  // is closed() is done() after liveness().bound() even when its CLOSE could not be sent.
  std::optional<Instant> next_deadline() const;
  void on_timer(Instant now);
  // The link's own smoothed round trip, from the kernel. Used to size windows.
  void set_rtt(std::chrono::microseconds rtt);
  // The link is over and its CLOSE, if one was owed, was produced or given up: close the transport.
  bool done() const;
  // The link is over: no frame will be processed and no session lives.
  bool closed() const;

  std::optional<Event> poll_event();

  // --- sessions ---

  OpenResult open(const OpenRequest& request, Instant now);
  // Accepts a session of event::Opened; the answer precedes everything else we send on it. False,
  // too, when `meta` is larger than kMaxMeta. path_rtt_us as in OpenRequest; credit_cap likewise.
  bool accept(SessionId id, Slice meta, std::uint32_t path_rtt_us, Instant now,
              std::optional<std::uint64_t> credit_cap = std::nullopt);
  // Queues bytes; the slice is kept until sent. Never refused for lack of credit: writing at most
  // send_room() keeps the queue within what the peer can take.
  bool write(SessionId id, Slice bytes);
  // FIN after everything queued. No write() after it.
  bool finish(SessionId id);
  // Aborts our half: queued bytes are dropped, the peer sees Reset. After finish() it stands only
  // for visits.
  bool reset(SessionId id, Code code);
  // We read no more: the peer's half is to be reset. Bytes that still come are dropped and their
  // credit returned.
  bool stop(SessionId id, Code code);
  // The application is done with n bytes of Data: their credit may be granted again.
  bool consume(SessionId id, std::uint64_t n, Instant now);
  // Only for a relay, on the session that bytes come in by. `cap` is the limit of the session that
  // they go out by, `received` what the far end holds; both absolute, lower values are ignored.
  // After the first call this session sends no `received` of its own and emits Sent.
  bool relay_credit(SessionId id, std::uint64_t cap, std::uint64_t received, Instant now);
  // For a visit's end: the peer's FIN and every byte before it were handed on.
  bool acknowledge_fin(SessionId id, Instant now);
  // The application is finished with the session. One that is still alive is reset and stopped
  // with `code` and forgotten when both halves are over.
  bool release(SessionId id, Instant now, Code code = code::kCancel);

  // Bytes that may be written before the peer's limit is reached; 0 when unknown. This is the
  // peer's word and may be any number: bound what you queue by queued() as well.
  std::uint64_t send_room(SessionId id) const;
  // Bytes written and not yet produced.
  std::uint64_t queued(SessionId id) const;
  // The peer's absolute limit for what we send.
  std::uint64_t peer_limit(SessionId id) const;

  // --- link ---

  // Starts the two-phase goaway: the peer shall open no more sessions here. Live sessions go on. A
  // second call does nothing.
  void goaway(GoawayReason reason, std::chrono::milliseconds grace, std::string_view text,
              Instant now);
  // The peer has said goaway.
  bool draining() const;
  // Ends the link: what has credit is still sent, then CLOSE. Sessions are cut here at once. Those
  // of the peer that no event::Opened has told of yet, on the wire or in the queue of events, are
  // NotProcessed at the peer, not cut: an owner with no session to finish may close at any moment.
  void close(Code code, std::string_view text, Instant now);

  Liveness liveness() const;
  // A PING is overdue: do not choose this link for a new session.
  bool probe_overdue(Instant now) const;
  std::uint32_t session_count() const;
  std::uint32_t rtt_us() const;
  LinkStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fairlead::link
