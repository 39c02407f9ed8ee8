// HTTP/1.1 visitors, routed by Host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster.h"

namespace fairlead::dataplane::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

// A service that reads one request of each connection and lets `answer` write the response.
std::function<void(Client&)> serve_http(std::function<void(Client&, const HttpMessage&)> answer) {
  return [answer = std::move(answer)](Client& visitor) {
    const HttpMessage request = read_http(visitor, false);
    if (request.complete) answer(visitor, request);
  };
}

std::string ok(const std::string& body, const std::string& more = "") {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more +
         "\r\n" + body;
}

// Says what it was asked.
void mirror(Client& visitor, const HttpMessage& request) {
  visitor.send(ok(request.start + "\n" + request.body));
}

class HttpVisits : public ::testing::TestWithParam<std::string> {
 protected:
  void start(Cluster& cluster, std::uint16_t port) {
    const std::string home = GetParam();
    cluster.add_relays(home == "a" ? std::vector<std::string>{"a"}
                                   : std::vector<std::string>{"a", "b"});
    cluster.serve({.kind = "http", .name = "web", .port = port, .relays = {home}});
  }
};

INSTANTIATE_TEST_SUITE_P(, HttpVisits, ::testing::Values("a", "b"), [](const auto& each) {
  return each.param == "a" ? "SameReplica" : "CrossReplica";
});

TEST_P(HttpVisits, KeepsAConnectionForRequestAfterRequest) {
  Upstream upstream(serve_http(mirror));
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("GET /1 HTTP/1.1\r\nHost: web.test\r\n\r\n");
  const HttpMessage first = read_http(visitor, true);
  EXPECT_EQ(first.status(), 200);
  EXPECT_EQ(first.body, "GET /1 HTTP/1.1\n");
  visitor.send("POST /2 HTTP/1.1\r\nHost: WEB.test.:8080\r\nContent-Length: 5\r\n\r\nhello");
  const HttpMessage second = read_http(visitor, true);
  EXPECT_EQ(second.body, "POST /2 HTTP/1.1\nhello");
  // Two at once.
  visitor.send(
      "GET /3 HTTP/1.1\r\nHost: web.test\r\n\r\nGET /4 HTTP/1.1\r\nHost: web.test\r\n\r\n");
  EXPECT_EQ(read_http(visitor, true).body, "GET /3 HTTP/1.1\n");
  EXPECT_EQ(read_http(visitor, true).body, "GET /4 HTTP/1.1\n");

  EXPECT_TRUE(cluster.quiet());
  const VisitCounters counters = cluster.counters("a", "http");
  EXPECT_EQ(counters.opened(), 4u);
  EXPECT_EQ(counters.finished, 4u);
  EXPECT_EQ(counters.forwarded(), GetParam() == "a" ? 0u : 4u);
  EXPECT_THAT(counters.lost, IsEmpty());
  visitor.finish();
  EXPECT_EQ(visitor.wait_end(), End::kFin);
}

TEST_P(HttpVisits, ChunksBothWays) {
  const std::string up = pattern(200'000, 1), down = pattern(300'000, 2);
  Upstream upstream(serve_http([&](Client& visitor, const HttpMessage& request) {
    EXPECT_EQ(request.field("transfer-encoding"), "chunked");
    EXPECT_TRUE(request.body == up);
    visitor.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (std::size_t at = 0; at < down.size(); at += 50'000) {
      visitor.send(chunk(std::string_view(down).substr(at, 50'000)));
    }
    visitor.send("0\r\n\r\n");
  }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("PUT / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (std::size_t at = 0; at < up.size(); at += 40'000) {
    visitor.send(chunk(std::string_view(up).substr(at, 40'000)));
  }
  visitor.send("0\r\n\r\n");
  const HttpMessage reply = read_http(visitor, true);
  EXPECT_EQ(reply.field("transfer-encoding"), "chunked");
  EXPECT_TRUE(reply.complete);
  EXPECT_TRUE(reply.body == down);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_EQ(cluster.counters("a", "http").finished, 1u);
}

TEST_P(HttpVisits, HeadHasNoBodyAndABodyUntilCloseBecomesChunks) {
  Upstream upstream(serve_http([](Client& visitor, const HttpMessage& request) {
    if (request.start.starts_with("HEAD")) {
      visitor.send("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n");
    } else {
      visitor.send("HTTP/1.0 200 OK\r\n\r\nuntil the close");
    }
  }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  EXPECT_EQ(read_http(visitor, true, true).field("content-length"), "1234");
  visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  const HttpMessage reply = read_http(visitor, true);
  EXPECT_EQ(reply.field("transfer-encoding"), "chunked");
  EXPECT_EQ(reply.body, "until the close");
  EXPECT_TRUE(reply.complete);
}

TEST_P(HttpVisits, ALargeUploadAndALargeDownload) {
  const std::string up = pattern(3 << 20, 1), down = pattern(5 << 20, 2);
  Upstream upstream(serve_http([&](Client& visitor, const HttpMessage& request) {
    visitor.send(request.body == up ? ok(down) : ok("the upload is wrong"));
  }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: " + std::to_string(up.size()) +
               "\r\n\r\n");
  EXPECT_TRUE(visitor.send(up));
  EXPECT_TRUE(read_http(visitor, true).body == down);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_EQ(cluster.counters("a", "http").finished, 1u);
}

// The head alone is more than a new session's window.
TEST_P(HttpVisits, AResponseHeadLargerThanAWindow) {
  const std::string cookie(40'000, 'c'), body = pattern(1 << 20);
  Upstream upstream(serve_http([&](Client& visitor, const HttpMessage&) {
    visitor.send(ok(body, "X-Long: " + cookie + "\r\n"));
  }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  const HttpMessage reply = read_http(visitor, true);
  EXPECT_TRUE(reply.field("x-long") == cookie);
  EXPECT_TRUE(reply.body == body);
  EXPECT_TRUE(cluster.quiet()) << "its bytes were never reported as handed on";
  EXPECT_EQ(cluster.counters("a", "http").finished, 1u);
}

// The last of the answer still is in the relay when the relay has said that it is the last: a
// visitor that ended its half, or reads slower than the relay waits for that, gets all of it, and
// no visit is lost by it.
TEST_P(HttpVisits, ASlowReaderOfALastAnswerIsNotCut) {
  const std::string body = pattern(system_holds(8 * 1024) + 32 * 1024);
  Upstream upstream(
      serve_http([&](Client& visitor, const HttpMessage&) { visitor.send(ok(body)); }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client first(cluster.http("a"), 8 * 1024);
  first.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  first.finish();
  Client second(cluster.http("a"), 8 * 1024);
  second.send("GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
  // Longer than the relay lingers.
  std::this_thread::sleep_for(3500ms);
  EXPECT_EQ(cluster.counters("a", "http").live, 2u) << "the system took all: nothing is tested";
  for (Client* visitor : {&first, &second}) {
    End end = End::kTimeout;
    EXPECT_TRUE(visitor->read_all(end).ends_with(body));
    EXPECT_EQ(end, End::kFin);
    visitor->close();
  }
  EXPECT_TRUE(cluster.quiet());
  EXPECT_EQ(cluster.counters("a", "http").finished, 2u);
  EXPECT_THAT(cluster.counters("a", "http").lost, IsEmpty());
}

TEST_P(HttpVisits, EventsAreSeenWhenTheyAreSent) {
  std::promise<void> seen;
  Upstream upstream(serve_http([&](Client& visitor, const HttpMessage&) {
    visitor.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
    seen.get_future().wait_for(10s);
    visitor.send("data: 2\n\n");
  }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("GET /events HTTP/1.1\r\nHost: web.test\r\n\r\n");
  EXPECT_THAT(visitor.read_until("data: 1\n\n"), HasSubstr("data: 1"));
  seen.set_value();
  EXPECT_THAT(visitor.read_until("0\r\n\r\n"), HasSubstr("data: 2"));
}

TEST_P(HttpVisits, ACutResponseIsNeverShownAsAnEnd) {
  for (const std::string framing : {"Content-Length: 1000", "Transfer-Encoding: chunked", ""}) {
    Upstream upstream(serve_http([&](Client& visitor, const HttpMessage&) {
      visitor.send("HTTP/1.1 200 OK\r\n" + framing + (framing.empty() ? "" : "\r\n") + "\r\n");
      visitor.send(framing.starts_with("T") ? chunk("half") : "half");
      std::this_thread::sleep_for(100ms);
      visitor.reset();
    }));
    Cluster cluster;
    start(cluster, upstream.port());
    Client visitor(cluster.http("a"));
    visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    EXPECT_THAT(visitor.read_until("half"), HasSubstr("half"));
    End end = End::kTimeout;
    EXPECT_THAT(visitor.read_all(end), Not(HasSubstr("0\r\n\r\n"))) << framing;
    EXPECT_EQ(end, End::kReset) << framing;
    EXPECT_TRUE(cluster.quiet());
    EXPECT_THAT(cluster.counters("a", "http").lost, ElementsAre(Pair("upstream_reset", 1)));
  }
}

// A FIN in the middle of a body with a length is a cut too.
// The upstream ends only when the visitor has a part: a reset may overtake what waits in the
// relays, and before a head there would be a 502 instead.
TEST_P(HttpVisits, AnEndThatComesTooEarlyIsACut) {
  std::promise<void> arrived;
  Upstream upstream(serve_http([&](Client& visitor, const HttpMessage&) {
    visitor.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
    arrived.get_future().wait();
  }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  EXPECT_THAT(visitor.read_until("half"), HasSubstr("half"));
  arrived.set_value();
  EXPECT_EQ(visitor.wait_end(), End::kReset);
}

TEST_P(HttpVisits, AnUpstreamThatRefusesIsA502) {
  Cluster cluster;
  start(cluster, refused_port());
  Client visitor(cluster.http("a"));
  visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  const HttpMessage reply = read_http(visitor, true);
  EXPECT_EQ(reply.status(), 502);
  EXPECT_EQ(reply.field("x-fairlead-error"), "FL-1003");
  EXPECT_THAT(reply.body, HasSubstr("FL-1003"));
  // The connection goes on.
  visitor.send("GET / HTTP/1.1\r\nHost: nobody.knows.me\r\n\r\n");
  EXPECT_EQ(read_http(visitor, true).field("x-fairlead-error"), "FL-1001");
}

TEST_P(HttpVisits, AVisitorThatLeavesResetsTheUpstream) {
  std::promise<End> seen;
  Upstream upstream(serve_http([&](Client& visitor, const HttpMessage&) {
    visitor.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("half"));
    seen.set_value(visitor.wait_end());
  }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  EXPECT_THAT(visitor.read_until("half"), HasSubstr("half"));
  visitor.reset();
  EXPECT_EQ(seen.get_future().get(), End::kReset);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_THAT(cluster.counters("a", "http").lost, ElementsAre(Pair("visitor_reset", 1)));
}

// An upload that breaks off is a reset at the upstream, which must not take it for whole.
TEST_P(HttpVisits, AnUploadThatBreaksOffIsACutAtTheUpstream) {
  std::promise<End> seen;
  Upstream upstream([&](Client& visitor) {
    visitor.read_until("half");
    seen.set_value(visitor.wait_end());
  });
  Cluster cluster;
  start(cluster, upstream.port());
  Client visitor(cluster.http("a"));
  visitor.send("POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n" +
               chunk("half"));
  std::this_thread::sleep_for(200ms);
  visitor.finish();
  EXPECT_EQ(seen.get_future().get(), End::kReset);
  EXPECT_TRUE(cluster.quiet());
}

TEST_P(HttpVisits, AStuckReaderHoldsOnlyItself) {
  constexpr std::size_t kBig = 48 << 20, kSmall = 1 << 20;
  const std::string big = pattern(kBig), small = pattern(kSmall, 2);
  std::atomic<std::size_t> sent{0};
  Upstream upstream(serve_http([&](Client& visitor, const HttpMessage& request) {
    if (request.start.starts_with("GET /small")) {
      visitor.send(ok(small));
      return;
    }
    visitor.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kBig) + "\r\n\r\n");
    constexpr std::size_t kPart = 64 * 1024;
    for (std::size_t at = 0; at < kBig; at += kPart) {
      if (!visitor.send(std::string_view(big).substr(at, kPart))) return;
      sent = at + kPart;
    }
  }));
  Cluster cluster;
  start(cluster, upstream.port());
  Client stuck(cluster.http("a"), 64 * 1024);
  stuck.send("GET /big HTTP/1.1\r\nHost: web.test\r\n\r\n");
  std::size_t before = 0;
  while (before == 0 || before != sent) {
    before = sent;
    std::this_thread::sleep_for(400ms);
  }
  EXPECT_LT(before, kBig);
  std::vector<std::thread> others;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    others.emplace_back([&] {
      Client visitor(cluster.http("a"));
      visitor.send("GET /small HTTP/1.1\r\nHost: web.test\r\n\r\n");
      if (read_http(visitor, true).body == small) ++right;
    });
  }
  for (std::thread& each : others) each.join();
  EXPECT_EQ(right, 8);
  EXPECT_TRUE(read_http(stuck, true).body == big);
  EXPECT_TRUE(cluster.quiet());
  EXPECT_EQ(cluster.counters("a", "http").finished, 9u);
}

// --- answers of the relay itself ---

class HttpAnswers : public ::testing::Test {
 protected:
  HttpAnswers() {
    cluster_.add_relays({"a"});
    cluster_.serve({.kind = "http", .name = "web", .port = upstream_.port(), .relays = {"a"}});
  }
  HttpMessage ask(const std::string& request, std::optional<End>* end = nullptr) {
    Client visitor(cluster_.http("a"));
    visitor.send(request);
    HttpMessage reply = read_http(visitor, true);
    if (end != nullptr) *end = visitor.wait_end();
    return reply;
  }

  Upstream upstream_{serve_http(mirror)};
  Cluster cluster_;
};

TEST_F(HttpAnswers, AHostThatNobodyMayClaimIs404) {
  const HttpMessage reply = ask("GET / HTTP/1.1\r\nHost: web.elsewhere\r\n\r\n");
  EXPECT_EQ(reply.status(), 404);
  EXPECT_EQ(reply.field("x-fairlead-error"), "FL-1001");
  EXPECT_EQ(cluster_.status("a").refused["no_such_service"], 1u);
}

TEST_F(HttpAnswers, AClaimedHostWithoutAnAgentIs503AfterTheWaitForOne) {
  const auto begin = std::chrono::steady_clock::now();
  const HttpMessage reply = ask("GET / HTTP/1.1\r\nHost: away.test\r\n\r\n");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(reply.status(), 503);
  EXPECT_EQ(reply.field("x-fairlead-error"), "FL-1002");
  EXPECT_GE(took, 2900ms);
  EXPECT_LE(took, 3500ms);
  EXPECT_EQ(cluster_.status("a").refused["no_agent"], 1u);
  EXPECT_THAT(cluster_.counters("a", "http").lost, IsEmpty());
}

TEST_F(HttpAnswers, ARequestWaitsForAnAgentThatComes) {
  Client visitor(cluster_.http("a"));
  visitor.send("GET /late HTTP/1.1\r\nHost: late.test\r\n\r\n");
  std::this_thread::sleep_for(300ms);
  cluster_.add_agent({.kind = "http", .name = "late", .port = upstream_.port(), .relays = {"a"}});
  EXPECT_EQ(read_http(visitor, true).body, "GET /late HTTP/1.1\n");
}

TEST_F(HttpAnswers, TwoLengthsAre400AndClose) {
  std::optional<End> end;
  const HttpMessage reply =
      ask("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\nTransfer-Encoding: "
          "chunked\r\n\r\n0\r\n\r\n",
          &end);
  EXPECT_EQ(reply.status(), 400);
  EXPECT_EQ(reply.field("x-fairlead-error"), "FL-1005");
  EXPECT_EQ(reply.field("connection"), "close");
  EXPECT_EQ(end, End::kFin);
  EXPECT_EQ(ask("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\nContent-Length: "
                "6\r\n\r\nhello")
                .status(),
            400);
  EXPECT_EQ(upstream_.accepted(), 0);
}

TEST_F(HttpAnswers, AnUpgradeIs501) {
  const HttpMessage reply =
      ask("GET / HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  EXPECT_EQ(reply.status(), 501);
  EXPECT_EQ(reply.field("x-fairlead-error"), "FL-1007");
}

TEST_F(HttpAnswers, GarbageIs400AndDisturbsNobody) {
  Client other(cluster_.http("a"));
  other.send("GET /1 HTTP/1.1\r\nHost: web.test\r\n\r\n");
  EXPECT_EQ(read_http(other, true).status(), 200);
  std::optional<End> end;
  EXPECT_EQ(ask("\x16\x03\x01\x02\x01\x01\r\n\r\n", &end).status(), 400);
  EXPECT_EQ(end, End::kFin);
  other.send("GET /2 HTTP/1.1\r\nHost: web.test\r\n\r\n");
  EXPECT_EQ(read_http(other, true).status(), 200);
}

TEST_F(HttpAnswers, AResponseLongerThanItSaysPoisonsNothing) {
  Upstream upstream(serve_http([](Client& visitor, const HttpMessage&) {
    visitor.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n");
  }));
  // Of its own cluster, which ends before the upstream does.
  Cluster cluster;
  cluster.add_relays({"a"});
  cluster.serve({.kind = "http", .name = "web", .port = upstream.port(), .relays = {"a"}});
  Client visitor(cluster.http("a"));
  for (int i = 0; i < 2; ++i) {
    visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    EXPECT_EQ(read_http(visitor, true).body, "ok");
  }
}

}  // namespace
}  // namespace fairlead::dataplane::testing
