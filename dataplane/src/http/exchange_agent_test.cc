#include "http/exchange_agent.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace fairlead::dataplane {
namespace {

// Drives one machine and keeps what it did as text.
class Agent {
 public:
  void visit(std::string_view bytes) {
    ASSERT_TRUE(machine.wants_visit_bytes());
    machine.feed_visit(link::Slice::copy_of(bytes));
    act();
  }
  void upstream(std::string_view bytes) {
    machine.feed_upstream(link::Slice::copy_of(bytes));
    act();
  }
  void connected() {
    machine.upstream_connected();
    act();
  }
  // A request that is complete and an upstream that is connected.
  void open(std::string_view method = "GET") {
    visit(std::string(method) + " / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    connected();
    to_upstream.clear();
  }
  void act() {
    while (auto action = machine.poll()) {
      std::visit(
          Overloaded{
              [&](const agent_action::Dial&) { to_upstream += "[dial]"; },
              [&](const agent_action::WriteUpstream& write) { to_upstream += write.bytes.text(); },
              [&](const agent_action::WriteVisit& write) { to_visit += write.bytes.text(); },
              [&](const agent_action::FinishVisit&) { to_visit += "[fin]"; },
              [&](const agent_action::ResetVisit& reset) {
                to_visit += "[reset " + std::to_string(reset.code) + "]";
              },
              [&](const agent_action::CloseUpstream&) { to_upstream += "[close]"; },
              [&](const agent_action::AbortUpstream&) { to_upstream += "[abort]"; },
          },
          *action);
    }
  }

  ExchangeAgent machine;
  std::string to_upstream, to_visit;
};

const std::string kGet = "GET /x HTTP/1.1\r\nHost: web.test\r\nA: b\r\n\r\n";
const std::string kUpstreamGet =
    "GET /x HTTP/1.1\r\nHost: web.test\r\nA: b\r\nConnection: close\r\n\r\n";
const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(ExchangeAgent, OneExchange) {
  Agent agent;
  agent.visit(kGet);
  EXPECT_EQ(agent.to_upstream, "[dial]");
  agent.machine.visit_finished();
  agent.connected();
  EXPECT_EQ(agent.to_upstream, "[dial]" + kUpstreamGet) << "no FIN: the request states its own end";
  agent.upstream("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(agent.to_visit, kOk + "[fin]");
  EXPECT_TRUE(agent.to_upstream.ends_with("[close]"));
  EXPECT_TRUE(agent.machine.done());
  EXPECT_EQ(agent.machine.status(), 200);
  EXPECT_EQ(agent.machine.fault(), "");
}

TEST(ExchangeAgent, HoldsARequestUntilTheUpstreamIsConnected) {
  Agent agent;
  agent.visit("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\n\r\nhel");
  EXPECT_FALSE(agent.machine.wants_visit_bytes());
  agent.connected();
  EXPECT_TRUE(agent.to_upstream.ends_with("Content-Length: 5\r\nConnection: close\r\n\r\nhel"));
  EXPECT_TRUE(agent.machine.wants_visit_bytes());
  agent.visit("lo");
  EXPECT_TRUE(agent.to_upstream.ends_with("hello"));
}

TEST(ExchangeAgent, ChunksAndTrailersBothWays) {
  Agent agent;
  agent.visit("POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n");
  agent.connected();
  agent.to_upstream.clear();
  agent.visit("3\r\nabc\r\n");
  EXPECT_EQ(agent.to_upstream, "3\r\nabc\r\n") << "a body reaches the upstream as it comes";
  agent.visit("0\r\nX-Sum: 1\r\n\r\n");
  EXPECT_EQ(agent.to_upstream, "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n");
  agent.upstream("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nda");
  EXPECT_TRUE(agent.to_visit.ends_with("Transfer-Encoding: chunked\r\n\r\n2\r\nda\r\n"));
  agent.upstream("ta\r\n0\r\nX-Done: y\r\n\r\n");
  EXPECT_TRUE(agent.to_visit.ends_with("2\r\nta\r\n0\r\nX-Done: y\r\n\r\n[fin]"));
}

TEST(ExchangeAgent, ABodyUntilTheCloseEndsOnlyWithACleanEnd) {
  Agent clean;
  clean.open();
  clean.upstream("HTTP/1.0 200 OK\r\n\r\npart");
  EXPECT_EQ(clean.to_visit, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n");
  clean.machine.upstream_finished();
  clean.act();
  EXPECT_TRUE(clean.to_visit.ends_with("part\r\n0\r\n\r\n[fin]"));

  Agent reset;
  reset.open();
  reset.upstream("HTTP/1.0 200 OK\r\n\r\npart");
  reset.machine.upstream_broken();
  reset.act();
  EXPECT_TRUE(reset.to_visit.ends_with("part\r\n[reset 258]")) << "no final chunk, no FIN";
  EXPECT_EQ(reset.to_upstream, "[abort]");
}

TEST(ExchangeAgent, AnIncompleteBodyIsAResetNeverAnEnd) {
  for (const std::string bytes : {"Content-Length: 5\r\n\r\nhi", "Content-Length: 5\r\n\r\n",
                                  "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
                                  "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"}) {
    for (const bool clean : {true, false}) {
      Agent agent;
      agent.open();
      agent.upstream("HTTP/1.1 200 OK\r\n" + bytes);
      clean ? agent.machine.upstream_finished() : agent.machine.upstream_broken();
      agent.act();
      EXPECT_TRUE(agent.to_visit.ends_with("[reset 258]")) << agent.to_visit;
      EXPECT_FALSE(contains(agent.to_visit, "[fin]"));
      EXPECT_NE(agent.machine.fault(), "");
    }
  }
}

TEST(ExchangeAgent, FaultsBeforeTheResponseAreAnsweredWhole) {
  struct Case {
    std::function<void(Agent&)> fault;
    std::string code;
  };
  const std::vector<Case> cases{
      {[](Agent& agent) { agent.machine.upstream_finished(); }, "FL-1009"},
      {[](Agent& agent) { agent.machine.upstream_broken(); }, "FL-1009"},
      {[](Agent& agent) { agent.upstream("SSH-2.0-OpenSSH\r\n\r\n"); }, "FL-1009"},
      {[](Agent& agent) {
         agent.upstream("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200");
         agent.machine.upstream_finished();
       },
       "FL-1009"},
      {[](Agent& agent) { agent.upstream("HTTP/1.1 101 Switching Protocols\r\n\r\n"); }, "FL-1009"},
      {[](Agent& agent) {
         agent.upstream(
             "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
       },
       "FL-1009"},
  };
  for (const Case& c : cases) {
    Agent agent;
    agent.open();
    c.fault(agent);
    agent.act();
    EXPECT_TRUE(
        contains(agent.to_visit, "HTTP/1.1 502 Bad Gateway\r\nX-Fairlead-Error: " + c.code));
    EXPECT_TRUE(agent.to_visit.ends_with("[fin]")) << "a complete response";
    EXPECT_EQ(agent.to_upstream, "[abort]");
    EXPECT_EQ(agent.machine.status(), 502);
  }
}

TEST(ExchangeAgent, AnUpstreamThatCannotBeReached) {
  Agent agent;
  agent.visit(kGet);
  agent.machine.upstream_failed();
  agent.act();
  EXPECT_TRUE(agent.to_visit.starts_with("HTTP/1.1 502 Bad Gateway\r\nX-Fairlead-Error: FL-1003"));
  EXPECT_TRUE(agent.to_visit.ends_with("[fin]"));
  EXPECT_EQ(agent.to_upstream, "[dial]");

  Agent head;
  head.visit("HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  head.machine.upstream_broken();
  head.act();
  EXPECT_TRUE(head.to_visit.ends_with("\r\n\r\n[fin]")) << "no body";
}

TEST(ExchangeAgent, ResponsesWithoutABodyDoNotWaitForTheClose) {
  Agent head;
  head.open("HEAD");
  head.upstream("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(head.to_visit, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[fin]");
  Agent none;
  none.open();
  none.upstream("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(none.to_visit, "HTTP/1.1 204 No Content\r\n\r\n[fin]");
  Agent same;
  same.open();
  same.upstream("HTTP/1.1 304 Not Modified\r\n\r\n");
  EXPECT_EQ(same.to_visit, "HTTP/1.1 304 Not Modified\r\n\r\n[fin]");
}

TEST(ExchangeAgent, InformationalHeadsPass) {
  Agent agent;
  agent.visit(
      "POST / HTTP/1.1\r\nHost: web.test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  agent.connected();
  EXPECT_TRUE(contains(agent.to_upstream, "Expect: 100-continue\r\n"));
  agent.upstream("HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(agent.to_visit, "HTTP/1.1 100 Continue\r\n\r\n");
  agent.visit("hi");
  agent.upstream(kOk);
  EXPECT_EQ(agent.to_visit, "HTTP/1.1 100 Continue\r\n\r\n" + kOk + "[fin]");
}

TEST(ExchangeAgent, AnEarlyResponseIsPassedOnAndTheRestDropped) {
  Agent agent;
  agent.visit("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 500\r\n\r\npart");
  agent.connected();
  agent.upstream("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_EQ(agent.to_visit, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno[fin]");
  EXPECT_TRUE(agent.to_upstream.ends_with("part[close]"));
  agent.visit("more");
  agent.machine.visit_broken();
  agent.act();
  EXPECT_TRUE(agent.to_upstream.ends_with("part[close]"));
  EXPECT_EQ(agent.machine.fault(), "");
}

TEST(ExchangeAgent, AnUpstreamThatTakesNoMoreMayStillAnswer) {
  Agent agent;
  agent.visit("POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 9\r\n\r\npart");
  agent.connected();
  agent.machine.upstream_write_failed();
  agent.visit("dropp");
  EXPECT_TRUE(agent.to_upstream.ends_with("part"));
  agent.upstream("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(agent.to_visit.ends_with("[fin]"));
}

TEST(ExchangeAgent, BytesBehindAResponseAreDropped) {
  Agent agent;
  agent.open();
  agent.upstream(kOk + "HTTP/1.1 200 OK\r\n");
  EXPECT_EQ(agent.to_visit, kOk + "[fin]");
}

TEST(ExchangeAgent, AVisitThatBreaksResetsTheUpstream) {
  Agent head;
  head.visit("GET / HT");
  head.machine.visit_broken();
  head.act();
  EXPECT_EQ(head.to_upstream, "") << "nothing was dialled";
  Agent dialling;
  dialling.visit(kGet);
  dialling.machine.visit_broken();
  dialling.connected();
  EXPECT_EQ(dialling.to_upstream, "[dial][abort]");
  Agent open;
  open.open();
  open.upstream("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
  open.machine.visit_broken();
  open.act();
  EXPECT_EQ(open.to_upstream, "[abort]");
  EXPECT_TRUE(open.to_visit.ends_with("hi")) << "neither FIN nor reset: the visit is gone";
  open.upstream("abc");
  open.machine.upstream_finished();
  open.act();
  EXPECT_TRUE(open.to_visit.ends_with("hi"));
}

TEST(ExchangeAgent, AVisitThatEndsAmidARequestNeverEndsTheUpstreamCleanly) {
  Agent agent;
  agent.visit("POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n");
  agent.machine.visit_finished();
  agent.act();
  agent.connected();
  EXPECT_EQ(agent.to_visit, "[reset 1]");
  EXPECT_TRUE(agent.to_upstream.ends_with("2\r\nhi\r\n[abort]"));
  Agent early;
  early.machine.visit_finished();
  early.act();
  EXPECT_EQ(early.to_visit, "[reset 1]");
  EXPECT_EQ(early.to_upstream, "");
}

TEST(ExchangeAgent, RequestsThatARelayWouldNotSendResetTheVisit) {
  for (const std::string bytes :
       {"nonsense\r\n", "GET / HTTP/1.1\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"}) {
    Agent agent;
    agent.visit(bytes);
    EXPECT_EQ(agent.to_visit, "[reset 1]") << bytes;
    EXPECT_EQ(agent.to_upstream, "") << bytes;
    EXPECT_TRUE(agent.machine.done());
  }
  Agent two;
  two.visit(kGet + kGet);
  two.connected();
  EXPECT_EQ(two.to_visit, "[reset 1]") << "one visit carries one exchange";
  EXPECT_TRUE(two.to_upstream.ends_with("[abort]"));
}

}  // namespace
}  // namespace fairlead::dataplane
