// Rules of the connection that a peer, a crossing or an impatient application puts to the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abuse_limits.h"
#include "fairlead/link/connection.h"
#include "testing_pair.h"

namespace fairlead::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::End;
using ::testing::HasSubstr;
using testing::Pair;

Slice text(std::string_view words) {
  return Slice::copy_of(words);
}

SessionId open_accepted(Pair& pair, const OpenRequest& request = {}) {
  const OpenResult opened = pair.dialer.core.open(request, pair.now);
  EXPECT_EQ(opened.error, OpenError::kNone);
  pair.settle();
  EXPECT_TRUE(pair.listener.core.accept(opened.id, Slice(), 0, pair.now));
  pair.settle();
  return opened.id;
}

std::string closed_text(const End& end) {
  const auto* closed = end.first<event::Closed>();
  return closed == nullptr ? "still open" : to_string(closed->cut);
}

// --- timers ---

TEST(ConnectionTimers, AnEndThatOnlyReadsShowsThatItLivesAndNeverSpins) {
  Pair pair;
  // A relayed session sends no `received` of its own, so nothing is written for another reason.
  const OpenResult opened = pair.dialer.core.open({}, pair.now);
  pair.settle();
  ASSERT_TRUE(pair.listener.core.accept(opened.id, Slice(), 0, pair.now, std::uint64_t{0}));
  pair.settle();
  pair.dialer.core.write(opened.id, text("ten bytes."));
  pair.move(pair.dialer, pair.listener);
  pair.connected = false;
  End& reader = pair.listener;
  for (int i = 0; i < 20; ++i) {
    const auto due = reader.core.next_deadline();
    ASSERT_TRUE(due.has_value());
    if (*due > pair.now + seconds(4)) break;
    pair.now = std::max(pair.now, *due);
    reader.core.on_timer(pair.now);
    std::vector<std::byte> out(64 * 1024);
    while (reader.core.wants_write() && reader.core.produce(out, pair.now) > 0) {
    }
    ASSERT_FALSE(reader.core.wants_write());
    ASSERT_GT(*reader.core.next_deadline(), pair.now);
  }
}

TEST(ConnectionTimers, AnEndThatReadsAndHasNothingToSayStillSendsEveryHalfInterval) {
  Pair pair;
  // A relayed session sends no `received` of its own.
  const OpenResult opened = pair.dialer.core.open({}, pair.now);
  pair.settle();
  ASSERT_TRUE(pair.listener.core.accept(opened.id, Slice(), 0, pair.now, std::uint64_t{0}));
  pair.settle();
  std::uint64_t heard = pair.dialer.core.stats().bytes_in;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.dialer.core.write(opened.id, text("tick")));
    pair.settle();
    pair.advance(kDefault.interval / 2 + milliseconds(1));
    EXPECT_GT(pair.dialer.core.stats().bytes_in, heard) << "after " << i;
    heard = pair.dialer.core.stats().bytes_in;
  }
}

TEST(ConnectionTimers, ACloseThatCannotBeSentIsGivenUpAfterTheBound) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text("never taken"));
  pair.dialer.core.close(code::kOk, "bye", pair.now);
  EXPECT_FALSE(pair.dialer.core.done());
  ASSERT_EQ(pair.dialer.core.next_deadline(), pair.now + kDefault.bound());
  pair.now += kDefault.bound();
  pair.dialer.core.on_timer(pair.now);
  EXPECT_TRUE(pair.dialer.core.done());
  EXPECT_EQ(pair.dialer.core.next_deadline(), std::nullopt);
}

TEST(ConnectionTimers, AProcessThatWasHeldUpDoesNotBlameItsPeerForTheBacklog) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text("waiting"));
  pair.dialer.core.on_timer(pair.now);  // the backlog is noted
  pair.now += seconds(600);             // stopped and resumed
  pair.listener.core.on_timer(pair.now);
  pair.move(pair.listener, pair.dialer);  // what the socket held is read first
  pair.dialer.core.on_timer(pair.now);
  EXPECT_EQ(closed_text(pair.dialer), "still open");
  pair.settle();
  EXPECT_EQ(pair.listener.text_of(id), "waiting");
}

// --- events ---

TEST(ConnectionEvents, NothingComesForASessionAfterItsRelease) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text("unread"));
  pair.dialer.core.finish(id);
  std::vector<std::byte> out(64 * 1024);
  const std::size_t n = pair.dialer.core.produce(out, pair.now);
  pair.listener.core.receive(Bytes(out).first(n), pair.now);  // queued, not yet polled
  ASSERT_TRUE(pair.listener.core.release(id, pair.now));
  pair.listener.events.clear();
  pair.settle();
  EXPECT_TRUE(pair.listener.events.empty());
}

TEST(ConnectionEvents, ClosedIsTheLastEvenWhenRelayedBytesAreStillFlushed) {
  Pair pair;
  const SessionId id = open_accepted(pair, {.credit_cap = 1 << 20});
  pair.dialer.core.write(id, text("relayed"));
  pair.dialer.core.close(code::kOk, "", pair.now);
  pair.settle();
  EXPECT_EQ(pair.listener.text_of(id), "relayed");
  ASSERT_FALSE(pair.dialer.events.empty());
  EXPECT_TRUE(std::holds_alternative<event::Closed>(pair.dialer.events.back()));
}

// --- memory ---

TEST(ConnectionMemory, SessionsLetGoBeforeTheCutAreFreedByIt) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.connected = false;
  ASSERT_TRUE(pair.dialer.core.release(id, pair.now));
  EXPECT_EQ(pair.dialer.core.session_count(), 1u) << "the peer has not ended its half";
  pair.dialer.core.transport_ended(CutKind::kTransport, "reset", pair.now);
  EXPECT_EQ(pair.dialer.core.session_count(), 0u);
  EXPECT_EQ(pair.dialer.core.stats().granted, 0u);
}

TEST(ConnectionMemory, SessionsReleasedWhileClosingAreFreedOnceTheirBytesAreOut) {
  Pair pair;
  pair.settle();
  // Nothing of it has left when the link is closed and the session let go.
  const OpenResult opened = pair.dialer.core.open({}, pair.now);
  pair.dialer.core.write(opened.id, text("short visit"));
  pair.dialer.core.finish(opened.id);
  pair.dialer.core.close(code::kOk, "", pair.now);
  ASSERT_TRUE(pair.dialer.core.release(opened.id, pair.now));
  pair.settle();
  EXPECT_EQ(pair.listener.text_of(opened.id), "short visit");
  EXPECT_EQ(pair.listener.count<event::Finished>(), 1u);
  EXPECT_TRUE(pair.dialer.core.done());
  EXPECT_EQ(pair.dialer.core.session_count(), 0u);
  EXPECT_EQ(pair.dialer.core.stats().granted, 0u);
}

// --- credit ---

TEST(ConnectionCredit, TheLastBytesOfAWindowReachAReaderThatWaitsForAllOfThem) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text(std::string(100'000, 'x')));
  pair.settle();
  pair.advance(milliseconds(50));
  EXPECT_EQ(pair.listener.text_of(id).size(), kFloorWindow);
}

TEST(ConnectionCredit, ARelayTellsNoMoreReceivedThanItPassedOn) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text("12345"));
  pair.settle();
  ASSERT_TRUE(pair.listener.core.relay_credit(id, 1 << 20, 1000, pair.now));
  pair.advance(milliseconds(20));
  EXPECT_EQ(closed_text(pair.dialer), "still open");
  ASSERT_NE(pair.dialer.first<event::Credit>(), nullptr);
  EXPECT_EQ(pair.dialer.first<event::Credit>()->received, 5u);
}

TEST(ConnectionCredit, ARelayThatStartsLateRepeatsNothing) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  pair.dialer.core.write(id, text("12345"));
  pair.settle();
  pair.advance(milliseconds(20));
  const std::uint64_t frames = pair.dialer.core.stats().frames_in;
  for (int i = 0; i < 100; ++i) {
    pair.listener.core.relay_credit(id, 0, 0, pair.now);
    pair.settle();
  }
  EXPECT_EQ(pair.dialer.core.stats().frames_in, frames);
}

TEST(ConnectionCredit, AFinThatWasNotSentCannotBeAcknowledged) {
  Pair pair;
  const SessionId id = open_accepted(pair, {.visit = true});
  pair.dialer.core.write(id, text("abc"));
  pair.settle();
  pair.dialer.core.reset(id, 300);
  pair.settle();
  pair.dialer.receive(id, wire::Credit{kFloorWindow, 4}, pair.now);
  EXPECT_THAT(closed_text(pair.dialer), HasSubstr("acknowledges 4 of 3 bytes"));
}

TEST(ConnectionCredit, AFinAfterAnOverrunEndsTheHalf) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  const std::vector<std::byte> full(kMaxDataPayload);
  pair.listener.receive(id, wire::Data{full, false}, pair.now);
  pair.listener.receive(id, wire::Data{full, false}, pair.now);
  pair.listener.receive(id, wire::Data{full, true}, pair.now);
  EXPECT_EQ(pair.listener.count<event::Reset>(), 1u);
  EXPECT_EQ(pair.listener.count<event::Finished>(), 0u) << "bytes are missing";
  std::vector<std::byte> out(64 * 1024);
  pair.listener.core.produce(out, pair.now);
  pair.listener.poll();
  EXPECT_EQ(pair.listener.count<event::Retired>(), 1u);
}

TEST(ConnectionCredit, AResetNamesExactlyTheBytesThatCame) {
  for (const std::uint64_t final : {std::uint64_t{2}, std::uint64_t{4}, ~std::uint64_t{0}}) {
    Pair pair;
    const SessionId id = open_accepted(pair);
    pair.dialer.core.write(id, text("abc"));
    pair.settle();
    pair.listener.receive(id, wire::Reset{5, final}, pair.now);
    EXPECT_THAT(closed_text(pair.listener), HasSubstr("but 3 bytes came")) << final;
  }
}

// --- frames nobody asked for ---

TEST(ConnectionFrames, AnAnswerToAnOpenThatHasNotLeftEndsTheLink) {
  Pair pair;
  pair.settle();
  const OpenResult opened = pair.dialer.core.open({}, pair.now);
  pair.dialer.receive(opened.id, wire::Accept{kFloorWindow, 0, {}}, pair.now);
  EXPECT_EQ(pair.dialer.count<event::Accepted>(), 0u);
  EXPECT_THAT(closed_text(pair.dialer), HasSubstr("never opened"));
}

TEST(ConnectionFrames, StopsWithoutEffectAreCounted) {
  Pair pair;
  const SessionId id = open_accepted(pair);
  for (int i = 0; i < 3 * limit::kNoEffectBurst; ++i) {
    pair.listener.receive(id, wire::Stop{5}, pair.now);
  }
  EXPECT_THAT(closed_text(pair.listener), HasSubstr("without effect"));
  EXPECT_EQ(pair.listener.count<event::Stopped>(), 1u);
}

TEST(ConnectionFrames, PongsWithoutAPingAreCountedButSignsOfLifeAreFree) {
  Pair pair;
  pair.settle();
  for (int i = 0; i < 10'000; ++i) {
    pair.now += milliseconds(500);
    pair.dialer.receive(0, wire::Pong{0}, pair.now);
  }
  EXPECT_EQ(closed_text(pair.dialer), "still open");
  for (int i = 0; i < 3 * limit::kNoEffectBurst; ++i) {
    pair.dialer.receive(0, wire::Pong{0}, pair.now);
  }
  EXPECT_THAT(closed_text(pair.dialer), HasSubstr("without effect"));
}

TEST(ConnectionFrames, ASessionResetBeforeItsAnswerCountsAlsoAfterAStop) {
  Pair pair({.side = Side::kDialer}, {.side = Side::kListener, .max_peer_sessions = 1024});
  pair.settle();
  // The bucket holds 1,000; as the application lets go at once, the opens are repaid.
  SessionId id = 1;
  for (int i = 0; i < 1100 && !pair.listener.core.closed(); ++i, id += 2) {
    pair.listener.receive(id, wire::Open{kFloorWindow, Priority::kNormal, 16, 0, false, {}},
                          pair.now);
    pair.listener.receive(id, wire::Stop{5}, pair.now);
    pair.listener.receive(id, wire::Reset{5, 0}, pair.now);
    pair.listener.core.release(id, pair.now);
    std::vector<std::byte> out(64 * 1024);
    while (pair.listener.core.wants_write()) pair.listener.core.produce(out, pair.now);
    pair.listener.poll();
  }
  EXPECT_THAT(closed_text(pair.listener), HasSubstr("reset before they were accepted"));
}

// --- goaway ---

TEST(ConnectionGoaway, CannotExcludeASessionThatWasAnswered) {
  Pair pair;
  open_accepted(pair);
  pair.dialer.receive(0, wire::Goaway{1, GoawayReason::kRoll, 0, 0, ""}, pair.now);
  EXPECT_EQ(pair.dialer.count<event::NotProcessed>(), 0u);
  EXPECT_THAT(closed_text(pair.dialer), HasSubstr("GOAWAY excludes session 1"));
}

TEST(ConnectionGoaway, RepeatsChangeNothingAndAreFew) {
  Pair pair;
  pair.settle();
  const OpenResult opened = pair.dialer.core.open({}, pair.now);
  pair.move(pair.dialer, pair.listener);
  pair.dialer.receive(0, wire::Goaway{1, GoawayReason::kRoll, 1, 0, ""}, pair.now);
  pair.dialer.receive(0, wire::Goaway{1, GoawayReason::kRoll, 0, 0, ""}, pair.now);
  EXPECT_EQ(pair.dialer.count<event::LinkDraining>(), 1u);
  EXPECT_EQ(pair.dialer.count<event::NotProcessed>(), 0u) << "last_id does not fall";
  EXPECT_NE(opened.id, 0u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(closed_text(pair.dialer), "still open");
    pair.dialer.receive(0, wire::Goaway{0, GoawayReason::kRoll, 0, 0, ""}, pair.now);
  }
  EXPECT_THAT(closed_text(pair.dialer), HasSubstr("too many GOAWAYs"));
}

TEST(ConnectionGoaway, OpensThatItRefusesAreNotRepaid) {
  Pair pair({.side = Side::kDialer}, {.side = Side::kListener, .max_peer_sessions = 32});
  pair.settle();
  pair.listener.core.goaway(GoawayReason::kLeave, seconds(1), "", pair.now);
  pair.settle();
  SessionId id = 1;
  for (int i = 0; i < 32; ++i, id += 2) {
    pair.listener.receive(id, wire::Open{kFloorWindow, Priority::kNormal, 16, 0, false, {}},
                          pair.now);
    pair.settle();
  }
  EXPECT_EQ(closed_text(pair.listener), "still open");
  EXPECT_EQ(pair.listener.core.session_count(), 0u);
  pair.listener.receive(id, wire::Open{kFloorWindow, Priority::kNormal, 16, 0, false, {}},
                        pair.now);
  EXPECT_THAT(closed_text(pair.listener), HasSubstr("beyond the limit of 32"));
}

}  // namespace
}  // namespace fairlead::link
