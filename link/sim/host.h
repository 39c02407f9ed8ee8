// An application at one end of a simulated link: it makes random calls on the core and holds what
// the core reports against the ledger.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fairlead/link/connection.h"
#include "ledger.h"
#include "random.h"

namespace fairlead::link::sim {

// How often each thing happened, to see that a set of seeds meets it all.
struct Counts {
  std::uint64_t opened = 0, accepted = 0, finished = 0, reset = 0, stopped = 0, retired = 0,
                not_processed = 0, cut = 0, draining = 0, relayed = 0, bytes = 0, dead = 0,
                transport = 0, closed_by_peer = 0, stuck = 0, isolated = 0;
  Counts& operator+=(const Counts& more);
};

struct HostTraits {
  Config config;
  std::uint64_t sessions = 0;  // it opens
  std::uint64_t largest = 0;   // bytes written on one half, at most
  unsigned abort_percent = 0;  // of its calls are resets, stops and early releases
  bool writes_beyond_room = false;
  bool goes_away = false;
  bool closes = false;
};

class Host {
 public:
  Host(End end, const HostTraits& traits, Ledger& ledger, Random& random, Instant now);

  Connection& core() { return core_; }
  End end() const { return end_; }
  const Counts& counts() const { return counts_; }

  // Takes every event; `heard_at` is when bytes last came. Call after each call on the core.
  void take_events(Instant now, Instant heard_at);
  // One random call.
  void act(Instant now);
  // Does everything that is left to do, so that the link falls quiet: accepts, writes what it
  // planned, reads. A session marked stuck is not read unless `all`.
  void finish_work(Instant now, bool all);
  // Every session it is not stuck on is over.
  bool finished(bool all) const;
  // The first reason why finished() is false.
  std::string unfinished(bool all) const;
  void release_all(Instant now);
  // A session whose bytes nobody reads for now.
  void choose_stuck();

  bool up() const { return up_; }
  const std::optional<Cut>& closed() const { return closed_; }
  // Nothing of this end is waiting for something it already has.
  void check_not_wedged() const;

  std::string* trace = nullptr;

 private:
  struct View {
    bool ours = false;
    bool visit = false;
    bool relayed = false;
    bool accepted = false;
    bool ended = false;  // Retired, NotProcessed or SessionCut came
    bool released = false;
    bool stopped = false;  // the peer reads no more
    bool reset_told = false;
    bool draining = false;
    bool fin_acknowledged = false;
    bool not_reading = false;
    std::uint64_t plan = 0;
    std::uint64_t cap = 0;                            // of a relayed session
    std::uint64_t limit = 0, received = 0, sent = 0;  // from Credit and Sent
  };

  void note(const std::string& what);
  View& view(SessionId id, const char* event);
  Half& mine(SessionId id) { return ledger_.record(id).half[end_]; }
  Half& theirs(SessionId id) { return ledger_.record(id).half[other(end_)]; }
  bool can_send(SessionId id, const View& view) const;

  void on(const event::Up& up);
  void on(const event::Opened& opened);
  void on(const event::Accepted& accepted);
  void on(const event::Data& data);
  void on(const event::Finished& finished);
  void on(const event::Reset& reset);
  void on(const event::Stopped& stopped);
  void on(const event::Credit& credit);
  void on(const event::Sent& sent);
  void on(const event::NotProcessed& not_processed);
  void on(const event::SessionDraining& draining);
  void on(const event::Retired& retired);
  void on(const event::SessionCut& cut);
  void on(const event::LinkDraining& draining);
  void on(const event::Closed& closed);

  void open(Instant now);
  void accept(SessionId id, View& view, Instant now);
  void write(SessionId id, View& view, std::uint64_t most);
  void finish(SessionId id, View& view);
  void reset(SessionId id, View& view, Code code);
  void stop(SessionId id, View& view, Code code);
  void consume(SessionId id, View& view, std::uint64_t n, Instant now);
  void pass_credit(SessionId id, View& view, bool all, Instant now);
  void acknowledge(SessionId id, View& view, Instant now);
  void release(SessionId id, View& view, Instant now);
  void act_on(SessionId id, View& view, Instant now);
  void finish_session(SessionId id, View& view, Instant now);
  void end_visit(SessionId id, View& view);

  End end_;
  HostTraits traits_;
  Ledger& ledger_;
  Random& random_;
  Connection core_;
  std::map<SessionId, View> views_;
  std::uint64_t opened_ = 0;
  bool up_ = false;
  bool going_away_ = false;
  int draining_phase_ = -1;
  Instant now_{};
  Instant heard_at_{};
  std::optional<Cut> closed_;
  Counts counts_;
};

}  // namespace fairlead::link::sim
