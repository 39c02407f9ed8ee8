#include "visit/visit_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "visit/testing_link.h"

namespace fairlead::dataplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace event = link::event;
using State = VisitEnd::State;

constexpr link::SessionId kId = 7;

// One end with what it told its local side, as words.
class End {
 public:
  explicit End(VisitRole role, std::uint64_t capacity = 1 << 20)
      : budget_(capacity, capacity),
        end(role,
            VisitOpen{.id = *VisitId::from_bytes("0123456789abcdef"),
                      .secret = std::string(32, 's'),
                      .hold = std::chrono::seconds(40),
                      .kind = "tcp",
                      .tenant = "acme",
                      .service = "db",
                      .agent_id = "a",
                      .instance = std::string(16, 'i')},
            *budget_.admit("acme"), now) {}

  void open(Outcome if_cut = Outcome::kPeerLost) { end.path_opened({&port, kId}, if_cut, now); }
  // A path with ACCEPT given or received, nothing else pending.
  void open_fully() {
    open();
    if (end.role() == VisitRole::kVisitor) {
      accept();
    } else {
      end.local_opened(now);
    }
    port.take();
    words();
  }
  void accept() {
    path(event::Accepted{kId, encode_accept({.hold = std::chrono::seconds(40)}), 0});
  }
  void path(const link::Event& event) { end.path_event(event, now); }
  void came(std::string_view text) { path(event::Data{kId, link::Slice::copy_of(text)}); }
  void credit(std::uint64_t received, std::uint64_t limit = 1 << 20) {
    path(event::Credit{kId, limit, received});
  }
  void send(std::string_view text) { end.local_data(link::Slice::copy_of(text), now); }

  std::vector<std::string> words() {
    std::vector<std::string> words;
    while (auto next = end.poll()) {
      std::visit([&](const auto& each) { words.push_back(word(each)); }, *next);
    }
    return words;
  }
  bool budget_is_free() const { return budget_.lent() == 0; }

 private:
  static std::string word(const local::Accepted&) { return "accepted"; }
  static std::string word(const local::Data& data) {
    return "data " + std::string(data.bytes.text());
  }
  static std::string word(const local::Fin&) { return "fin"; }
  static std::string word(const local::Room&) { return "room"; }
  static std::string word(const local::PathRefused& refused) {
    return "refused " + std::to_string(refused.code);
  }
  std::string word(const local::Ended& ended) {
    record = ended.record;
    return "ended " + std::string(outcome_name(ended.record.outcome));
  }

  ReplayBudget budget_;

 public:
  link::Instant now{std::chrono::hours(1)};
  testing::RecordingPort port;
  VisitEnd end;
  VisitRecord record;
};

TEST(VisitEnd, AVisitFromOpenToTheAgentsReset) {
  End visitor(VisitRole::kVisitor);
  EXPECT_EQ(visitor.end.attempt(), 1u);
  visitor.open();
  EXPECT_EQ(visitor.end.attempt(), 2u);
  visitor.send("ping");  // before ACCEPT, within the first window
  visitor.accept();
  visitor.came("pong");
  visitor.end.local_consumed(4, visitor.now);
  visitor.end.local_fin(visitor.now);
  visitor.path(event::Finished{kId});
  EXPECT_THAT(visitor.port.take(),
              ElementsAre("7 write ping", "7 consume 4", "7 finish", "7 ack-fin"));
  EXPECT_THAT(visitor.words(), ElementsAre("accepted", "data pong", "fin"));
  EXPECT_EQ(visitor.end.state(), State::kOpen);
  visitor.credit(5);
  EXPECT_EQ(visitor.end.state(), State::kFinishing) << "finished only at the agent's word";
  EXPECT_THAT(visitor.words(), IsEmpty());
  visitor.now += std::chrono::seconds(2);
  visitor.path(event::Reset{kId, 0, true});
  EXPECT_THAT(visitor.port.take(), ElementsAre("7 release 0"));
  EXPECT_THAT(visitor.words(), ElementsAre("ended finished"));
  EXPECT_EQ(visitor.record.bytes_out, 4u);
  EXPECT_EQ(visitor.record.bytes_in, 4u);
  EXPECT_EQ(visitor.record.handed, 4u);
  EXPECT_EQ(visitor.record.received, 5u);
  EXPECT_EQ(visitor.record.peer_received, 5u);
  EXPECT_EQ(visitor.record.duration, std::chrono::seconds(2));
  EXPECT_THAT(to_string(visitor.record), HasSubstr("tcp acme/db finished out 4 (peer has 5) in 4"));
}

TEST(VisitEnd, TheAgentEndFinishesFirst) {
  End agent(VisitRole::kAgent);
  agent.open();
  agent.came("ping");
  EXPECT_EQ(agent.end.local_room(), 0u) << "ACCEPT precedes everything it sends";
  agent.end.local_opened(agent.now);
  EXPECT_THAT(agent.words(), ElementsAre("data ping", "room"));
  EXPECT_THAT(agent.port.take(), ElementsAre("7 accept rtt 0"));
  std::string error;
  EXPECT_EQ(parse_accept(agent.port.accepted.bytes(), error),
            (VisitAccept{.hold = std::chrono::seconds(40)}));
  agent.send("pong");
  agent.end.local_fin(agent.now);
  agent.end.local_consumed(4, agent.now);
  agent.path(event::Finished{kId});
  agent.credit(4);
  EXPECT_THAT(agent.port.take(),
              ElementsAre("7 write pong", "7 finish", "7 consume 4", "7 ack-fin"));
  agent.credit(5);
  EXPECT_THAT(agent.port.take(), ElementsAre("7 release 0"));
  EXPECT_THAT(agent.words(), ElementsAre("fin", "ended finished"));
}

TEST(VisitEnd, FinIsAcknowledgedOnlyWhenEveryByteWasHandedOn) {
  End agent(VisitRole::kAgent);
  agent.open_fully();
  agent.came("abc");
  agent.path(event::Finished{kId});
  agent.end.local_consumed(2, agent.now);
  EXPECT_THAT(agent.words(), ElementsAre("data abc"));
  EXPECT_EQ(agent.end.received(), 3u);
  agent.end.local_consumed(1, agent.now);
  EXPECT_THAT(agent.words(), ElementsAre("fin"));
  EXPECT_EQ(agent.end.received(), 4u);
  EXPECT_THAT(agent.port.take(), ElementsAre("7 consume 2", "7 consume 1", "7 ack-fin"));
}

TEST(VisitEnd, RoomIsWhatThePeerGrantsAndMemoryHolds) {
  End visitor(VisitRole::kVisitor, 2 * ReplayBudget::kFloor);  // the floor and one more to lend
  visitor.open_fully();
  visitor.port.room = 100;
  EXPECT_EQ(visitor.end.local_room(), 100u);
  visitor.port.room = 1 << 20;
  const std::uint64_t most = visitor.end.local_room();
  EXPECT_EQ(most, ReplayBudget::kFloor * 3 / 2) << "half of what is free";
  visitor.send(std::string(most, 'x'));
  EXPECT_EQ(visitor.end.local_room(), 0u);
  visitor.credit(0, 2 << 20);
  EXPECT_THAT(visitor.words(), IsEmpty()) << "credit alone frees no memory";
  visitor.credit(most);
  EXPECT_THAT(visitor.words(), ElementsAre("room"));
  EXPECT_GT(visitor.end.local_room(), 0u);
  visitor.end.local_fin(visitor.now);
  EXPECT_EQ(visitor.end.local_room(), 0u);
}

TEST(VisitEnd, NoRoomEventThatNobodyWaitsFor) {
  End visitor(VisitRole::kVisitor);
  visitor.open_fully();
  visitor.credit(0);
  EXPECT_THAT(visitor.words(), IsEmpty());
  visitor.port.room = 0;
  EXPECT_EQ(visitor.end.local_room(), 0u);
  visitor.end.local_fin(visitor.now);
  visitor.port.room = 10;
  visitor.credit(0);
  EXPECT_THAT(visitor.words(), IsEmpty());
}

TEST(VisitEnd, ARefusedPathIsTriedElsewhereWithEveryByte) {
  for (const link::Code code : {link::code::kNotHere, link::code::kRefused}) {
    End visitor(VisitRole::kVisitor);
    EXPECT_EQ(visitor.end.local_room(), link::kFloorWindow) << "before any path";
    visitor.send("a");
    visitor.open();
    visitor.send("bc");
    visitor.path(event::Reset{kId, code, false});
    EXPECT_THAT(visitor.port.take(), ElementsAre("7 write a", "7 write bc", "7 release 5"));
    EXPECT_THAT(visitor.words(), ElementsAre("refused " + std::to_string(code)));
    EXPECT_EQ(visitor.end.local_room(), link::kFloorWindow - 3);
    visitor.send("d");
    visitor.end.local_fin(visitor.now);
    EXPECT_EQ(visitor.end.attempt(), 2u);
    visitor.open();
    EXPECT_THAT(visitor.port.take(), ElementsAre("7 write abcd", "7 finish"));
    visitor.accept();
    visitor.credit(5);
    EXPECT_EQ(visitor.end.held(), 0u);
  }
}

TEST(VisitEnd, NotProcessedIsARefusal) {
  End visitor(VisitRole::kVisitor);
  visitor.open();
  visitor.path(event::NotProcessed{kId});
  EXPECT_THAT(visitor.words(), ElementsAre("refused 4"));
  visitor.end.abort(link::code::kRefused, visitor.now, Outcome::kNoAgent);
  EXPECT_THAT(visitor.words(), ElementsAre("ended no_agent"));
}

TEST(VisitEnd, ARefusalAfterAcceptIsFinal) {
  End visitor(VisitRole::kVisitor);
  visitor.open_fully();
  visitor.path(event::Reset{kId, link::code::kNotHere, false});
  EXPECT_THAT(visitor.words(), ElementsAre("ended not_here"));
}

TEST(VisitEnd, ABrokenPathIsNeverACleanEnd) {
  struct Row {
    link::Event event;
    const char* word;
  };
  const Row rows[] = {
      {event::SessionCut{kId}, "ended peer_lost"},
      {event::Reset{kId, link::code::kPathLost, false}, "ended path_lost"},
      {event::Stopped{kId, link::code::kPathLost}, "ended path_lost"},
      {event::Reset{kId, link::code::kSuperseded, true}, "ended path_lost"},
      {event::Reset{kId, link::code::kDrainTimeout, true}, "ended drain_timeout"},
      {event::Reset{kId, visit_code::kUpstreamReset, false}, "ended upstream_reset"},
      {event::Stopped{kId, visit_code::kUpstreamRefused}, "ended upstream_refused"},
      {event::Reset{kId, 4711, false}, "ended application"},
      {event::Reset{kId, link::code::kOk, false}, "ended protocol"},
      {event::Stopped{kId, link::code::kOk}, "ended protocol"},
  };
  for (const VisitRole role : {VisitRole::kVisitor, VisitRole::kAgent}) {
    for (const Row& row : rows) {
      End each(role);
      each.open_fully();
      each.send("unacknowledged");
      each.end.local_fin(each.now);
      each.path(event::Finished{kId});
      each.words();
      if (role == VisitRole::kVisitor && std::string_view(row.word) == "ended protocol") {
        continue;  // there 0 is due: AVisitFromOpenToTheAgentsReset
      }
      each.path(row.event);
      EXPECT_THAT(each.words(), ElementsAre(row.word)) << static_cast<int>(role);
      EXPECT_EQ(each.end.held(), 0u);
      EXPECT_TRUE(each.budget_is_free());
    }
  }
}

TEST(VisitEnd, ResetZeroBeforeTheEndIsABreach) {
  End visitor(VisitRole::kVisitor);
  visitor.open_fully();
  visitor.came("abc");
  visitor.path(event::Finished{kId});
  visitor.end.local_fin(visitor.now);
  visitor.words();
  visitor.path(event::Reset{kId, link::code::kOk, true});  // "abc" was not handed on
  EXPECT_THAT(visitor.words(), ElementsAre("ended protocol"));
  EXPECT_THAT(visitor.port.take(), ElementsAre("7 finish", "7 release 1"));
}

TEST(VisitEnd, WhenEverythingIsAcknowledgedABreakTakesNothing) {
  for (const link::Event& last :
       {link::Event(event::SessionCut{kId}), link::Event(event::Reset{kId, 10, true})}) {
    End visitor(VisitRole::kVisitor);
    visitor.open_fully();
    visitor.send("x");
    visitor.end.local_fin(visitor.now);
    visitor.path(event::Finished{kId});
    visitor.credit(2);
    visitor.words();
    visitor.path(last);
    EXPECT_THAT(visitor.words(), ElementsAre("ended finished"));
  }
}

TEST(VisitEnd, LocalAbortEndsBothHalves) {
  End visitor(VisitRole::kVisitor);
  visitor.open_fully();
  visitor.end.abort(visit_code::kVisitorReset, visitor.now);
  EXPECT_THAT(visitor.port.take(), ElementsAre("7 release 259"));
  EXPECT_THAT(visitor.words(), ElementsAre("ended visitor_reset"));
  // What crosses the end changes nothing.
  visitor.came("late");
  visitor.end.local_data(link::Slice::copy_of("late"), visitor.now);
  visitor.end.local_fin(visitor.now);
  visitor.end.local_consumed(0, visitor.now);
  visitor.path(event::SessionCut{kId});
  visitor.end.abort(link::code::kDrainTimeout, visitor.now);
  EXPECT_THAT(visitor.port.take(), IsEmpty());
  EXPECT_THAT(visitor.words(), IsEmpty());
}

TEST(VisitEnd, AResetOfALocalSideThatIsDoneSaysNothing) {
  End agent(VisitRole::kAgent);
  agent.open_fully();
  agent.send("x");
  agent.end.local_fin(agent.now);
  agent.path(event::Finished{kId});
  agent.end.abort(visit_code::kUpstreamReset, agent.now);
  EXPECT_THAT(agent.words(), ElementsAre("fin"));
  agent.end.abort(link::code::kDrainTimeout, agent.now);
  EXPECT_THAT(agent.words(), ElementsAre("ended drain_timeout")) << "but others may end it";
}

TEST(VisitEnd, AcknowledgingWhatWasNotSentIsABreach) {
  End visitor(VisitRole::kVisitor);
  visitor.open_fully();
  visitor.send("abc");
  visitor.credit(4);
  EXPECT_THAT(visitor.words(), ElementsAre("ended protocol"));
}

TEST(VisitEnd, AnAnswerThatIsNoneIsABreach) {
  End visitor(VisitRole::kVisitor);
  visitor.open();
  visitor.path(event::Accepted{kId, link::Slice::copy_of("\x08"), 0});
  EXPECT_THAT(visitor.words(), ElementsAre("ended protocol"));
}

TEST(VisitEnd, TheLogLineNamesTheCause) {
  End visitor(VisitRole::kVisitor);
  visitor.open(Outcome::kAgentLost);
  visitor.path(event::SessionCut{kId});
  visitor.words();
  EXPECT_THAT(to_string(visitor.record), HasSubstr("lost agent_lost (code 10 "));
}

TEST(Outcome, NamesAreDistinct) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kOutcomes; ++i) {
    const auto name = outcome_name(static_cast<Outcome>(i));
    EXPECT_NE(name, "unknown");
    EXPECT_THAT(names, ::testing::Not(::testing::Contains(name)));
    names.push_back(name);
  }
}

}  // namespace
}  // namespace fairlead::dataplane
