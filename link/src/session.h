// What the connection keeps of one session.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "fairlead/link/connection.h"
#include "recv_window.h"
#include "send_scheduler.h"

namespace fairlead::link {

// Written and not yet produced slices, oldest first. Unlike std::deque it costs nothing when empty.
class SendQueue {
 public:
  void push(Slice slice) {
    bytes_ += slice.size();
    slices_.push_back(std::move(slice));
  }
  std::uint64_t bytes() const { return bytes_; }
  // Copies the first out.size() bytes, which must be there, and drops them.
  void pop_into(std::span<std::byte> out);
  void clear() { *this = SendQueue(); }

 private:
  std::vector<Slice> slices_;
  std::size_t head_ = 0;  // slices_ before it are spent
  std::uint64_t bytes_ = 0;
};

enum class SendState : std::uint8_t {
  kOpen,
  kFinishing,  // FIN follows the queue
  kFinished,   // FIN was produced
  kReset,      // aborted; RESET may still be owed
};
enum class RecvState : std::uint8_t { kOpen, kFinished, kReset };

struct Session {
  Session(SessionId session_id, bool opened_here, std::uint64_t window_max, std::uint64_t limit,
          Instant now)
      : id(session_id), ours(opened_here), window(window_max, limit, now) {}

  SessionId id;
  bool ours;             // opened by this end
  bool visit = false;    // retires on RESETs only
  bool relayed = false;  // `received` is another link's; Sent is reported
  bool accepted = false;
  bool released = false;  // the application let go: no more events
  bool answered = false;  // we said something to the peer's OPEN, be it a refusal
  bool retired = false;   // Retired, NotProcessed or SessionCut was reported

  // Frames owed; the newest state replaces an older one that was not sent yet.
  bool owes_open = false;
  bool owes_accept = false;
  bool owes_credit = false;
  bool owes_stop = false;
  bool owes_reset = false;
  bool control_queued = false;  // stands in the connection's control list
  bool flush_armed = false;     // stands in the connection's flush list

  std::uint32_t path_rtt_told = 0;  // of the hops behind us, for OPEN or ACCEPT
  std::uint32_t path_rtt_us = 0;    // of the hops behind the peer
  Slice meta;                       // of the OPEN or ACCEPT that is owed

  SendState send = SendState::kOpen;
  bool sent_fin = false;
  SendScheduler::Place place;
  SendQueue queue;
  std::uint64_t sent = 0;  // offset produced
  std::uint64_t peer_limit = 0;
  std::uint64_t peer_received = 0;
  Code reset_code = code::kOk;

  RecvState recv = RecvState::kOpen;
  RecvWindow window;
  bool discarding = false;  // we said STOP: bytes are dropped
  bool overrun = false;     // the peer sent beyond its limit; Reset was reported
  bool got_fin = false;
  bool fin_acknowledged = false;
  std::uint64_t relayed_received = 0;
  std::uint64_t received_told = 0;
  Code stop_code = code::kOk;

  bool credit_event_queued = false;
  bool sent_event_queued = false;

  bool send_done() const {
    return send == SendState::kReset || (!visit && send == SendState::kFinished);
  }
  bool recv_done() const {
    return recv == RecvState::kReset || (!visit && recv == RecvState::kFinished);
  }
  bool owes_control() const {
    return owes_open || owes_accept || owes_credit || owes_stop || owes_reset;
  }
  // What CREDIT says in `received`.
  std::uint64_t received() const {
    return relayed ? relayed_received : window.received() + (fin_acknowledged ? 1 : 0);
  }
};

}  // namespace fairlead::link
