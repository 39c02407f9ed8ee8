// The connection's state. Its functions live in three files: commands and timers in connection.cc,
// what the peer's frames do in connection_receive.cc, what is sent next in connection_produce.cc.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "abuse_limits.h"
#include "fairlead/link/connection.h"
#include "keepalive.h"
#include "recv_window.h"
#include "send_scheduler.h"
#include "session.h"
#include "wire.h"

namespace fairlead::link {

class Connection::Impl {
 public:
  Impl(const Config& config, Instant now);

  // --- connection.cc ---
  void transport_ended(CutKind kind, std::string text);
  std::optional<Instant> next_deadline() const;
  void on_timer(Instant now);
  std::optional<Event> poll_event();

  OpenResult open(const OpenRequest& request, Instant now);
  bool accept(SessionId id, Slice meta, std::uint32_t path_rtt_us, Instant now,
              std::optional<std::uint64_t> credit_cap);
  bool write(SessionId id, Slice bytes);
  bool finish(SessionId id);
  bool reset(SessionId id, Code code);
  bool stop(SessionId id, Code code);
  bool consume(SessionId id, std::uint64_t n, Instant now);
  bool relay_credit(SessionId id, std::uint64_t cap, std::uint64_t received, Instant now);
  bool acknowledge_fin(SessionId id, Instant now);
  bool release(SessionId id, Instant now, Code code);
  void goaway(GoawayReason reason, std::chrono::milliseconds grace, std::string_view text);
  void close(Code code, std::string_view text, Instant now);

  // --- connection_receive.cc ---
  void receive(Bytes bytes, Instant now);

  // --- connection_produce.cc ---
  bool wants_write() const;
  std::size_t produce(std::span<std::byte> out, Instant now);

  Session* find(SessionId id);
  const Session* find(SessionId id) const;

  Config config_;
  Keepalive keepalive_;
  LinkBudget budget_;
  std::chrono::microseconds rtt_{0};
  LinkStats stats_;

  // --- life of the link ---
  enum class Life : std::uint8_t {
    kOpen,
    kClosing,  // sessions are cut; what has credit, then CLOSE, is still to be produced
    kFailing,  // only CLOSE is still to be produced
    kDone,
  };
  Life life_ = Life::kOpen;
  std::optional<wire::Close> close_owed_;
  std::optional<PeerHello> peer_;  // once HELLO came
  bool hello_owed_ = true;
  Instant hello_deadline_;
  Instant now_;        // of the last call that knew it
  Instant closed_at_;  // since when life_ is not kOpen

  // --- sessions ---
  std::unordered_map<SessionId, std::unique_ptr<Session>> sessions_;
  std::deque<SessionId> control_;  // sessions that owe control frames, in the order they began to
  SendScheduler scheduler_;        // sessions that can send DATA
  std::deque<std::pair<Instant, SessionId>> flush_;  // credit to be told at the latest then

  std::uint32_t max_sessions_;            // of each opener
  SessionId next_id_;                     // of our next open
  SessionId peer_last_id_ = 0;            // highest the peer opened
  SessionId told_last_id_ = 0;            // highest of these that the application was told of
  std::uint32_t opened_ = 0;              // by us, ever
  std::uint32_t peer_opens_ = kMinOpens;  // cumulative limit for us
  std::uint32_t live_ours_ = 0;
  std::uint32_t peer_opened_ = 0;  // by the peer, ever
  std::uint32_t opens_told_ = 0;   // cumulative limit for the peer
  std::uint32_t peer_repaid_ = 0;  // of the peer's, finished and released
  std::uint32_t peer_initial_window_ = kFloorWindow;
  std::uint64_t late_bytes_allowed_ = 0;  // DATA for ids that were refused by goaway
  int flow_errors_ = 0;

  // --- goaway ---
  enum class Leaving : std::uint8_t { kNo, kPhase0Owed, kRoundTrip, kPhase1Owed, kYes };
  Leaving leaving_ = Leaving::kNo;
  wire::Goaway goaway_;
  std::uint64_t goaway_token_ = 0;
  Instant goaway_deadline_;
  SessionId refuse_above_ = 0;  // in force once leaving_ is kYes
  int peer_goaway_phase_ = -1;
  int peer_goaways_ = 0;

  // --- owed on the link ---
  std::optional<std::uint64_t> pong_owed_;

  // --- abuse ---
  TokenBucket pings_, early_resets_, no_effect_, tiny_, skipped_;

  // --- input ---
  std::vector<std::byte> partial_;  // a frame that is not complete yet
  // --- output ---
  std::vector<std::byte> scratch_;

  std::deque<Event> events_;

 private:
  // connection.cc
  bool alive() const { return life_ == Life::kOpen; }
  template <typename E>
  void tell(const Session& session, E event) {
    if (!session.released) events_.push_back(std::move(event));
  }
  void end(Life life, Cut cut);
  void exclude_untold(std::string_view text);
  void fail(Code code, std::string text);
  void queue_control(Session& session);
  void queue_data(Session& session);
  bool sendable(const Session& session) const;
  void reset_send(Session& session, Code code);
  void credit_changed(Session& session, Instant now);
  void credit_owed(Session& session);
  void maybe_retire(Session& session);
  void erase(Session& session);
  bool has_something_to_send(const Session& session) const;
  void reap();
  bool opens_due() const;
  std::chrono::microseconds round_trip(const Session& session) const;

  // connection_receive.cc
  std::size_t take_frame(Bytes bytes);
  void on_frame(const wire::Header& header, Bytes payload);
  void on(const wire::Header& header, wire::Hello& frame);
  void on(const wire::Header& header, wire::Open& frame);
  void on(const wire::Header& header, wire::Accept& frame);
  void on(const wire::Header& header, wire::Data& frame);
  void on(const wire::Header& header, wire::Credit& frame);
  void on(const wire::Header& header, wire::Reset& frame);
  void on(const wire::Header& header, wire::Stop& frame);
  void on(const wire::Header& header, wire::Ping& frame);
  void on(const wire::Header& header, wire::Pong& frame);
  void on(const wire::Header& header, wire::Opens& frame);
  void on(const wire::Header& header, wire::Goaway& frame);
  void on(const wire::Header& header, wire::Close& frame);
  void on(const wire::Header& header, wire::Skipped& frame);
  bool is_ours(SessionId id) const { return (id & 1) == (config_.side == Side::kDialer ? 1u : 0u); }
  Session* session_of(const wire::Header& header, const char* name);
  void no_effect();
  void not_processed(Session& session);
  void flow_error(Session& session);

  // connection_produce.cc
  class Output;
  bool produce_link(Output& out, Instant now);
  bool produce_session_control(Output& out);
  bool produce_control_of(Session& session, Output& out);
  void produce_data(Output& out);
  bool produce_data_of(Session& session, Output& out);
  void produce_close(Output& out);
};

}  // namespace fairlead::link
