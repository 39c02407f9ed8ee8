#include "http/exchange_edge.h"

#include <gtest/gtest.h>

#include <utility>

namespace fairlead::dataplane {
namespace {

using std::chrono::seconds;

// Drives one machine and keeps what it did as text: bytes for the visitor and for the visit as they
// are, everything else in brackets.
class Edge {
 public:
  explicit Edge(ExchangeEdge::Config config = {}) : machine(with_ip(config), now) {}

  void visitor(std::string_view bytes) {
    ASSERT_TRUE(machine.wants_visitor_bytes());
    machine.feed_visitor(link::Slice::copy_of(bytes), now);
    act();
  }
  void visit(std::string_view bytes) {
    machine.feed_visit(link::Slice::copy_of(bytes), now);
    act();
  }
  void found() {
    machine.route_found(now);
    act();
  }
  void failed(HttpError error) {
    machine.route_failed(error, now);
    act();
  }
  void visitor_finished() {
    machine.visitor_finished(now);
    act();
  }
  void visitor_broken() {
    machine.visitor_broken(now);
    act();
  }
  void visit_finished() {
    machine.visit_finished(now);
    act();
  }
  void visit_broken(Outcome outcome) {
    machine.visit_broken(outcome, now);
    act();
  }
  void advance(link::Duration by) {
    now += by;
    machine.on_timer(now);
    act();
  }
  // What was written since the last call.
  std::string take(std::string& text) { return std::exchange(text, {}); }

  link::Instant now{};
  ExchangeEdge machine;
  std::string to_visitor, to_visit, events;

 private:
  static ExchangeEdge::Config with_ip(ExchangeEdge::Config config) {
    config.source.ip = *IpAddress::parse("192.0.2.1");
    return config;
  }

  void act() {
    while (auto action = machine.poll()) {
      ASSERT_FALSE(ended_) << "an action after the last one";
      std::visit(
          Overloaded{
              [&](const edge_action::RouteRequest& route) {
                events += "[route " + route.host + " " + route.method + " " + route.target + "]";
              },
              [&](const edge_action::WriteVisit& write) { to_visit += write.bytes.text(); },
              [&](const edge_action::FinishVisit&) { to_visit += "[fin]"; },
              [&](const edge_action::ResetVisit& reset) {
                to_visit +=
                    "[reset " + std::to_string(reset.code) + (reset.complete ? " complete]" : "]");
              },
              [&](const edge_action::WriteVisitor& write) { to_visitor += write.bytes.text(); },
              [&](const edge_action::ExchangeDone& done) {
                events += "[done " + std::to_string(done.status) +
                          (done.error ? " " + http_error_code(*done.error) + "]" : "]");
              },
              [&](const edge_action::CloseVisitor&) {
                to_visitor += "[close]";
                ended_ = true;
              },
              [&](const edge_action::AbortVisitor&) {
                to_visitor += "[abort]";
                ended_ = true;
              },
          },
          *action);
    }
  }
  bool ended_ = false;
};

const std::string kHost = "Host: web.test\r\n";
const std::string kGet = "GET / HTTP/1.1\r\n" + kHost + "\r\n";
const std::string kForwarded =
    "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: web.test\r\n";
const std::string kVisitGet = "GET / HTTP/1.1\r\n" + kHost + kForwarded + "\r\n[fin]";
const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(ExchangeEdge, OneExchangeAndAnotherOnTheSameConnection) {
  Edge edge;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(edge.machine.idle());
    edge.visitor(kGet);
    EXPECT_FALSE(edge.machine.idle());
    EXPECT_EQ(edge.take(edge.events), "[route web.test GET /]");
    EXPECT_EQ(edge.take(edge.to_visit), "");
    edge.found();
    EXPECT_EQ(edge.take(edge.to_visit), kVisitGet);
    edge.visit(kOk);
    EXPECT_EQ(edge.take(edge.to_visitor), kOk);
    EXPECT_EQ(edge.take(edge.events), "[done 200]");
  }
}

TEST(ExchangeEdge, ConnectionCloseOfTheVisitorIsHonoured) {
  Edge edge;
  edge.visitor("GET / HTTP/1.1\r\nConnection: close\r\n" + kHost + "\r\n");
  edge.found();
  edge.visit(kOk);
  EXPECT_EQ(edge.to_visitor,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi[close]");
}

TEST(ExchangeEdge, PipelinedRequestsAreAnsweredOneAtATime) {
  Edge edge;
  edge.visitor(kGet + "POST /2 HTTP/1.1\r\nContent-Length: 3\r\n" + kHost + "\r\nabc" + kGet);
  EXPECT_EQ(edge.take(edge.events), "[route web.test GET /]");
  EXPECT_FALSE(edge.machine.wants_visitor_bytes());
  edge.found();
  edge.take(edge.to_visit);
  edge.visit(kOk);
  EXPECT_EQ(edge.take(edge.events), "[done 200][route web.test POST /2]");
  edge.found();
  EXPECT_TRUE(edge.take(edge.to_visit).ends_with("Content-Length: 3\r\n\r\nabc[fin]"));
  edge.visit(kOk);
  EXPECT_EQ(edge.take(edge.events), "[done 200][route web.test GET /]");
  edge.found();
  edge.visit(kOk);
  EXPECT_EQ(edge.to_visitor, kOk + kOk + kOk);
  EXPECT_TRUE(edge.machine.idle());
  EXPECT_TRUE(edge.machine.wants_visitor_bytes());
}

TEST(ExchangeEdge, HoldsOneFeedOfPipelinedBytesAndNoMore) {
  Edge edge;
  edge.visitor(kGet);
  edge.found();
  EXPECT_TRUE(edge.machine.wants_visitor_bytes()) << "so that the visitor's end is noticed";
  edge.visitor("GET /2");
  EXPECT_FALSE(edge.machine.wants_visitor_bytes());
  edge.visit(kOk);
  EXPECT_TRUE(edge.machine.wants_visitor_bytes());
  edge.visitor(" HTTP/1.1\r\n" + kHost + "\r\n");
  EXPECT_EQ(edge.events, "[route web.test GET /][done 200][route web.test GET /2]");
}

TEST(ExchangeEdge, BodiesStreamBothWaysAtOnce) {
  Edge edge;
  edge.visitor("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + kHost + "\r\n");
  edge.found();
  EXPECT_TRUE(edge.take(edge.to_visit).ends_with("Transfer-Encoding: chunked\r\n\r\n"));
  edge.visitor("5;ext=1\r\nhel");
  EXPECT_EQ(edge.take(edge.to_visit), "3\r\nhel\r\n") << "a part of a chunk does not wait";
  edge.visit("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(edge.take(edge.to_visitor),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
  edge.visit("3\r\nabc\r\n");
  EXPECT_EQ(edge.take(edge.to_visitor), "3\r\nabc\r\n");
  edge.visitor("lo\r\n0\r\nX-Sum: 5\r\nContent-Type: no\r\n\r\n");
  EXPECT_EQ(edge.take(edge.to_visit), "2\r\nlo\r\n0\r\nX-Sum: 5\r\n\r\n[fin]");
  edge.visit("0\r\nX-Done: yes\r\n\r\n");
  EXPECT_EQ(edge.take(edge.to_visitor), "0\r\nX-Done: yes\r\n\r\n[close]");
}

TEST(ExchangeEdge, EventStreamsAreNotBuffered) {
  Edge edge;
  edge.visitor(kGet);
  edge.found();
  edge.visit(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
  edge.take(edge.to_visitor);
  for (int i = 0; i < 3; ++i) {
    edge.visit("9\r\ndata: x\n\n\r\n");
    EXPECT_EQ(edge.take(edge.to_visitor), "9\r\ndata: x\n\n\r\n");
    edge.advance(std::chrono::hours(1));
    EXPECT_EQ(edge.to_visitor, "") << "no deadline on a body";
  }
}

TEST(ExchangeEdge, LargeBodiesAreSharedNotCopied) {
  Edge edge;
  edge.machine.feed_visitor(
      link::Slice::copy_of("POST / HTTP/1.1\r\nContent-Length: 65536\r\n" + kHost + "\r\n"),
      edge.now);
  edge.machine.route_found(edge.now);
  const link::Slice body = link::Slice::copy_of(std::string(65536, 'x'));
  edge.machine.feed_visitor(body, edge.now);
  bool shared = false;
  while (auto action = edge.machine.poll()) {
    const auto* write = std::get_if<edge_action::WriteVisit>(&*action);
    shared |= write != nullptr && write->bytes.bytes().data() == body.bytes().data() &&
              write->bytes.size() == body.size();
  }
  EXPECT_TRUE(shared);
}

TEST(ExchangeEdge, InformationalHeadsPassToHttp11Only) {
  for (const bool old : {false, true}) {
    Edge edge;
    const std::string version = old ? "HTTP/1.0" : "HTTP/1.1";
    edge.visitor("POST / " + version + "\r\nContent-Length: 2\r\nExpect: 100-continue\r\n" + kHost +
                 "\r\n");
    edge.found();
    EXPECT_EQ(contains(edge.to_visit, "Expect: 100-continue"), !old);
    edge.visit("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
    EXPECT_EQ(
        edge.take(edge.to_visitor),
        old ? "" : "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
    edge.visitor("hi");
    edge.visit(kOk);
    EXPECT_TRUE(contains(edge.to_visitor, "HTTP/1.1 200 OK"));
    EXPECT_EQ(edge.events, "[route web.test POST /][done 200]");
  }
}

TEST(ExchangeEdge, ResponsesWithoutABody) {
  struct Case {
    std::string method, response, visitor;
  };
  for (const Case& c :
       {Case{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
             "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"},
        Case{"GET", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
        Case{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
             "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"}}) {
    Edge edge;
    edge.visitor(c.method + " / HTTP/1.1\r\n" + kHost + "\r\n");
    edge.found();
    edge.visit(c.response);
    EXPECT_EQ(edge.to_visitor, c.visitor);
    EXPECT_TRUE(edge.machine.idle()) << "nothing is awaited behind the head";
  }
}

TEST(ExchangeEdge, Http10GetsNoChunks) {
  Edge edge;
  edge.visitor("GET / HTTP/1.0\r\nConnection: keep-alive\r\n" + kHost + "\r\n");
  edge.found();
  edge.visit(kOk);
  EXPECT_EQ(edge.take(edge.to_visitor),
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi");
  edge.visitor("GET / HTTP/1.0\r\nConnection: keep-alive\r\n" + kHost + "\r\n");
  edge.found();
  edge.visit("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: y\r\n\r\n");
  EXPECT_EQ(edge.take(edge.to_visitor), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi[close]");
}

TEST(ExchangeEdge, ACutIsNeverShownAsAnEnd) {
  for (const std::string version : {"HTTP/1.0", "HTTP/1.1"}) {
    for (const std::string head :
         {"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "Content-Length: 5\r\n\r\nhi"}) {
      Edge edge;
      edge.visitor("GET / " + version + "\r\n" + kHost + "\r\n");
      edge.found();
      edge.visit("HTTP/1.1 200 OK\r\n" + head);
      edge.visit_broken(Outcome::kAgentLost);
      EXPECT_TRUE(edge.to_visitor.ends_with("[abort]")) << edge.to_visitor;
      EXPECT_FALSE(contains(edge.to_visitor, "0\r\n\r\n"));
      EXPECT_EQ(edge.events, "[route web.test GET /]") << "not done";
    }
  }
}

TEST(ExchangeEdge, AnEarlyEndOfTheVisitIsACut) {
  Edge edge;
  edge.visitor(kGet);
  edge.found();
  edge.visit("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
  edge.visit_finished();
  EXPECT_TRUE(edge.to_visit.ends_with("[fin][reset 1]"));
  EXPECT_TRUE(edge.to_visitor.ends_with("hi[abort]"));
}

TEST(ExchangeEdge, ALossBeforeTheResponseIsAnsweredAndTheConnectionGoesOn) {
  Edge edge;
  edge.visitor(kGet);
  edge.found();
  edge.visit_broken(Outcome::kPathLost);
  EXPECT_TRUE(edge.take(edge.to_visitor)
                  .starts_with("HTTP/1.1 502 Bad Gateway\r\nX-Fairlead-Error: FL-1008\r\n"));
  EXPECT_EQ(edge.take(edge.events), "[route web.test GET /][done 502 FL-1008]");
  edge.visitor(kGet);
  EXPECT_EQ(edge.take(edge.events), "[route web.test GET /]");
  edge.found();
  edge.visit("HTTP/1.1 200 OK");
  edge.visit_broken(Outcome::kAgentLost);
  EXPECT_TRUE(contains(edge.to_visitor, "FL-1008")) << "half a head was not passed on";
}

TEST(ExchangeEdge, ALossAmidARequestIsAnsweredAndCloses) {
  Edge edge;
  edge.visitor("POST / HTTP/1.1\r\nContent-Length: 5\r\n" + kHost + "\r\nhe");
  edge.found();
  edge.visit_broken(Outcome::kUpstreamReset);
  EXPECT_TRUE(contains(edge.to_visitor, "FL-1009"));
  EXPECT_TRUE(contains(edge.to_visitor, "Connection: close\r\n"));
  EXPECT_TRUE(edge.to_visitor.ends_with("[close]"));
}

TEST(ExchangeEdge, MalformedResponsesAreFaultsOfTheVisit) {
  for (const std::string bytes :
       {"HTTP/1.1 200 OK\r\n\r\nuntil close", "SSH-2.0\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"}) {
    Edge edge;
    edge.visitor(kGet);
    edge.found();
    edge.visit(bytes);
    edge.visit("\r\n\r\n");
    EXPECT_TRUE(edge.to_visit.ends_with("[fin][reset 1]")) << bytes;
    EXPECT_TRUE(contains(edge.to_visitor, "FL-1013")) << bytes;
  }
}

TEST(ExchangeEdge, BytesBehindAResponseNeverReachTheNextExchange) {
  Edge edge;
  edge.visitor(kGet + kGet);
  edge.found();
  edge.visit(kOk + kOk);
  EXPECT_EQ(edge.to_visitor, kOk + "[close]");
  EXPECT_TRUE(edge.to_visit.ends_with("[fin][reset 1 complete]"));
  EXPECT_EQ(edge.events, "[route web.test GET /][done 200]");
}

TEST(ExchangeEdge, AResponseThatEndsBeforeItsRequestClosesAfterIt) {
  Edge edge;
  edge.visitor("POST / HTTP/1.1\r\nContent-Length: 500\r\n" + kHost + "\r\npart");
  edge.found();
  edge.visit("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_TRUE(edge.to_visit.ends_with("part[reset 5 complete]")) << "never FIN";
  EXPECT_EQ(edge.to_visitor,
            "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno[close]");
  EXPECT_EQ(edge.events, "[route web.test POST /][done 413]");
}

TEST(ExchangeEdge, AVisitorThatBreaksAmidARequestResetsTheVisit) {
  for (const bool clean : {true, false}) {
    for (const std::string body : {"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"}) {
      Edge edge;
      edge.visitor("POST / HTTP/1.1\r\n" + body + kHost + "\r\n2\r\n");
      edge.found();
      clean ? edge.visitor_finished() : edge.visitor_broken();
      EXPECT_TRUE(edge.to_visit.ends_with("[reset 259]")) << edge.to_visit;
      EXPECT_FALSE(contains(edge.to_visit, "[fin]"));
      EXPECT_EQ(edge.to_visitor, "[abort]");
    }
  }
}

TEST(ExchangeEdge, AVisitorThatBreaksAmidAResponseResetsTheVisit) {
  Edge edge;
  edge.visitor(kGet);
  edge.found();
  edge.visit("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
  edge.visitor_broken();
  EXPECT_TRUE(edge.to_visit.ends_with("[fin][reset 259]"));
  EXPECT_TRUE(edge.to_visitor.ends_with("hi[abort]"));
}

TEST(ExchangeEdge, HalfCloseBehindARequestIsStillAnswered) {
  Edge edge;
  edge.visitor(kGet);
  edge.visitor_finished();
  edge.found();
  edge.visit(kOk);
  EXPECT_EQ(edge.to_visitor,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi[close]");
}

TEST(ExchangeEdge, HalfCloseBehindPipelinedRequestsAnswersThemAll) {
  Edge edge;
  edge.visitor(kGet + kGet);
  edge.visitor_finished();
  edge.found();
  edge.visit(kOk);
  edge.found();
  edge.visit(kOk);
  EXPECT_EQ(
      edge.to_visitor,
      kOk + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n" + "hi[close]");
}

TEST(ExchangeEdge, HalfCloseBeforeTheRouteOfAnIncompleteRequest) {
  Edge edge;
  edge.visitor("POST / HTTP/1.1\r\nContent-Length: 5\r\n" + kHost + "\r\nhe");
  edge.visitor_finished();
  EXPECT_EQ(edge.to_visitor, "");
  edge.found();
  EXPECT_TRUE(edge.to_visit.ends_with("he[reset 259]"));
  EXPECT_EQ(edge.to_visitor, "[abort]");
}

TEST(ExchangeEdge, EndsOfIdleConnections) {
  Edge fresh;
  fresh.visitor_finished();
  EXPECT_EQ(fresh.to_visitor, "[close]");
  Edge partial;
  partial.visitor("GET / HT");
  partial.visitor_finished();
  EXPECT_EQ(partial.to_visitor, "[close]");
  Edge broken;
  broken.visitor_broken();
  EXPECT_EQ(broken.to_visitor, "[abort]");
  EXPECT_EQ(broken.to_visit, "");
}

TEST(ExchangeEdge, RoutesThatFail) {
  struct Case {
    HttpError error;
    std::string_view status;
  };
  for (const Case& c :
       {Case{HttpError::kNoSuchService, "404"}, Case{HttpError::kAgentOffline, "503"},
        Case{HttpError::kDraining, "503"}, Case{HttpError::kOverloaded, "503"}}) {
    Edge edge;
    edge.visitor(kGet + kGet);
    edge.failed(c.error);
    EXPECT_TRUE(edge.to_visitor.starts_with("HTTP/1.1 " + std::string(c.status)));
    EXPECT_TRUE(contains(edge.to_visitor, http_error_code(c.error)));
    EXPECT_EQ(edge.events, "[route web.test GET /][done " + std::string(c.status) + " " +
                               http_error_code(c.error) + "][route web.test GET /]")
        << "the connection goes on";
    EXPECT_EQ(edge.to_visit, "");
  }
}

TEST(ExchangeEdge, ARouteThatFailsUnderABodyCloses) {
  Edge edge;
  edge.visitor("POST / HTTP/1.1\r\nContent-Length: 5\r\n" + kHost + "\r\n");
  edge.failed(HttpError::kNoSuchService);
  EXPECT_TRUE(contains(edge.to_visitor, "Connection: close"));
  EXPECT_TRUE(edge.to_visitor.ends_with("[close]")) << "the body may look like a request";
}

TEST(ExchangeEdge, PagesFitTheRequest) {
  Edge head;
  head.visitor("HEAD / HTTP/1.1\r\n" + kHost + "\r\n");
  head.failed(HttpError::kNoSuchService);
  EXPECT_TRUE(head.to_visitor.ends_with("\r\n\r\n")) << "no body";
  Edge html;
  html.visitor("GET / HTTP/1.1\r\nAccept: text/html, */*\r\n" + kHost + "\r\n");
  html.failed(HttpError::kNoSuchService);
  EXPECT_TRUE(contains(html.to_visitor, "<!doctype html>"));
  Edge old;
  old.visitor("GET / HTTP/1.0\r\nConnection: keep-alive\r\n" + kHost + "\r\n");
  old.failed(HttpError::kNoSuchService);
  EXPECT_TRUE(contains(old.to_visitor, "Connection: keep-alive\r\n"));
}

TEST(ExchangeEdge, BadRequestsAreAnsweredAndClosed) {
  struct Case {
    std::string bytes, code;
  };
  for (const Case& c :
       {Case{"GET / HTTP/1.1\r\n\r\n" + kGet, "400 Bad Request\r\nX-Fairlead-Error: FL-1005"},
        Case{"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n" + kHost +
                 "\r\n0\r\n\r\n" + kGet,
             "FL-1005"},
        Case{"GET /" + std::string(kMaxStartLine, 'a'),
             "431 Request Header Fields Too Large\r\n"
             "X-Fairlead-Error: FL-1006"},
        Case{"\x16\x03\x01", "FL-1005"}}) {
    Edge edge;
    edge.visitor(c.bytes);
    EXPECT_TRUE(contains(edge.to_visitor, c.code)) << c.bytes;
    EXPECT_TRUE(contains(edge.to_visitor, "Connection: close\r\n"));
    EXPECT_TRUE(edge.to_visitor.ends_with("[close]"));
    EXPECT_FALSE(edge.machine.wants_visitor_bytes());
    EXPECT_FALSE(contains(edge.events, "route")) << "what follows is not a request";
    edge.machine.feed_visitor(link::Slice::copy_of(kGet), edge.now);
    EXPECT_FALSE(edge.machine.poll()) << "a late feed is dropped";
  }
}

TEST(ExchangeEdge, ABadBodyResetsTheVisit) {
  const std::string post = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + kHost + "\r\n";
  Edge before;
  before.visitor(post);
  before.found();
  before.visitor("nonsense\r\n");
  EXPECT_TRUE(before.to_visit.ends_with("[reset 5]"));
  EXPECT_TRUE(contains(before.to_visitor, "FL-1005"));
  EXPECT_TRUE(before.to_visitor.ends_with("[close]"));
  Edge after;
  after.visitor(post);
  after.found();
  after.visit("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
  after.visitor("nonsense\r\n");
  EXPECT_TRUE(after.to_visitor.ends_with("hi[abort]")) << "no page amid a response";
}

TEST(ExchangeEdge, UpgradesAndConnectAreRefusedAndClosed) {
  const std::string upgrade = "GET / HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\n" + kHost;
  struct Case {
    std::string bytes, code;
  };
  for (const Case& c : {Case{upgrade + "Upgrade: WebSocket\r\n\r\n", "FL-1007"},
                        Case{upgrade + "Upgrade: h2c, websocket\r\n\r\n", "FL-1007"},
                        Case{upgrade + "Upgrade: x\r\nContent-Length: 3\r\n\r\nabc", "FL-1007"},
                        Case{"CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n\r\n", "FL-1010"}}) {
    Edge edge;
    edge.visitor(c.bytes + kGet);
    EXPECT_TRUE(edge.to_visitor.starts_with("HTTP/1.1 501 ")) << c.bytes;
    EXPECT_TRUE(contains(edge.to_visitor, c.code)) << c.bytes;
    EXPECT_TRUE(edge.to_visitor.ends_with("[close]"));
    EXPECT_FALSE(contains(edge.events, "route"));
  }
}

TEST(ExchangeEdge, OffersThatMayBeDeclinedAre) {
  Edge h2c;
  h2c.visitor(
      "GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
      "HTTP2-Settings: AAMAAABk\r\n" +
      kHost + "\r\n");
  h2c.found();
  EXPECT_EQ(h2c.to_visit, kVisitGet);
  Edge unnamed;
  unnamed.visitor("GET / HTTP/1.1\r\nUpgrade: websocket\r\n" + kHost + "\r\n");
  unnamed.found();
  EXPECT_EQ(unnamed.to_visit, kVisitGet);
}

TEST(ExchangeEdge, DrainClosesAtTheNextResponse) {
  Edge edge;
  edge.visitor(kGet);
  edge.found();
  edge.machine.set_draining(edge.now);
  edge.visit(kOk);
  EXPECT_EQ(edge.to_visitor,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi[close]");
}

TEST(ExchangeEdge, AnIdleConnectionAnswersOneMoreRequestInADrain) {
  Edge edge;
  edge.visitor(kGet);
  edge.found();
  edge.visit(kOk);
  edge.take(edge.to_visitor);
  edge.machine.set_draining(edge.now);
  EXPECT_FALSE(edge.machine.poll());
  edge.advance(seconds(59));
  EXPECT_EQ(edge.to_visitor, "");
  edge.visitor(kGet);
  edge.found();
  edge.visit(kOk);
  EXPECT_EQ(edge.to_visitor,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi[close]");
}

TEST(ExchangeEdge, ADrainAmidAResponseLetsOneMoreRequestIn) {
  Edge edge;
  edge.visitor(kGet);
  edge.found();
  edge.visit("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
  edge.machine.set_draining(edge.now);
  edge.visit("hi");
  EXPECT_EQ(edge.take(edge.to_visitor), kOk) << "the head had promised to keep the connection";
  edge.advance(seconds(60));
  EXPECT_EQ(edge.to_visitor, "[close]");
}

TEST(ExchangeEdge, DeadlinesOfHeadsAndIdleConnections) {
  Edge silent;
  silent.advance(seconds(30) - std::chrono::nanoseconds(1));
  EXPECT_EQ(silent.to_visitor, "");
  silent.advance(std::chrono::nanoseconds(1));
  EXPECT_EQ(silent.to_visitor, "[close]");

  Edge drip;
  for (int i = 0; i < 29; ++i) {
    drip.visitor(kGet.substr(static_cast<std::size_t>(i), 1));
    drip.advance(seconds(1));
  }
  EXPECT_EQ(drip.to_visitor, "");
  drip.advance(seconds(1));
  EXPECT_TRUE(contains(drip.to_visitor, "408 Request Timeout"));
  EXPECT_TRUE(contains(drip.to_visitor, "FL-1011"));
  EXPECT_TRUE(drip.to_visitor.ends_with("[close]"));

  Edge kept;
  kept.visitor(kGet);
  EXPECT_FALSE(kept.machine.next_deadline()) << "none while an exchange runs";
  kept.found();
  kept.visit(kOk);
  EXPECT_EQ(kept.machine.next_deadline(), kept.now + seconds(75));
  kept.advance(seconds(75));
  EXPECT_EQ(kept.to_visitor, kOk + "[close]");
}

TEST(ExchangeEdge, LateEventsOfAFinishedExchangeAreIgnored) {
  Edge edge;
  edge.visitor(kGet);
  edge.visit(kOk);
  edge.visit_broken(Outcome::kAgentLost);
  edge.visit_finished();
  EXPECT_EQ(edge.to_visitor, "") << "no visit is in use yet";
  edge.found();
  edge.visit(kOk);
  edge.take(edge.to_visitor);
  edge.visit_broken(Outcome::kAgentLost);
  edge.visit_finished();
  edge.visit(kOk);
  edge.found();
  edge.failed(HttpError::kAgentOffline);
  EXPECT_EQ(edge.to_visitor, "");
  EXPECT_TRUE(edge.machine.idle());
}

}  // namespace
}  // namespace fairlead::dataplane
