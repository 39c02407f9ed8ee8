// One end of a visit: where a local connection (a visitor's or an upstream's) meets the session
// that carries it. A machine without I/O.
//
// The owner feeds it the session's link events, what the local connection did, and the time. It
// commands the session by itself (through SessionPort) and tells the local side what to do by
// poll(): call it until it returns nothing after every call that takes `now`.
//
//   visitor end    construct -> path_opened() -> [PathRefused -> path_opened() again]... -> Ended
//   agent end      construct -> path_opened() -> local_opened() -> ... -> Ended
//
// The local side reads at most local_room() bytes before each local_data(), reports with
// local_consumed() what it really wrote out, and tells its end with local_fin() or abort(). When it
// gets Ended with kFinished it closes in the ordinary way; with any other outcome it resets its
// connection (TCP RST, no final chunk): a visit that was cut is never shown as an end.
//
// Rules
// - Sent bytes are held (ReplayBuffer) until the other end's `received` covers them. At the cap
//   local_room() is 0; nothing is dropped.
// - FIN is acknowledged (received = final + 1) when every byte before it was handed to the local
//   connection, which is when LocalFin comes.
// - The agent end finishes first: when both FINs are acknowledged it resets both halves with 0. The
//   visitor end is finished on that reset alone. If the path breaks when everything either way is
//   acknowledged already, only that word got lost, and the end is clean.
// - Codes 9 and 10 and a cut mean that the path is broken; any other code is final and ends both
//   halves. RESET(0) where no clean end is due is a breach of the rules.
// - While no byte can have reached an agent, which only answers 4, 12 and NotProcessed before
// ACCEPT
//   prove, the visit survives the refusal: PathRefused comes, what was sent is still held, and
//   path_opened() sends it again from 0.
//
// Where resuming fits. This version ends a visit when its path breaks after ACCEPT (kAgentLost,
// kPeerLost, kHomeLost, kPathLost). Resuming adds a state and no memory or frames:
// - kSuspended stands between kOpen and itself on another session: broken() enters it instead of
//   end(), keeps the ReplayBuffer and the offsets, and starts the hold timer; path_opened() leaves
//   it. What is held is already charged to the visit's lease, so a suspended visit costs what a
//   live one does.
// - `attempt()` is n of the next OPEN: it counts every path_opened(). The proof and this end's
//   `received` (received(), FIN included) go into the OPEN, `received` and `base` come in the
//   ACCEPT: the fields exist in control.proto.
// - Offsets of a session are offsets of the visit here since every session starts at 0. With a
// base,
//   Credit's `limit` and `received` are shifted by it where they enter (on Credit), and
//   ReplayBuffer::from(received of the ACCEPT) is what is sent again, as path_opened() does from 0.
//   Bytes below received() that come again are dropped on Data, consumed at once.
// - A tombstone of a visit is (id, received(), sent offset, code) = its VisitRecord, kept by the
//   owner of the agent end for 2 x hold.
//
// Not thread-safe: all calls on the thread of the path's link. No exception but std::bad_alloc.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "visit/outcome.h"
#include "visit/replay_buffer.h"
#include "visit/session_port.h"
#include "visit/visit_meta.h"

namespace fairlead::dataplane {

enum class VisitRole : std::uint8_t { kVisitor, kAgent };

// What a visit came to, for one log line and the counters.
struct VisitRecord {
  VisitId id;
  VisitRole role = VisitRole::kVisitor;
  std::string kind, tenant, service, visitor;
  Outcome outcome = Outcome::kFinished;
  link::Code code = link::code::kOk;  // told by the other end, or told to it
  std::uint64_t bytes_out = 0;        // sent towards the other end
  std::uint64_t bytes_in = 0;         // received from it
  std::uint64_t handed = 0;           // of bytes_in, written to the local connection
  // Both ends' view, absolute, FIN counted as one: what this end has acknowledged as its own and
  // what the other end said it has of ours.
  std::uint64_t received = 0;
  std::uint64_t peer_received = 0;
  std::uint32_t attempts = 0;  // paths tried
  link::Duration duration{};
};
// "visit 00ff.. tcp acme/db visitor 1.2.3.4:5 lost agent_lost (code 10 path_lost) out 10 (peer has
// 10) in 20 (handed 20) attempts 1 in 1.204 s": one line, no newline.
std::string to_string(const VisitRecord& record);

namespace local {
// The agent accepted (visitor end only). At most once per path, before its first Data.
struct Accepted {
  VisitAccept answer;
};
// Bytes for the local connection, in order. Report them with local_consumed() when written out.
struct Data {
  link::Slice bytes;
};
// Every byte was consumed and no more will come: end that direction (shutdown of the write half).
struct Fin {};
// local_room() was 0 and is not any more.
struct Room {};
// Visitor end only: no agent got anything of this visit by the path that was tried. Open another
// and call path_opened(), or abort() with `code`.
struct PathRefused {
  link::Code code;
};
// Over. The last event; nothing else is to be done but to close or reset the local connection.
struct Ended {
  VisitRecord record;
};
}  // namespace local

using LocalEvent = std::variant<local::Accepted, local::Data, local::Fin, local::Room,
                                local::PathRefused, local::Ended>;

class VisitEnd {
 public:
  enum class State : std::uint8_t {
    kNoPath,     // nothing is opened, or what was opened was refused before an agent had anything
    kOpening,    // a session is open; ACCEPT has not come (visitor) or not been given (agent)
    kOpen,       // bytes both ways
    kFinishing,  // visitor end: both FINs are acknowledged; the agent end's RESET(0) is to come
    kEnded,      // terminal
  };

  // `visit` is what the OPEN says; its attempt is not used. `lease` as ReplayBudget::admit() gave
  // it.
  VisitEnd(VisitRole role, VisitOpen visit, ReplayLease lease, link::Instant now);
  // Destroyed before Ended it returns its memory and leaves the session to the link: only for a
  // process that ends its links too. Otherwise abort() first.
  ~VisitEnd() = default;
  VisitEnd(const VisitEnd&) = delete;
  VisitEnd& operator=(const VisitEnd&) = delete;

  // --- path ---

  // A session was opened for the visit: by this process with VisitOpen::attempt = attempt(), visit
  // = true (visitor), or by the peer (agent). Only in kNoPath. `if_cut` is how the visit is lost
  // when the link under this session ends: kAgentLost, kPeerLost or kHomeLost.
  void path_opened(SessionPort path, Outcome if_cut, link::Instant now);
  // Any event of that session; others are not to be passed. Opened, Up, Sent and the link's own
  // events mean nothing here and are ignored, as is everything after Ended.
  void path_event(const link::Event& event, link::Instant now);

  // --- local ---

  // Agent end, in kOpening: the upstream is connected. Sends ACCEPT. When it could not be connected
  // call abort() with the code that says so.
  void local_opened(link::Instant now);
  // Bytes that may be read from the local connection now: what the other end granted and the replay
  // budget can hold. 0 after local_fin() or Ended, and before local_opened(). After a 0, Room comes
  // when there is room again.
  std::uint64_t local_room();
  // At most what local_room() said; never after local_fin(). Ignored after Ended: a read may cross.
  void local_data(link::Slice bytes, link::Instant now);
  // The local connection ended its sending half, cleanly.
  void local_fin(link::Instant now);
  // `n` bytes of Data were written out (not merely queued). At most what Data carried.
  void local_consumed(std::uint64_t n, link::Instant now);
  // Ends the visit from here: the local connection was reset or failed (kVisitorReset,
  // kUpstreamReset), the drain deadline came (kDrainTimeout), the upstream could not be reached, no
  // home was found. `code` is told to the other end; the outcome is `as`, or what the code means.
  // When the local side has nothing left to do (its FIN was given, Fin was reported) a reset by it
  // says nothing, so kVisitorReset and kUpstreamReset are ignored then.
  void abort(link::Code code, link::Instant now, std::optional<Outcome> as = std::nullopt);

  std::optional<LocalEvent> poll();

  // --- what it is ---

  State state() const { return state_; }
  VisitRole role() const { return role_; }
  const VisitOpen& visit() const { return visit_; }
  // What the next OPEN of this visit is: 1, 2, ...
  std::uint32_t attempt() const { return attempts_ + 1; }
  // Bytes of the other end's half that this end holds or has handed on, FIN included once handed
  // on.
  std::uint64_t received() const { return received_ + (fin_handed_ ? 1 : 0); }
  std::uint64_t held() const { return replay_.held(); }

 private:
  void on(const link::event::Accepted& event, link::Instant now);
  void on(const link::event::Data& event, link::Instant now);
  void on(const link::event::Finished& event, link::Instant now);
  void on(const link::event::Reset& event, link::Instant now);
  void on(const link::event::Stopped& event, link::Instant now);
  void on(const link::event::Credit& event, link::Instant now);
  void on(const link::event::NotProcessed& event, link::Instant now);
  void on(const link::event::SessionCut& event, link::Instant now);
  template <typename E>
  void on(const E&, link::Instant) {}

  void move_to(State next);
  void peer_ended(link::Code code, link::Instant now);
  void path_refused(link::Code code, link::Instant now);
  void broken(Outcome outcome, link::Instant now);
  void end(Outcome outcome, link::Code code, link::Instant now);
  void hand_fin(link::Instant now);
  void maybe_finish(link::Instant now);
  void maybe_room();
  bool both_acknowledged() const { return replay_.complete() && fin_handed_; }

  const VisitRole role_;
  const VisitOpen visit_;
  const link::Instant started_;
  State state_ = State::kNoPath;

  SessionPort path_;
  Outcome if_cut_ = Outcome::kPathLost;
  std::uint32_t attempts_ = 0;

  // Sent half.
  ReplayBuffer replay_;
  bool room_wanted_ = false;  // local_room() said 0

  // Received half.
  std::uint64_t received_ = 0;  // bytes that came
  std::uint64_t handed_ = 0;    // of them, consumed by the local side
  bool fin_came_ = false;
  bool fin_handed_ = false;  // and was acknowledged

  std::deque<LocalEvent> events_;
};

}  // namespace fairlead::dataplane
