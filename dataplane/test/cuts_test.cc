// Processes that die in the middle of visits: a cut is never shown as an end, and has a cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster.h"

namespace fairlead::dataplane::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Sends without end.
void pour(Client& visitor) {
  const std::string part = pattern(64 * 1024);
  while (visitor.send(part)) {
  }
}

class Cuts : public ::testing::Test {
 protected:
  // A download under way from replica "a" to a visitor who reads on.
  Client download() {
    Client visitor(cluster_.tcp("a"));
    EXPECT_EQ(visitor.read(1 << 20).size(), std::size_t{1} << 20);
    return visitor;
  }

  Upstream upstream_{pour};
  Cluster cluster_;
};

TEST_F(Cuts, TheAgentDies) {
  cluster_.add_relays({"a"});
  AgentNode& agent = cluster_.serve({.port = upstream_.port(), .relays = {"a"}});
  Client visitor = download();
  agent.crash();
  EXPECT_EQ(visitor.wait_end(), End::kReset);
  EXPECT_TRUE(cluster_.quiet());
  EXPECT_THAT(cluster_.counters("a", "tcp").lost, ElementsAre(Pair("agent_lost", 1)));
}

TEST_F(Cuts, TheAgentDiesBehindAnotherReplica) {
  cluster_.add_relays({"a", "b"});
  AgentNode& agent = cluster_.serve({.port = upstream_.port(), .relays = {"b"}});
  Client visitor = download();
  agent.crash();
  EXPECT_EQ(visitor.wait_end(), End::kReset);
  EXPECT_TRUE(cluster_.quiet());
  EXPECT_THAT(cluster_.counters("a", "tcp").lost, ElementsAre(Pair("path_lost", 1)));
}

TEST_F(Cuts, TheHomeDies) {
  cluster_.add_relays({"a", "b"});
  cluster_.serve({.port = upstream_.port(), .relays = {"b"}});
  Client visitor = download();
  cluster_.crash("b");
  EXPECT_EQ(visitor.wait_end(), End::kReset);
  EXPECT_TRUE(cluster_.quiet());
  EXPECT_THAT(cluster_.counters("a", "tcp").lost, ElementsAre(Pair("peer_lost", 1)));
}

TEST_F(Cuts, TheEdgeDies) {
  std::promise<End> seen;
  Upstream upstream([&](Client& visitor) {
    visitor.send("hello");
    seen.set_value(visitor.wait_end());
  });
  Cluster cluster;
  cluster.add_relays({"a", "b"});
  cluster.serve({.port = upstream.port(), .relays = {"b"}});
  Client visitor(cluster.tcp("a"));
  EXPECT_EQ(visitor.read(5), "hello");
  cluster.crash("a");
  EXPECT_EQ(visitor.wait_end(), End::kReset);
  EXPECT_EQ(seen.get_future().get(), End::kReset);
  EXPECT_TRUE(cluster.quiet());
}

TEST_F(Cuts, TheHomeOfAnUploadDies) {
  std::promise<End> seen;
  Upstream upstream([&](Client& visitor) { seen.set_value(visitor.wait_end()); });
  Cluster cluster;
  cluster.add_relays({"a", "b"});
  cluster.serve({.port = upstream.port(), .relays = {"b"}});
  Client visitor(cluster.tcp("a"));
  EXPECT_TRUE(visitor.send(pattern(1 << 20)));
  cluster.crash("b");
  EXPECT_EQ(visitor.wait_end(), End::kReset);
  EXPECT_EQ(seen.get_future().get(), End::kReset);
}

TEST_F(Cuts, AChunkedResponseHasNoLastChunkWhenTheAgentOrTheHomeDies) {
  for (const bool agent_dies : {true, false}) {
    Upstream upstream([](Client& visitor) {
      if (!read_http(visitor, false).complete) return;
      visitor.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
      while (visitor.send(chunk(std::string(50'000, 'x')))) {
      }
    });
    Cluster cluster;
    cluster.add_relays({"a", "b"});
    AgentNode& agent =
        cluster.serve({.kind = "http", .name = "web", .port = upstream.port(), .relays = {"b"}});
    Client visitor(cluster.http("a"));
    visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
    EXPECT_EQ(visitor.read(1 << 20).size(), std::size_t{1} << 20);
    if (agent_dies) {
      agent.crash();
    } else {
      cluster.crash("b");
    }
    End end = End::kTimeout;
    EXPECT_THAT(visitor.read_all(end), Not(HasSubstr("\r\n0\r\n")));
    EXPECT_EQ(end, End::kReset);
    EXPECT_TRUE(cluster.quiet());
    EXPECT_THAT(cluster.counters("a", "http").lost,
                ElementsAre(Pair(agent_dies ? "path_lost" : "peer_lost", 1)));
  }
}

// Before a head was sent there is something better than a reset.
TEST_F(Cuts, ARequestWhoseAgentDiesBeforeItAnsweredIsA502) {
  std::promise<void> asked;
  Upstream upstream([&](Client& visitor) {
    read_http(visitor, false);
    asked.set_value();
    visitor.wait_end();
  });
  Cluster cluster;
  cluster.add_relays({"a"});
  AgentNode& agent =
      cluster.serve({.kind = "http", .name = "web", .port = upstream.port(), .relays = {"a"}});
  Client visitor(cluster.http("a"));
  visitor.send("GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
  asked.get_future().wait_for(10s);
  agent.crash();
  const HttpMessage reply = read_http(visitor, true);
  EXPECT_EQ(reply.status(), 502);
  EXPECT_EQ(reply.field("x-fairlead-error"), "FL-1008");
}

}  // namespace
}  // namespace fairlead::dataplane::testing
