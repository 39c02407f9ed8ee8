// Raw TCP visits: every byte, half-close, resets both ways, refusals, stuck readers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster.h"

namespace fairlead::dataplane::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// The visitor is at replica "a"; the agent's home is the parameter: the same one, or another.
class TcpVisits : public ::testing::TestWithParam<std::string> {
 protected:
  std::string home() const { return GetParam(); }
  bool forwarded() const { return home() != "a"; }
  void start(Cluster& cluster, std::uint16_t port, const std::string& name = "echo") {
    cluster.add_relays(forwarded() ? std::vector<std::string>{"a", "b"}
                                   : std::vector<std::string>{"a"});
    cluster.serve({.name = name, .port = port, .relays = {home()}});
  }
};

INSTANTIATE_TEST_SUITE_P(, TcpVisits, ::testing::Values("a", "b"), [](const auto& each) {
  return each.param == "a" ? "SameReplica" : "CrossReplica";
});

// Sends all, ends its half, and reads until the end, at the same time.
std::string exchange(Client& visitor, const std::string& bytes, End& end) {
  std::thread sending([&] {
    EXPECT_TRUE(visitor.send(bytes));
    visitor.finish();
  });
  std::string back = visitor.read_all(end);
  sending.join();
  return back;
}

TEST_P(TcpVisits, EchoesEveryByteAndCountsTheVisit) {
  Upstream upstream(Upstream::echo);
  Cluster cluster;
  start(cluster, upstream.port());
  const std::string bytes = pattern(3 << 20);
  Client visitor(cluster.tcp("a"));
  End end = End::kTimeout;
  EXPECT_TRUE(exchange(visitor, bytes, end) == bytes);
  EXPECT_EQ(end, End::kFin);

  EXPECT_TRUE(cluster.quiet());
  const VisitCounters counters = cluster.counters("a", "tcp");
  EXPECT_EQ(counters.opened(), 1u);
  EXPECT_EQ(counters.forwarded(), forwarded() ? 1u : 0u);
  EXPECT_EQ(counters.finished, 1u);
  EXPECT_THAT(counters.lost, IsEmpty());
}

TEST_P(TcpVisits, ALateReplyArrivesAfterTheVisitorEndedItsHalf) {
  Upstream upstream([](Client& visitor) {
    End end = End::kTimeout;
    const std::string request = visitor.read_all(end);
    std::this_thread::sleep_for(300ms);
    visitor.send("late reply to " + request);
  });
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.tcp("a"));
  End end = End::kTimeout;
  EXPECT_EQ(exchange(visitor, "question", end), "late reply to question");
  EXPECT_EQ(end, End::kFin);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_EQ(cluster.counters("a", "tcp").finished, 1u);
}

TEST_P(TcpVisits, AServiceMaySpeakFirstAndEndFirst) {
  Upstream upstream([](Client& visitor) {
    visitor.send("220 ready");
    visitor.finish();
    visitor.wait_end();
  });
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.tcp("a"));
  End end = End::kTimeout;
  EXPECT_EQ(visitor.read_all(end), "220 ready");
  EXPECT_EQ(end, End::kFin);
  // The other half still stands.
  EXPECT_EQ(cluster.counters("a", "tcp").live, 1u);
  EXPECT_TRUE(visitor.send("bye"));
  visitor.finish();
  EXPECT_TRUE(cluster.quiet());
  EXPECT_EQ(cluster.counters("a", "tcp").finished, 1u);
}

TEST_P(TcpVisits, ARefusedUpstreamIsARstNeverAnEnd) {
  Cluster cluster;
  start(cluster, refused_port());
  Client visitor(cluster.tcp("a"));
  End end = End::kTimeout;
  EXPECT_EQ(visitor.read_all(end), "");
  EXPECT_EQ(end, End::kReset);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_THAT(cluster.counters("a", "tcp").lost, ElementsAre(Pair("upstream_refused", 1)));
}

TEST_P(TcpVisits, AResetOfTheUpstreamReachesTheVisitor) {
  Upstream upstream([](Client& visitor) {
    visitor.send("some");
    EXPECT_EQ(visitor.read(4), "more");
    visitor.reset();
  });
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.tcp("a"));
  EXPECT_EQ(visitor.read(4), "some");
  EXPECT_TRUE(visitor.send("more"));
  EXPECT_EQ(visitor.wait_end(), End::kReset);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_THAT(cluster.counters("a", "tcp").lost, ElementsAre(Pair("upstream_reset", 1)));
}

TEST_P(TcpVisits, AResetOfTheVisitorReachesTheUpstream) {
  std::promise<End> seen;
  Upstream upstream([&](Client& visitor) {
    visitor.send("some");
    seen.set_value(visitor.wait_end());
  });
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.tcp("a"));
  EXPECT_EQ(visitor.read(4), "some");
  visitor.reset();
  EXPECT_EQ(seen.get_future().get(), End::kReset);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_THAT(cluster.counters("a", "tcp").lost, ElementsAre(Pair("visitor_reset", 1)));
}

TEST_P(TcpVisits, AVisitorThatClosesDuringADownloadEndsIt) {
  std::promise<bool> sent_all;
  Upstream upstream([&](Client& visitor) { sent_all.set_value(visitor.send(pattern(256 << 20))); });
  Cluster cluster;
  start(cluster, upstream.port());
  {
    Client visitor(cluster.tcp("a"));
    EXPECT_EQ(visitor.read(100'000).size(), 100'000u);
  }  // closed with unread bytes in it: RST
  EXPECT_FALSE(sent_all.get_future().get());
  EXPECT_TRUE(cluster.quiet());
  EXPECT_THAT(cluster.counters("a", "tcp").lost, ElementsAre(Pair("visitor_reset", 1)));
}

// A visitor that goes while its upstream is being connected leaves a reset there, never an empty
// visit that looks whole.
TEST_P(TcpVisits, AVisitorThatLeavesAtOnceIsNoEmptyVisit) {
  constexpr int kVisits = 20;
  std::atomic<int> ended{0}, looked_whole{0};
  Upstream upstream([&](Client& visitor) {
    if (visitor.wait_end() != End::kReset) ++looked_whole;
    ++ended;
  });
  Cluster cluster;
  start(cluster, upstream.port());
  for (int i = 0; i < kVisits; ++i) {
    Client visitor(cluster.tcp("a"));
    std::this_thread::sleep_for(i * 50us);
    visitor.reset();
  }
  EXPECT_TRUE(eventually([&] {
    const RelayStatus now = cluster.status("a");
    std::uint64_t seen = now.counters.count("tcp") ? now.counters.at("tcp").lost_total() : 0;
    for (const auto& [cause, n] : now.refused) seen += n;
    return seen == kVisits;
  }));
  EXPECT_TRUE(cluster.quiet());
  EXPECT_TRUE(eventually([&] { return ended == upstream.accepted(); }));
  EXPECT_EQ(looked_whole, 0);
}

TEST_P(TcpVisits, ManyVisitsAtOnceDoNotMix) {
  Upstream upstream(Upstream::echo);
  Cluster cluster;
  start(cluster, upstream.port());
  constexpr int kVisits = 40;
  std::vector<std::thread> visitors;
  std::atomic<int> right{0};
  for (int i = 0; i < kVisits; ++i) {
    visitors.emplace_back([&, i] {
      const std::string bytes = pattern(20'000 + 997 * i, i);
      Client visitor(cluster.tcp("a"));
      End end = End::kTimeout;
      if (exchange(visitor, bytes, end) == bytes && end == End::kFin) ++right;
    });
  }
  for (std::thread& each : visitors) each.join();
  EXPECT_EQ(right, kVisits);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_EQ(cluster.counters("a", "tcp").finished, std::uint64_t{kVisits});
}

TEST_P(TcpVisits, AStuckReaderHoldsOnlyItself) {
  constexpr std::size_t kBig = 96 << 20, kSmall = 1 << 20, kMostAhead = 64 << 20;
  const std::string big = pattern(kBig), small = pattern(kSmall, 2);
  std::atomic<std::size_t> sent{0};
  // "b": the big download; "s": a small one.
  Upstream upstream([&](Client& visitor) {
    if (visitor.read(1) == "s") {
      visitor.send(small);
      return;
    }
    constexpr std::size_t kPart = 64 * 1024;
    for (std::size_t at = 0; at < kBig; at += kPart) {
      if (!visitor.send(std::string_view(big).substr(at, kPart))) return;
      sent = at + kPart;
    }
  });
  Cluster cluster;
  start(cluster, upstream.port());
  Client stuck(cluster.tcp("a"), 64 * 1024);
  EXPECT_TRUE(stuck.send("b"));
  // It sends until everything between is full.
  std::size_t before = 0;
  while (before == 0 || before != sent) {
    before = sent;
    std::this_thread::sleep_for(400ms);
  }
  EXPECT_LE(before, kMostAhead);

  std::vector<std::thread> others;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    others.emplace_back([&] {
      Client visitor(cluster.tcp("a"));
      visitor.send("s");
      visitor.finish();
      End end = End::kTimeout;
      if (visitor.read_all(end) == small && end == End::kFin) ++right;
    });
  }
  for (std::thread& each : others) each.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(sent, before) << "the stuck one was not stuck meanwhile";

  stuck.finish();
  End end = End::kTimeout;
  EXPECT_TRUE(stuck.read_all(end) == big);
  EXPECT_EQ(end, End::kFin);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_EQ(cluster.counters("a", "tcp").finished, 9u);
}

TEST(TcpService, PassesOnWhateverItIs) {
  std::promise<std::string> got;
  Upstream upstream([&](Client& visitor) {
    End end = End::kTimeout;
    got.set_value(visitor.read_all(end));
  });
  Cluster cluster;
  cluster.add_relays({"a"});
  cluster.serve({.port = upstream.port(), .relays = {"a"}});
  // The start of a PROXY header, of TLS and of HTTP: none of it means anything here.
  const std::string garbage("\r\n\r\n\0\r\nQUIT\n\x16\x03\x01\x02\0\x01GET / HTTP/1.1\r\n\r\n", 41);
  Client visitor(cluster.tcp("a"));
  EXPECT_TRUE(visitor.send(garbage));
  visitor.finish();
  EXPECT_EQ(visitor.wait_end(), End::kFin);
  EXPECT_EQ(got.get_future().get(), garbage);
}

}  // namespace
}  // namespace fairlead::dataplane::testing
