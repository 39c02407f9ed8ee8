// Visits from end to end on a virtual clock: visitor end, link, splice, link, agent end; the real
// link cores, nothing real beneath them. What the local connections do, how bytes are split and
// delayed, and what breaks is drawn from a seed; the seed of a failure replays it.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fairlead/link/connection.h"
#include "visit/splice.h"
#include "visit/testing_link.h"
#include "visit/visit_end.h"

namespace fairlead::dataplane {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
namespace event = link::event;

constexpr std::uint64_t kWindow = 128 * 1024;
constexpr std::uint64_t kForever = ~0ull;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

std::byte content(std::uint64_t stream, std::uint64_t offset) {
  return static_cast<std::byte>(stream * 131 + offset * 7 + (offset >> 8) * 13);
}

// Two cores and the bytes on their way between them.
class Wire {
 public:
  Wire(bool first_dials, link::Duration latency, link::Instant now)
      : latency_(latency),
        first(config(first_dials), now),
        second(config(!first_dials), now),
        first_port(first),
        second_port(second) {
    const auto rtt = std::chrono::duration_cast<microseconds>(2 * latency);
    first.set_rtt(rtt);
    second.set_rtt(rtt);
  }

  // One turn of the transport: some of what was sent arrives, some of what is ready is sent.
  void turn(Random& random, link::Instant now) {
    if (!up_) return;
    deliver(to_second_, second, random, now);
    deliver(to_first_, first, random, now);
    for (link::Connection* core : {&first, &second}) {
      if (const auto at = core->next_deadline(); at && *at <= now) core->on_timer(now);
    }
    send(first, to_second_, random, now);
    send(second, to_first_, random, now);
  }
  void cut(link::Instant now) {
    if (!up_) return;
    up_ = false;
    first.transport_ended(link::CutKind::kTransport, "cut", now);
    second.transport_ended(link::CutKind::kTransport, "cut", now);
  }
  bool up() const { return up_; }

 private:
  struct Packet {
    link::Instant at;
    std::vector<std::byte> bytes;
  };
  static link::Config config(bool dials) {
    return {.side = dials ? link::Side::kDialer : link::Side::kListener,
            .software = "sim",
            .role = "relay",
            .name = "sim",
            .window_max = kWindow,
            .budget = 4 << 20};
  }
  void send(link::Connection& core, std::deque<Packet>& pipe, Random& random, link::Instant now) {
    if (!core.wants_write() || random.one_in(4)) return;
    std::vector<std::byte> out(link::kMaxDataPayload + 8 + random.below(64 * 1024));
    out.resize(core.produce(out, now));
    if (!out.empty()) pipe.push_back({now + latency_, std::move(out)});
  }
  static void deliver(std::deque<Packet>& pipe, link::Connection& core, Random& random,
                      link::Instant now) {
    while (!pipe.empty() && pipe.front().at <= now) {
      std::vector<std::byte>& bytes = pipe.front().bytes;
      const std::size_t n = random.one_in(3) ? 1 + random.below(bytes.size()) : bytes.size();
      core.receive(link::Bytes(bytes).first(n), now);
      bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      if (!bytes.empty()) return;
      pipe.pop_front();
    }
  }

  bool up_ = true;
  link::Duration latency_;
  std::deque<Packet> to_first_, to_second_;

 public:
  link::Connection first, second;
  testing::CorePort first_port, second_port;
};

// What a local connection is going to do.
struct Script {
  std::uint64_t total = 0;               // bytes it sends before it ends its half
  std::uint64_t abort_after = kForever;  // bytes sent or received, then it resets
  bool stuck = false;                    // takes nothing until it is freed
  bool refuses = false;                  // an upstream that cannot be connected
  std::uint64_t slow = 1;                // acts in one turn of that many
};

// An end with its local connection.
class Party {
 public:
  Party(VisitRole role, VisitOpen visit, ReplayLease lease, Script plan, std::uint64_t out,
        std::uint64_t in, link::Instant now)
      : script(plan), end(role, std::move(visit), std::move(lease), now), out_(out), in_(in) {}

  void turn(Random& random, link::Instant now) {
    if (ended || !random.one_in(script.slow)) return;
    if (end.role() == VisitRole::kAgent && end.state() == VisitEnd::State::kOpening) {
      if (random.one_in(3)) {
        script.refuses ? end.abort(visit_code::kUpstreamRefused, now) : end.local_opened(now);
      }
      return;
    }
    if (sent + got >= script.abort_after) {
      end.abort(end.role() == VisitRole::kVisitor ? visit_code::kVisitorReset
                                                  : visit_code::kUpstreamReset,
                now);
      return;
    }
    read(random, now);
    if (handed < got && !script.stuck) {
      const std::uint64_t n = 1 + random.below(got - handed);
      handed += n;
      end.local_consumed(n, now);
    }
  }
  // Takes what the end says. False when the path was refused.
  bool pump() {
    bool path = true;
    while (auto next = end.poll()) {
      EXPECT_FALSE(ended) << "an event after the last";
      if (const auto* data = std::get_if<local::Data>(&*next)) {
        EXPECT_FALSE(fin_got) << "bytes after the end";
        for (const std::byte each : data->bytes.bytes()) {
          if (each != content(in_, got++)) ADD_FAILURE() << "wrong byte at " << got - 1;
        }
      } else if (std::holds_alternative<local::Fin>(*next)) {
        EXPECT_EQ(handed, got) << "the end came before the bytes were taken";
        fin_got = true;
      } else if (std::holds_alternative<local::Room>(*next)) {
        readable_ = true;
      } else if (std::holds_alternative<local::PathRefused>(*next)) {
        path = false;
      } else if (const auto* over = std::get_if<local::Ended>(&*next)) {
        ended = over->record;
      }
    }
    return path;
  }
  bool finished() const { return ended && ended->outcome == Outcome::kFinished; }

  Script script;
  VisitEnd end;
  std::uint64_t sent = 0, got = 0, handed = 0;
  bool fin_sent = false, fin_got = false;
  std::optional<VisitRecord> ended;

 private:
  // After a room of 0 it reads again only when told: a Room that is missing shows as a stall.
  void read(Random& random, link::Instant now) {
    if (fin_sent || !readable_) return;
    if (sent == script.total) {
      fin_sent = true;
      end.local_fin(now);
      return;
    }
    const std::uint64_t room = end.local_room();
    if (room == 0) readable_ = false;
    const std::uint64_t most = random.one_in(4) ? 40 : 32 * 1024;
    const std::uint64_t n = std::min({room, script.total - sent, 1 + random.below(most)});
    if (n == 0) return;
    std::vector<std::byte> bytes(n);
    for (std::byte& each : bytes) each = content(out_, sent++);
    end.local_data(link::Slice::copy_of(bytes), now);
  }

  std::uint64_t out_, in_;  // the streams' content
  bool readable_ = true;
};

struct Visit {
  std::unique_ptr<Party> visitor, agent;
  Script agent_script;
  bool disturbed = false;  // something was done to it that may lose it
};

class World {
 public:
  explicit World(std::uint64_t seed)
      : random(seed),
        left(random.one_in(2), latency(), now),
        right(random.one_in(2), latency(), now) {}
  ~World() {
    // Both ends' memory came from these and is back.
    visits.clear();
    EXPECT_EQ(visitor_memory.used(), 0u);
    EXPECT_EQ(agent_memory.used(), 0u);
  }

  Visit& add(Script visitor, Script agent) {
    const std::uint64_t number = visits.size();
    std::string id(16, 'v');
    id[0] = static_cast<char>(number);
    VisitOpen open{.id = *VisitId::from_bytes(id),
                   .secret = std::string(32, 's'),
                   .kind = "tcp",
                   .tenant = "t",
                   .service = "s",
                   .agent_id = "a",
                   .instance = std::string(16, 'i')};
    visits.push_back(std::make_unique<Visit>());
    Visit& visit = *visits.back();
    visit.agent_script = agent;
    visit.visitor = std::make_unique<Party>(VisitRole::kVisitor, open, *visitor_memory.admit("t"),
                                            visitor, 2 * number, 2 * number + 1, now);
    return visit;
  }

  // Runs for `time`, or until everything is over.
  void run(link::Duration time) {
    const link::Instant until = now + time;
    while (now < until && !(quiet() && visits_over())) turn();
  }
  void turn() {
    now += microseconds(200 + random.below(2000));
    for (auto& visit : visits) {
      if (visit->visitor->end.state() == VisitEnd::State::kNoPath) open_path(*visit);
      visit->visitor->turn(random, now);
      if (visit->agent) visit->agent->turn(random, now);
      pump(*visit);
    }
    left.turn(random, now);
    right.turn(random, now);
    events();
  }
  bool visits_over() const {
    for (const auto& visit : visits) {
      if (!visit->visitor->ended || (visit->agent && !visit->agent->ended)) return false;
    }
    return true;
  }
  // Nothing is left in the links or between them.
  bool quiet() const {
    return splices_.empty() && left.first.session_count() == 0 &&
           left.second.session_count() == 0 && right.first.session_count() == 0 &&
           right.second.session_count() == 0;
  }
  void drop_splices() {
    for (auto& each : splices_) each->splice.drop(now);
    sweep();
  }
  std::size_t splices() const { return splices_.size(); }

  Random random;
  link::Instant now{std::chrono::hours(1)};
  ReplayBudget visitor_memory{4 << 20, 4 << 20};
  ReplayBudget agent_memory{4 << 20, 4 << 20};
  Wire left, right;  // visitor's process - relay - agent's process
  std::vector<std::unique_ptr<Visit>> visits;
  std::uint64_t not_here = 0;  // the relay answers one OPEN of that many with 12

 private:
  struct Spliced {
    Spliced(SessionPort inbound, SessionPort outbound, link::Instant at)
        : splice(inbound, outbound, at), in(inbound.id()), out(outbound.id()) {}
    Splice splice;
    link::SessionId in, out;
  };

  link::Duration latency() { return microseconds(50 + random.below(20'000)); }

  void open_path(Visit& visit) {
    constexpr std::uint32_t kAttempts = 20;
    if (!left.up() || visit.visitor->end.attempt() > kAttempts) {
      visit.visitor->end.abort(link::code::kRefused, now, Outcome::kNoAgent);
      return;
    }
    VisitOpen open = visit.visitor->end.visit();
    open.attempt = visit.visitor->end.attempt();
    const auto opened = left.first.open({.meta = encode_open(open), .visit = true}, now);
    ASSERT_EQ(opened.error, link::OpenError::kNone);
    visitors_[opened.id] = &visit;
    visit.visitor->end.path_opened({&left.first_port, opened.id}, Outcome::kPeerLost, now);
  }
  void pump(Visit& visit) {
    visit.visitor->pump();
    if (visit.agent) visit.agent->pump();
  }
  void events() {
    while (auto next = left.first.poll_event()) {
      if (Visit* visit = find(visitors_, id_of(*next))) {
        visit->visitor->end.path_event(*next, now);
        if (!visit->visitor->pump()) visitors_.erase(id_of(*next));
      }
    }
    while (auto next = right.second.poll_event()) {
      if (const auto* opened = std::get_if<event::Opened>(&*next)) arrive(*opened);
      if (Visit* visit = find(agents_, id_of(*next))) {
        visit->agent->end.path_event(*next, now);
        visit->agent->pump();
      }
    }
    while (auto next = left.second.poll_event()) {
      if (const auto* opened = std::get_if<event::Opened>(&*next)) forward(*opened);
      if (Spliced* each = find(inbound_, id_of(*next))) {
        each->splice.on_event(Splice::Side::kInbound, *next, now);
      }
      sweep();
    }
    while (auto next = right.first.poll_event()) {
      if (Spliced* each = find(outbound_, id_of(*next))) {
        each->splice.on_event(Splice::Side::kOutbound, *next, now);
      }
      sweep();
    }
  }
  void forward(const event::Opened& opened) {
    if (not_here > 0 && random.one_in(not_here)) {
      left.second.release(opened.id, now, link::code::kNotHere);
      return;
    }
    SessionPort inbound(&left.second_port, opened.id);
    const auto out = right.first.open(relay_request(opened, inbound), now);
    if (out.error != link::OpenError::kNone) {
      inbound.release(now, link::code::kRefused);
      return;
    }
    splices_.push_back(
        std::make_unique<Spliced>(inbound, SessionPort(&right.first_port, out.id), now));
    inbound_[opened.id] = outbound_[out.id] = splices_.back().get();
  }
  void arrive(const event::Opened& opened) {
    std::string error;
    const auto meta = parse_open(opened.meta.bytes(), error);
    ASSERT_TRUE(meta) << error;
    const auto& open = std::get<VisitOpen>(*meta);
    const auto number = static_cast<std::uint64_t>(open.id.bytes()[0]);
    Visit& visit = *visits.at(number);
    ASSERT_EQ(visit.agent, nullptr) << "one visit reached the agent twice";
    visit.agent = std::make_unique<Party>(VisitRole::kAgent, open, *agent_memory.admit("t"),
                                          visit.agent_script, 2 * number + 1, 2 * number, now);
    visit.agent->end.path_opened({&right.second_port, opened.id}, Outcome::kHomeLost, now);
    agents_[opened.id] = &visit;
  }
  void sweep() {
    std::erase_if(splices_, [this](const auto& each) {
      if (!each->splice.done()) return false;
      inbound_.erase(each->in);
      outbound_.erase(each->out);
      return true;
    });
  }
  template <typename T>
  static T* find(const std::map<link::SessionId, T*>& map, link::SessionId id) {
    const auto at = map.find(id);
    return at == map.end() ? nullptr : at->second;
  }
  static link::SessionId id_of(const link::Event& event) {
    return std::visit(
        [](const auto& each) -> link::SessionId {
          if constexpr (requires { each.id; }) return each.id;
          return 0;
        },
        event);
  }

  std::vector<std::unique_ptr<Spliced>> splices_;
  std::map<link::SessionId, Spliced*> inbound_, outbound_;
  std::map<link::SessionId, Visit*> visitors_, agents_;
};

// What must hold of every visit that is over, whatever was done to it.
void check(const Visit& visit) {
  const Party& visitor = *visit.visitor;
  const Party* agent = visit.agent.get();
  ASSERT_TRUE(visitor.ended);
  EXPECT_EQ(visitor.end.held(), 0u);
  if (agent != nullptr) {
    EXPECT_TRUE(agent->ended) << "the agent end never learned of the end";
    EXPECT_EQ(agent->end.held(), 0u);
    // An end is only shown where everything before it was.
    EXPECT_TRUE(!agent->fin_got || (visitor.fin_sent && agent->handed == visitor.script.total));
    EXPECT_TRUE(!visitor.fin_got || (agent->fin_sent && visitor.handed == agent->script.total));
  }
  if (visitor.finished() || (agent != nullptr && agent->finished())) {
    ASSERT_NE(agent, nullptr);
    EXPECT_TRUE(visitor.fin_got && agent->fin_got) << "a clean end that was not one";
  }
  if (!visit.disturbed) {
    EXPECT_TRUE(visitor.finished()) << to_string(*visitor.ended);
    EXPECT_TRUE(agent->finished()) << to_string(*agent->ended);
  }
}

std::uint64_t draw_total(Random& random) {
  switch (random.below(4)) {
    case 0:
      return random.below(3);
    case 1:
      return random.below(2000);
    case 2:
      return random.below(100'000);
    default:
      return random.below(500'000);
  }
}

Script draw(Random& random, bool upstream) {
  Script script{.total = draw_total(random), .slow = 1 + random.below(4)};
  if (random.one_in(6)) script.abort_after = random.below(script.total + 1000);
  if (upstream && random.one_in(12)) script.refuses = true;
  return script;
}

void run_seed(std::uint64_t seed) {
  World world(seed);
  if (world.random.one_in(2)) world.not_here = 3;
  const std::uint64_t count = 1 + world.random.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Script visitor = draw(world.random, false);
    const Script agent = draw(world.random, true);
    Visit& visit = world.add(visitor, agent);
    visit.disturbed =
        visitor.abort_after != kForever || agent.abort_after != kForever || agent.refuses;
  }
  const bool breaks = world.random.one_in(2);
  if (breaks) {
    world.run(milliseconds(world.random.below(1000)));
    for (auto& visit : world.visits) visit->disturbed = true;
    switch (world.random.below(3)) {
      case 0:
        world.left.cut(world.now);
        break;
      case 1:
        world.right.cut(world.now);
        break;
      default:
        world.drop_splices();
    }
  }
  world.run(seconds(120));
  ASSERT_TRUE(world.visits_over()) << "a visit stalls";
  EXPECT_TRUE(world.quiet()) << "sessions are left behind";
  for (const auto& visit : world.visits) check(*visit);
}

class VisitSim : public ::testing::TestWithParam<int> {};

TEST_P(VisitSim, EveryByteArrivesOrTheEndIsNamed) {
  constexpr std::uint64_t kSeedsPerCase = 60;
  const auto first = static_cast<std::uint64_t>(GetParam()) * kSeedsPerCase;
  for (std::uint64_t seed = first; seed < first + kSeedsPerCase; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_seed(seed);
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, VisitSim, ::testing::Range(0, 10));

TEST(VisitSimBounds, AStuckVisitorHoldsBackTheUpstreamByOneWindow) {
  World world(7);
  Visit& visit = world.add({.stuck = true}, {.total = 4 << 20});
  Visit& other = world.add({.total = 300'000}, {.total = 300'000});
  world.run(seconds(5));
  ASSERT_TRUE(visit.agent);
  EXPECT_GE(visit.agent->sent, link::kFloorWindow);
  EXPECT_LE(visit.agent->sent, kWindow) << "read past what the visitor end granted";
  EXPECT_TRUE(other.visitor->finished()) << "a stuck reader holds only itself";
  visit.visitor->script.stuck = false;
  world.run(seconds(60));
  check(visit);
}

TEST(VisitSimBounds, AVisitorThatStopsLaterIsAheadByOneWindowAtMost) {
  World world(8);
  Visit& visit = world.add({}, {.total = 4 << 20});
  while (visit.visitor->handed < (1 << 20)) world.turn();
  visit.visitor->script.stuck = true;
  world.run(seconds(5));
  EXPECT_LE(visit.agent->sent, visit.visitor->handed + kWindow);
  EXPECT_LE(visit.agent->end.held(), kWindow + 64 * 1024);
  visit.visitor->script.stuck = false;
  world.run(seconds(60));
  check(visit);
}

TEST(VisitSimBounds, WindowsGrowAcrossTheRelay) {
  World world(9);
  Visit& visit = world.add({}, {.total = 4 << 20});
  const link::Instant start = world.now;
  world.run(seconds(120));
  check(visit);
  // The floor alone would take 4 MiB / 16 KiB = 256 round trips of the whole path.
  EXPECT_LT(world.now - start, seconds(10)) << "round trips at the floor";
}

TEST(VisitSimBounds, AReplicaWithoutSessionsToGiveRefusesAndTheVisitTriesAgain) {
  World world(10);
  world.not_here = 2;
  Visit& visit = world.add({.total = 50'000}, {.total = 50'000});
  world.run(seconds(60));
  check(visit);
  EXPECT_TRUE(visit.visitor->finished());
}

TEST(VisitSimBounds, BothStoppedAtADrainDeadlineAreLostByName) {
  World world(11);
  Visit& visit = world.add({.stuck = true}, {.total = 1 << 20});
  visit.disturbed = true;
  world.run(seconds(2));
  world.drop_splices();
  world.run(seconds(20));
  check(visit);
  EXPECT_EQ(visit.visitor->ended->outcome, Outcome::kPathLost);
  EXPECT_EQ(visit.agent->ended->outcome, Outcome::kPathLost);
}

}  // namespace
}  // namespace fairlead::dataplane
