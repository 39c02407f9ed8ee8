// Two connections, two pipes, two applications and one clock, all from one seed.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "host.h"
#include "ledger.h"
#include "pipe.h"
#include "random.h"

namespace fairlead::link::sim {

struct Outcome {
  std::optional<std::string> failure;  // the invariant that did not hold
  std::uint64_t steps = 0;
  Counts counts;
};

// Makes a broken core out of a good one, at both ends: the simulation must catch what results.
struct Sabotage {
  // Changes the whole frames that the core wrote, before anybody sees them.
  std::function<void(std::vector<std::byte>& frames)> output;
  // Timers fire this much after their deadline.
  Duration timer_lag{};
};

// Runs one world to its end. `trace` gets every step when not null.
Outcome run(std::uint64_t seed, std::ostream* trace, const Sabotage& sabotage = {});

class World {
 public:
  World(std::uint64_t seed, std::ostream* trace, const Sabotage& sabotage);

  // Throws Broken.
  void run();
  std::uint64_t steps() const { return steps_; }
  Counts counts() const;
  void flush_trace();

 private:
  enum class Fault { kNone, kCut, kEnd, kSwallow, kStall };

  // What one end's driver keeps.
  struct Driver {
    Instant heard_at;       // last bytes
    Instant wrote_at;       // last write
    bool told_end = false;  // transport_ended() was called
    bool closed_seen = false;
  };

  Config config(Liveness liveness, End end);
  HostTraits traits(End end, Liveness liveness);
  PipeTraits pipe_traits(End from);

  void random_steps();
  void finish();
  void wait_for_end();
  // Lets the link work until `all` (or all but the stuck) sessions are over; false when it does not
  // happen within a minute.
  bool settle(bool all);

  void step();
  void produce(End end);
  void deliver(End end);
  void act(End end);
  // To the next moment at which something happens.
  void pass_time();
  void break_something();
  void end_transport(End end);
  void check(End end);
  void check_closed(End end);
  bool both_over();
  // When the driver of `end` calls on_timer().
  std::optional<Instant> timer(End end);
  Pipe& out_of(End end) { return pipes_[end]; }
  Pipe& into(End end) { return pipes_[other(end)]; }

  std::uint64_t seed_;
  Random random_;
  std::ostream* trace_;
  const Sabotage& sabotage_;
  std::string lines_;
  static constexpr Instant kStart{std::chrono::hours(1)};
  Instant now_ = kStart;
  std::array<CreditPool, 2> pools_;
  Fault fault_ = Fault::kNone;
  End fault_end_ = 0;
  std::uint64_t fault_step_ = 0;
  std::uint64_t planned_steps_ = 0;
  bool one_byte_reads_ = false;
  std::array<Config, 2> configs_;
  Ledger ledger_;
  std::array<Pipe, 2> pipes_;
  std::array<Host, 2> hosts_;
  std::array<Driver, 2> drivers_;
  std::uint64_t steps_ = 0;
  Counts counts_;
};

}  // namespace fairlead::link::sim
