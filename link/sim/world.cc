#include "world.h"

#include <algorithm>

namespace fairlead::link::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kPools[] = {0, 64 << 10, 1 << 20, 64 << 20};
constexpr std::uint64_t kWindows[] = {16 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr std::uint64_t kBudgets[] = {2 << 20, 4 << 20, 64 << 20};
constexpr std::uint64_t kRates[] = {200'000, 2'000'000, 20'000'000, 1'000'000'000};
constexpr std::uint64_t kBuffers[] = {8 << 10, 32 << 10, 256 << 10};
constexpr std::uint64_t kOutputs[] = {16'384, 16'500, 20'000, 65'536};
constexpr Liveness kLivenesses[] = {kFast, kFast, kDefault, kMobile};

}  // namespace

World::World(std::uint64_t seed, std::ostream* trace, const Sabotage& sabotage)
    : seed_(seed),
      random_(seed),
      trace_(trace),
      sabotage_(sabotage),
      pools_{CreditPool(random_.pick(kPools)), CreditPool(random_.pick(kPools))},
      configs_{config(random_.pick(kLivenesses), 0), config(kDefault, 1)},
      ledger_(configs_[0], configs_[1]),
      pipes_{Pipe(pipe_traits(0)), Pipe(pipe_traits(1))},
      hosts_{Host(0, traits(0, configs_[0].liveness), ledger_, random_, now_),
             Host(1, traits(1, configs_[1].liveness), ledger_, random_, now_)},
      drivers_{Driver{now_, now_}, Driver{now_, now_}} {
  planned_steps_ = random_.between(20, 2500);
  one_byte_reads_ = random_.chance(5);
  for (Host& host : hosts_) {
    if (trace_ != nullptr) host.trace = &lines_;
    host.core().set_rtt(milliseconds(random_.between(1, 100)));
  }
}

Config World::config(Liveness liveness, End end) {
  Config config;
  config.side = end == 0 ? Side::kDialer : Side::kListener;
  config.liveness = liveness;
  config.software = "sim/1";
  config.name = end_name(end);
  config.max_peer_sessions = 32;
  config.window_max = random_.pick(kWindows);
  config.budget = random_.pick(kBudgets);
  config.pool = random_.chance(80) ? &pools_[end] : nullptr;
  return config;
}

HostTraits World::traits(End end, Liveness) {
  HostTraits traits;
  traits.config = configs_[end];
  traits.sessions = random_.below(8);
  traits.largest = random_.chance(10) ? 400'000 : random_.chance(50) ? 60'000 : 2'000;
  traits.abort_percent = random_.chance(50) ? 0 : 6;
  traits.writes_beyond_room = random_.chance(50);
  traits.goes_away = random_.chance(20);
  traits.closes = random_.chance(8);
  return traits;
}

PipeTraits World::pipe_traits(End from) {
  PipeTraits traits;
  traits.bytes_per_second = random_.pick(kRates);
  traits.delay = milliseconds(random_.below(80));
  // The buffer empties within a second, so that a PING never waits long behind it.
  traits.buffer = std::min(random_.pick(kBuffers), traits.bytes_per_second / 2);
  if (from == 0) {
    if (random_.chance(60)) return traits;
    fault_ = random_.pick({Fault::kCut, Fault::kCut, Fault::kEnd, Fault::kSwallow, Fault::kStall});
    fault_end_ = random_.below(2);
    fault_step_ = random_.below(2500);
  }
  if (fault_ == Fault::kCut && fault_end_ == from) traits.cut_after = random_.skewed(300'000);
  return traits;
}

Counts World::counts() const {
  Counts sum = counts_;
  for (const Host& host : hosts_) sum += host.counts();
  return sum;
}

void World::flush_trace() {
  if (trace_ != nullptr) *trace_ << lines_ << std::flush;
  lines_.clear();
}

void World::run() {
  random_steps();
  finish();
  wait_for_end();
  for (const End end : {End{0}, End{1}}) {
    Host& host = hosts_[end];
    host.release_all(now_);
    const LinkStats stats = host.core().stats();
    if (stats.sessions != 0) broken("sessions are left after everything was released");
    if (stats.granted != 0) broken("credit is left after everything was released");
    if (pools_[end].used() != 0) broken("the pool is not whole after everything was released");
    if (host.core().next_deadline()) broken("a finished link has a deadline");
  }
}

void World::random_steps() {
  for (std::uint64_t i = 0; i < planned_steps_ && !both_over(); ++i) {
    if (fault_ != Fault::kNone && i == fault_step_) break_something();
    step();
    flush_trace();
  }
}

void World::step() {
  ++steps_;
  const End end = random_.below(2);
  switch (random_.below(8)) {
    case 0:
    case 1:
      return produce(end);
    case 2:
    case 3:
      return deliver(end);
    case 4:
      return pass_time();
    default:
      return act(end);
  }
}

void World::act(End end) {
  hosts_[end].act(now_);
  check(end);
}

void World::produce(End end) {
  Connection& core = hosts_[end].core();
  Pipe& pipe = out_of(end);
  if (!core.wants_write() || pipe.room() == 0 || drivers_[end].told_end) return;
  std::vector<std::byte> out(random_.chance(10) ? random_.below(16'384) : random_.pick(kOutputs));
  const bool enough = out.size() >= 16'384;
  const std::size_t n = core.produce(out, now_);
  if (n > out.size()) broken("produce() wrote past its room");
  if (n == 0 && enough && core.wants_write()) broken("wants_write(), but nothing can be produced");
  if (n > 0) drivers_[end].wrote_at = now_;
  out.resize(n);
  if (sabotage_.output) sabotage_.output(out);
  ledger_.left(end, out, trace_ != nullptr ? &lines_ : nullptr);
  pipe.send(out, now_);
  check(end);
}

void World::deliver(End end) {
  Pipe& pipe = into(end);
  Driver& driver = drivers_[end];
  if (driver.told_end) return;
  const std::uint64_t most = one_byte_reads_ ? 1 : random_.skewed(65'536);
  const std::vector<std::byte> bytes = pipe.take(most, now_);
  if (!bytes.empty()) {
    if (!hosts_[end].core().closed()) driver.heard_at = now_;
    ledger_.arrived(other(end), pipe.taken());
    hosts_[end].core().receive(bytes, now_);
    check(end);
  }
  if (pipe.over()) end_transport(end);
}

// The driver of `end` sees its socket fail or end.
void World::end_transport(End end) {
  Driver& driver = drivers_[end];
  if (driver.told_end) return;
  driver.told_end = true;
  const bool reset = into(end).was_cut() && random_.chance(50);
  hosts_[end].core().transport_ended(reset ? CutKind::kTransport : CutKind::kEnded, "sim", now_);
  out_of(end).end();
  check(end);
}

void World::break_something() {
  lines_ += trace_ != nullptr ? "  a fault\n" : "";
  if (fault_ == Fault::kEnd) end_transport(fault_end_);
  if (fault_ == Fault::kSwallow) out_of(fault_end_).swallow();
  if (fault_ == Fault::kStall) out_of(fault_end_).stall();
}

void World::pass_time() {
  // Readers read and the next event comes; only then does time go on.
  for (const End end : {End{0}, End{1}}) {
    const bool news = into(end).arrived(now_) || into(end).over();
    if (news && !drivers_[end].told_end) return deliver(end);
  }
  Instant next = now_ + Duration(random_.skewed(2'000'000'000));
  for (const End end : {End{0}, End{1}}) {
    if (const auto at = into(end).next_arrival(); at && !drivers_[end].told_end) {
      next = std::min(next, *at);
    }
    if (const auto at = timer(end)) next = std::min(next, *at);
  }
  if (next < now_) broken("a deadline lies in the past");
  now_ = next;
  if (trace_ != nullptr) {
    lines_ += "at " + std::to_string((now_ - kStart).count() / 1000) + " us\n";
  }
  for (const End end : {End{0}, End{1}}) {
    while (into(end).arrived(now_) && !drivers_[end].told_end) deliver(end);
    Connection& core = hosts_[end].core();
    if (const auto at = timer(end); !at || *at > now_) continue;
    core.on_timer(now_);
    if (const auto at = core.next_deadline(); at && *at <= now_) {
      broken("on_timer() left a deadline that is not in the future");
    }
    check(end);
  }
}

std::optional<Instant> World::timer(End end) {
  const std::optional<Instant> at = hosts_[end].core().next_deadline();
  return at ? std::optional(*at + sabotage_.timer_lag) : std::nullopt;
}

// --- the end of a world ---

bool World::both_over() {
  return hosts_[0].core().done() && hosts_[1].core().done();
}

bool World::settle(bool all) {
  const Instant until = now_ + seconds(60);
  while (now_ < until && !hosts_[0].closed() && !hosts_[1].closed()) {
    ++steps_;
    for (const End end : {End{0}, End{1}}) {
      hosts_[end].finish_work(now_, all);
      check(end);
      produce(end);
    }
    pass_time();
    flush_trace();
    if (hosts_[0].finished(all) && hosts_[1].finished(all)) return true;
  }
  return hosts_[0].closed() || hosts_[1].closed();
}

void World::finish() {
  const bool broken_pipe = pipes_[0].broken() || pipes_[1].broken();
  if (broken_pipe) return;
  for (Host& host : hosts_) host.choose_stuck();
  for (const bool all : {false, true}) {
    if (!settle(all)) {
      const std::string left = hosts_[0].unfinished(all) + "; " + hosts_[1].unfinished(all);
      for (Host& host : hosts_) host.check_not_wedged();
      broken("no end in sight: " + left);
    }
    if (!all && counts().stuck > 0 && !hosts_[0].closed() && !hosts_[1].closed()) {
      ++counts_.isolated;
      for (int i = 0; i < 200; ++i) {
        for (const End end : {End{0}, End{1}}) produce(end);
        pass_time();
      }
      for (Host& host : hosts_) {
        if (!host.closed()) host.check_not_wedged();
      }
    }
  }
}

// Ends the link one way or the other, and has both ends find out.
void World::wait_for_end() {
  const End closer = random_.below(2);
  hosts_[closer].core().close(code::kOk, "the end", now_);
  check(closer);
  const Instant until = now_ + seconds(300);
  while (!both_over()) {
    if (now_ > until) broken("an end never found out that the link is over");
    for (const End end : {End{0}, End{1}}) {
      produce(end);
      if (hosts_[end].core().done()) out_of(end).end();
      if (into(end).over()) end_transport(end);
    }
    pass_time();
    flush_trace();
  }
}

// --- what always holds ---

void World::check(End end) {
  Host& host = hosts_[end];
  Driver& driver = drivers_[end];
  host.take_events(now_, driver.heard_at);
  if (host.core().closed() != host.closed().has_value()) broken("closed() without Closed");
  if (host.closed() && !driver.closed_seen) {
    driver.closed_seen = true;
    check_closed(end);
  }
  if (host.closed()) return;
  ledger_.check_grants(end);
  const Instant dead_at = driver.heard_at + host.core().liveness().bound();
  if (now_ >= dead_at) broken("a dead peer was not found at its time");
  const LinkStats stats = host.core().stats();
  if (stats.granted > configs_[end].budget) broken("more is lent than the budget holds");
  if (pools_[end].used() > pools_[end].capacity()) broken("the pool is overdrawn");
}

// Why a link may end.
void World::check_closed(End end) {
  const Cut& cut = *hosts_[end].closed();
  const Driver& driver = drivers_[end];
  const Duration bound = hosts_[end].core().liveness().bound();
  switch (cut.kind) {
    case CutKind::kTransport:
    case CutKind::kEnded:
      ++counts_.transport;
      if (!driver.told_end) broken("a transport that has not ended was reported as ended");
      return;
    case CutKind::kDeadPeer:
      ++counts_.dead;
      if (now_ != driver.heard_at + bound) broken("a peer was declared dead at the wrong time");
      return;
    case CutKind::kStalled:
      if (now_ < driver.wrote_at + bound) broken("a write was declared stalled too early");
      if (!out_of(end).broken())
        broken("a write was declared stalled, but the transport takes bytes");
      return;
    case CutKind::kPeerClosed:
      ++counts_.closed_by_peer;
      if (!hosts_[other(end)].closed()) broken("closed by a peer that is open");
      return;
    case CutKind::kClosed:
      return;
    case CutKind::kProtocolError:
      if (!hosts_[end].up() && now_ == kStart + kHelloTimeout) return;
      broken("the link failed: " + to_string(cut));
    case CutKind::kUnanswered:
      broken("the link failed: " + to_string(cut));
  }
}

Outcome run(std::uint64_t seed, std::ostream* trace, const Sabotage& sabotage) {
  Outcome outcome;
  World world(seed, trace, sabotage);
  try {
    world.run();
  } catch (const Broken& broken) {
    outcome.failure = broken.what();
  }
  world.flush_trace();
  outcome.steps = world.steps();
  outcome.counts = world.counts();
  return outcome;
}

}  // namespace fairlead::link::sim
