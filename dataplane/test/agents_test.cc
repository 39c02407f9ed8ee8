// Agents: who is let in, whom they replace, how they end.
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

class Agents : public ::testing::Test {
 protected:
  bool echoes(const std::string& uid, const std::string& bytes = "hello") {
    Client visitor(cluster_.tcp(uid));
    visitor.send(bytes);
    visitor.finish();
    End end = End::kTimeout;
    return visitor.read_all(end) == bytes && end == End::kFin;
  }
  std::string refusal(const Cluster::AgentSpec& spec) {
    const auto exit = cluster_.add_agent(spec).wait_exit();
    if (!exit) return "it did not end";
    EXPECT_EQ(exit->code, AgentExit::kRefused);
    return exit->text;
  }

  Upstream upstream_{Upstream::echo};
  Cluster cluster_;
};

TEST_F(Agents, AWrongTokenIsRefusedForGood) {
  cluster_.add_relays({"a"});
  EXPECT_THAT(refusal({.port = upstream_.port(), .relays = {"a"}, .token = "guessed"}),
              HasSubstr("the token is not known to this relay"));
  EXPECT_THAT(cluster_.status("a").agents, IsEmpty());
}

TEST_F(Agents, ANameThatTheTokenDoesNotListIsRefused) {
  cluster_.add_relays({"a"});
  EXPECT_THAT(refusal({.kind = "http",
                       .name = "web",
                       .port = upstream_.port(),
                       .relays = {"a"},
                       .token = "other-secret"}),
              HasSubstr("this token may not serve http \"web\""));
  EXPECT_THAT(refusal({.name = "mail", .port = upstream_.port(), .relays = {"a"}}),
              HasSubstr("this token may not serve tcp \"mail\""));
}

TEST_F(Agents, ATakenNameSaysByWhom) {
  cluster_.add_relays({"a", "b"});
  cluster_.serve({.port = upstream_.port(), .relays = {"a"}, .id = "first"});
  for (const std::string uid : {"a", "b"}) {
    EXPECT_THAT(refusal({.port = upstream_.port(), .relays = {uid}, .id = "second"}),
                HasSubstr("tcp \"echo\" is served by agent first"));
  }
  EXPECT_TRUE(echoes("a"));
  EXPECT_TRUE(echoes("b"));
}

TEST_F(Agents, ANewerInstanceReplacesTheOlderOnEveryHome) {
  Upstream newer([](Client& visitor) {
    visitor.send("newer");
    visitor.finish();
    visitor.wait_end();
  });
  // Of its own cluster, which ends before the upstream does.
  Cluster cluster;
  cluster.add_relays({"a", "b"});
  AgentNode& old =
      cluster.serve({.port = upstream_.port(), .relays = {"a", "b"}, .homes = 2, .id = "same"});
  cluster.add_agent({.port = newer.port(), .relays = {"b"}, .id = "same"});
  const auto exit = old.wait_exit();
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, AgentExit::kRefused);
  EXPECT_EQ(static_cast<int>(exit->code), 2);
  EXPECT_THAT(exit->text, HasSubstr("a newer process of agent same has registered"));
  EXPECT_TRUE(cluster.known("tcp/echo", 1));
  for (const std::string uid : {"a", "b"}) {
    Client visitor(cluster.tcp(uid));
    EXPECT_EQ(visitor.read(5), "newer") << uid;
  }
}

TEST_F(Agents, OneInstanceKeepsTwoHomesAndBothServe) {
  cluster_.add_relays({"a", "b", "c"});
  AgentNode& agent =
      cluster_.serve({.port = upstream_.port(), .relays = {"a", "b", "c"}, .homes = 2});
  EXPECT_EQ(agent.standing(), 2u);
  for (const std::string uid : {"a", "b", "c"}) EXPECT_TRUE(echoes(uid)) << uid;
  // Each by its own home where there is one.
  EXPECT_EQ(cluster_.counters("a", "tcp").forwarded(), 0u);
  EXPECT_EQ(cluster_.counters("b", "tcp").forwarded(), 0u);
  EXPECT_EQ(cluster_.counters("c", "tcp").forwarded(), 1u);
}

TEST_F(Agents, AnAgentComesBackAfterItsHomeDied) {
  cluster_.add_relays({"a", "b"});
  AgentNode& agent = cluster_.serve({.port = upstream_.port(), .relays = {"b", "a"}});
  cluster_.crash("b");
  EXPECT_TRUE(eventually([&] { return echoes("a"); }));
  EXPECT_EQ(agent.standing(), 1u);
}

TEST_F(Agents, AskedToEndItEndsCleanly) {
  cluster_.add_relays({"a"});
  AgentNode& agent = cluster_.serve({.port = upstream_.port(), .relays = {"a"}});
  agent.stop();
  const auto exit = agent.wait_exit();
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, AgentExit::kEnded);
  EXPECT_TRUE(cluster_.known("tcp/echo", 0));
}

TEST_F(Agents, AskedToEndItLetsItsVisitsEndFirst) {
  cluster_.add_relays({"a"});
  AgentNode& agent = cluster_.serve({.port = upstream_.port(), .relays = {"a"}});
  Client visitor(cluster_.tcp("a"));
  EXPECT_TRUE(visitor.send("hello"));
  EXPECT_EQ(visitor.read(5), "hello");
  agent.stop();
  EXPECT_TRUE(cluster_.known("tcp/echo", 0));
  std::this_thread::sleep_for(300ms);
  EXPECT_FALSE(agent.exited());
  EXPECT_TRUE(visitor.send("still there"));
  EXPECT_EQ(visitor.read(11), "still there");
  visitor.finish();
  EXPECT_EQ(visitor.wait_end(), End::kFin);
  const auto exit = agent.wait_exit();
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, AgentExit::kEnded);
  EXPECT_EQ(cluster_.counters("a", "tcp").finished, 1u);
}

TEST_F(Agents, AskedTwiceItEndsAtOnceAndItsVisitsAreCut) {
  cluster_.add_relays({"a"});
  AgentNode& agent = cluster_.serve({.port = upstream_.port(), .relays = {"a"}});
  Client visitor(cluster_.tcp("a"));
  EXPECT_TRUE(visitor.send("hello"));
  EXPECT_EQ(visitor.read(5), "hello");
  agent.stop();
  agent.stop();
  EXPECT_EQ(visitor.wait_end(), End::kReset);
  const auto exit = agent.wait_exit();
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, AgentExit::kEnded);
  EXPECT_TRUE(cluster_.quiet());
  EXPECT_THAT(cluster_.counters("a", "tcp").lost, ElementsAre(Pair("agent_lost", 1)));
}

}  // namespace
}  // namespace fairlead::dataplane::testing
