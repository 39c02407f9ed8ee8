#include "fairlead/link/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing_pair.h"

namespace fairlead::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::End;
using testing::Pair;

Slice text(std::string_view words) {
  return Slice::copy_of(words);
}

// Opens a session from the dialer and accepts it at the listener.
SessionId open_accepted(Pair& pair, OpenRequest request = {}) {
  const OpenResult opened = pair.dialer.core.open(request, pair.now);
  EXPECT_EQ(opened.error, OpenError::kNone);
  pair.settle();
  EXPECT_TRUE(pair.listener.core.accept(opened.id, text("yes"), 0, pair.now));
  pair.settle();
  return opened.id;
}

TEST(Connection, SaysHelloBothWaysAndAdoptsTheDialersKeepalive) {
  Pair pair({.side = Side::kDialer, .liveness = kFast, .software = "a/1", .name = "left"},
            {.side = Side::kListener, .liveness = kMobile});
  pair.settle();
  ASSERT_NE(pair.listener.first<event::Up>(), nullptr);
  EXPECT_EQ(pair.listener.first<event::Up>()->peer.name, "left");
  EXPECT_EQ(pair.listener.first<event::Up>()->liveness, kFast);
  ASSERT_NE(pair.dialer.first<event::Up>(), nullptr);
}

TEST(Connection, CarriesBytesBothWaysAndEndsWithEof) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  EXPECT_EQ(pair.dialer.first<event::Accepted>()->meta.text(), "yes");
  pair.dialer.core.write(id, text("hello "));
  pair.dialer.core.write(id, text("there"));
  pair.dialer.core.finish(id);
  pair.settle();
  EXPECT_EQ(pair.listener.text_of(id), "hello there");
  EXPECT_EQ(pair.listener.count<event::Finished>(), 1u);
  EXPECT_EQ(pair.listener.count<event::Retired>(), 0u) << "the other half is open";
  pair.listener.core.write(id, text("late reply"));
  pair.listener.core.finish(id);
  pair.settle();
  EXPECT_EQ(pair.dialer.text_of(id), "late reply");
  EXPECT_EQ(pair.dialer.count<event::Retired>(), 1u);
  EXPECT_EQ(pair.listener.count<event::Retired>(), 1u);
  pair.dialer.core.release(id, pair.now);
  pair.listener.core.release(id, pair.now);
  EXPECT_EQ(pair.dialer.core.session_count(), 0u);
  EXPECT_EQ(pair.listener.core.session_count(), 0u);
  EXPECT_EQ(pair.dialer.core.stats().granted, 0u);
  EXPECT_EQ(pair.listener.core.stats().granted, 0u);
}

TEST(Connection, StopsAtTheLimitAndGoesOnWithCredit) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text(std::string(100'000, 'x')));
  pair.settle();
  // The last 8 bytes of the window are not worth a frame while more waits behind them.
  EXPECT_EQ(pair.listener.text_of(id).size(), kMaxDataPayload);
  EXPECT_EQ(pair.dialer.core.queued(id), 100'000u - kMaxDataPayload);
  std::size_t consumed = 0;
  for (int i = 0; i < 100 && pair.listener.text_of(id).size() < 100'000; ++i) {
    const std::size_t got = pair.listener.text_of(id).size();
    pair.listener.core.consume(id, got - consumed, pair.now);
    consumed = got;
    pair.settle();
    pair.advance(milliseconds(10));
  }
  EXPECT_EQ(pair.listener.text_of(id).size(), 100'000u);
}

TEST(Connection, OneStoppedReaderHoldsOnlyItself) {
  Pair pair;
  const SessionId stuck = open_accepted(pair);
  const SessionId other = open_accepted(pair);
  pair.dialer.core.write(stuck, text(std::string(1'000'000, 's')));
  pair.settle();
  pair.dialer.core.write(other, text("through"));
  pair.settle();
  EXPECT_EQ(pair.listener.text_of(other), "through");
}

TEST(Connection, FindsADeadPeerExactlyAtItsBound) {
  for (const Liveness& liveness : {kFast, kDefault, kMobile}) {
    Pair pair({.side = Side::kDialer, .liveness = liveness}, {.side = Side::kListener});
    pair.settle();
    pair.advance(seconds(300));  // idle, answering: nobody may be declared dead
    ASSERT_FALSE(pair.dialer.core.closed());
    ASSERT_FALSE(pair.listener.core.closed());
    pair.connected = false;
    pair.advance(liveness.bound() + milliseconds(1));
    for (End* each : {&pair.dialer, &pair.listener}) {
      const auto* closed = each->first<event::Closed>();
      ASSERT_NE(closed, nullptr);
      EXPECT_EQ(closed->cut.kind, CutKind::kDeadPeer);
    }
  }
}

TEST(Connection, ResetAndStopAreToldWithTheirCodes) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.reset(id, 300);
  pair.settle();
  ASSERT_NE(pair.listener.first<event::Reset>(), nullptr);
  EXPECT_EQ(pair.listener.first<event::Reset>()->code, 300u);
  EXPECT_FALSE(pair.listener.first<event::Reset>()->after_fin);
  pair.dialer.core.stop(id, 301);
  pair.settle();
  ASSERT_NE(pair.listener.first<event::Stopped>(), nullptr);
  EXPECT_EQ(pair.listener.first<event::Stopped>()->code, 301u);
  ASSERT_NE(pair.dialer.first<event::Reset>(), nullptr) << "STOP is answered with RESET";
  EXPECT_EQ(pair.dialer.count<event::Retired>(), 1u);
  EXPECT_EQ(pair.listener.count<event::Retired>(), 1u);
}

TEST(Connection, AVisitRetiresOnlyWhenBothHalvesAreReset) {
  Pair pair;
  const SessionId id = open_accepted(pair, {.visit = true});
  pair.dialer.core.write(id, text("ask"));
  pair.dialer.core.finish(id);
  pair.settle();
  pair.listener.core.write(id, text("answer"));
  pair.listener.core.finish(id);
  pair.settle();
  EXPECT_EQ(pair.dialer.count<event::Retired>(), 0u);
  pair.dialer.core.acknowledge_fin(id, pair.now);
  pair.listener.core.acknowledge_fin(id, pair.now);
  pair.settle();
  std::uint64_t acknowledged = 0;
  for (const Event& each : pair.listener.events) {
    if (const auto* credit = std::get_if<event::Credit>(&each)) acknowledged = credit->received;
  }
  EXPECT_EQ(acknowledged, 7u) << "six bytes and FIN";
  pair.listener.core.reset(id, code::kOk);
  pair.listener.core.stop(id, code::kOk);
  pair.settle();
  ASSERT_NE(pair.dialer.first<event::Reset>(), nullptr);
  EXPECT_TRUE(pair.dialer.first<event::Reset>()->after_fin);
  EXPECT_EQ(pair.dialer.count<event::Retired>(), 1u);
  EXPECT_EQ(pair.listener.count<event::Retired>(), 1u);
}

TEST(Connection, ACutIsNeverAnEnd) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text("part"));
  pair.settle();
  pair.listener.core.transport_ended(CutKind::kEnded, "close_notify", pair.now);
  pair.listener.poll();
  EXPECT_EQ(pair.listener.count<event::Finished>(), 0u);
  EXPECT_EQ(pair.listener.count<event::SessionCut>(), 1u);
  EXPECT_EQ(pair.listener.first<event::Closed>()->cut.kind, CutKind::kEnded);
}

TEST(Connection, GoawayRefusesOnlyWhatComesAfterIt) {
  Pair pair;
  const SessionId old_id = open_accepted(pair);
  pair.listener.core.goaway(GoawayReason::kRoll, seconds(5), "upgrade", pair.now);
  // Phase 0 on its way; an open that crosses it is still served.
  const OpenResult crossing = pair.dialer.core.open({}, pair.now);
  pair.settle();
  EXPECT_EQ(pair.listener.count<event::Opened>(), 2u);
  EXPECT_EQ(pair.dialer.count<event::LinkDraining>(), 2u) << "both phases";
  EXPECT_EQ(pair.dialer.count<event::NotProcessed>(), 0u);
  EXPECT_EQ(pair.dialer.core.open({}, pair.now).error, OpenError::kDraining);
  EXPECT_TRUE(pair.dialer.core.write(old_id, text("still here")));
  pair.settle();
  EXPECT_EQ(pair.listener.text_of(old_id), "still here");
  EXPECT_NE(crossing.id, 0u);
}

TEST(Connection, AnOpenThatCrossesPhaseOneIsNotProcessed) {
  Pair pair;
  pair.settle();
  pair.listener.core.goaway(GoawayReason::kRoll, seconds(5), "", pair.now);
  pair.move(pair.listener, pair.dialer);  // GOAWAY 0 and PING
  pair.move(pair.dialer, pair.listener);  // PONG
  const OpenResult opened = pair.dialer.core.open({}, pair.now);
  ASSERT_EQ(opened.error, OpenError::kNone);
  std::vector<std::byte> late(64 * 1024);
  const std::size_t n = pair.dialer.core.produce(late, pair.now);
  pair.move(pair.listener, pair.dialer);  // GOAWAY 1
  pair.listener.core.receive(Bytes(late).first(n), pair.now);
  pair.settle();
  EXPECT_EQ(pair.dialer.count<event::NotProcessed>(), 1u);
  EXPECT_EQ(pair.listener.count<event::Opened>(), 0u);
  EXPECT_FALSE(pair.listener.core.closed());
}

TEST(Connection, CloseFlushesWhatWasWritten) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text("tail"));
  pair.dialer.core.finish(id);
  pair.dialer.core.close(code::kOk, "bye", pair.now);
  pair.settle();
  EXPECT_EQ(pair.listener.text_of(id), "tail");
  EXPECT_EQ(pair.listener.count<event::Finished>(), 1u);
  ASSERT_NE(pair.listener.first<event::Closed>(), nullptr);
  EXPECT_EQ(pair.listener.first<event::Closed>()->cut.kind, CutKind::kPeerClosed);
  EXPECT_EQ(pair.listener.first<event::Closed>()->cut.text, "bye");
  EXPECT_TRUE(pair.dialer.core.done());
}

TEST(Connection, AnOpenThatCrossesACloseIsNotProcessed) {
  Pair pair;
  const SessionId served = open_accepted(pair);
  const SessionId crossing = pair.dialer.core.open({}, pair.now).id;
  pair.listener.core.close(code::kOk, "bye", pair.now);
  pair.settle();
  ASSERT_EQ(pair.dialer.count<event::NotProcessed>(), 1u);
  EXPECT_EQ(pair.dialer.first<event::NotProcessed>()->id, crossing);
  ASSERT_EQ(pair.dialer.count<event::SessionCut>(), 1u);
  EXPECT_EQ(pair.dialer.first<event::SessionCut>()->id, served) << "it was being worked on";
  EXPECT_EQ(pair.dialer.first<event::Closed>()->cut.kind, CutKind::kPeerClosed);
}

TEST(Connection, AnOpenInTheQueueOfEventsIsNotProcessedByAClose) {
  Pair pair;
  pair.settle();
  const SessionId id = pair.dialer.core.open({}, pair.now).id;
  pair.dialer.core.write(id, text("early"));
  std::vector<std::byte> buffer(64 * 1024);
  const std::size_t n = pair.dialer.core.produce(buffer, pair.now);
  pair.listener.core.receive(Bytes(buffer).first(n), pair.now);
  pair.listener.core.close(code::kOk, "bye", pair.now);  // before its events are polled
  pair.settle();
  EXPECT_EQ(pair.listener.count<event::Opened>(), 0u);
  EXPECT_EQ(pair.listener.count<event::Data>(), 0u);
  EXPECT_EQ(pair.listener.count<event::SessionCut>(), 0u);
  EXPECT_EQ(pair.dialer.count<event::NotProcessed>(), 1u);
  EXPECT_EQ(pair.dialer.count<event::SessionCut>(), 0u);
}

TEST(Connection, OpensAreRepaidOnlyWhenTheApplicationLetsGo) {
  Pair pair({.side = Side::kDialer, .max_peer_sessions = 32},
            {.side = Side::kListener, .max_peer_sessions = 32});
  pair.settle();
  std::vector<SessionId> ids;
  for (int i = 0; i < 32; ++i) ids.push_back(pair.dialer.core.open({}, pair.now).id);
  pair.settle();
  EXPECT_EQ(pair.dialer.core.open({}, pair.now).error, OpenError::kExhausted);
  for (const SessionId id : ids) pair.dialer.core.release(id, pair.now);
  pair.settle();
  EXPECT_EQ(pair.dialer.core.open({}, pair.now).error, OpenError::kExhausted)
      << "the listener's application still works on them";
  for (const SessionId id : ids) pair.listener.core.release(id, pair.now);
  pair.settle();
  EXPECT_EQ(pair.dialer.core.open({}, pair.now).error, OpenError::kNone);
}

TEST(Connection, GarbageEndsTheLinkWithAWord) {
  Pair pair;
  pair.listener.core.receive(as_bytes("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), pair.now);
  pair.listener.poll();
  ASSERT_NE(pair.listener.first<event::Closed>(), nullptr);
  EXPECT_EQ(pair.listener.first<event::Closed>()->cut.kind, CutKind::kProtocolError);
  EXPECT_THAT(pair.listener.first<event::Closed>()->cut.text, ::testing::HasSubstr("HELLO"));
}

TEST(Connection, DataBeyondTheLimitCostsTheSessionThenTheLink) {
  // Raw frames, since a core of ours never sends them.
  Pair pair;
  pair.settle();
  const SessionId id = open_accepted(pair);
  std::vector<std::byte> frame(8 + kMaxDataPayload);
  frame[0] = std::byte{kMaxDataPayload >> 8};
  frame[1] = std::byte{kMaxDataPayload & 0xff};
  frame[2] = std::byte{4};
  frame[7] = std::byte{static_cast<std::uint8_t>(id)};
  pair.listener.core.receive(frame, pair.now);
  pair.listener.core.receive(frame, pair.now);
  pair.listener.poll();
  EXPECT_FALSE(pair.listener.core.closed());
  ASSERT_NE(pair.listener.first<event::Reset>(), nullptr);
  EXPECT_EQ(pair.listener.first<event::Reset>()->code, code::kFlow);
  const SessionId second = open_accepted(pair);
  frame[7] = std::byte{static_cast<std::uint8_t>(second)};
  pair.listener.core.receive(frame, pair.now);
  pair.listener.core.receive(frame, pair.now);
  EXPECT_TRUE(pair.listener.core.closed());
}

}  // namespace
}  // namespace fairlead::link
