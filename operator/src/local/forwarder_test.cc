#include "local/forwarder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <mutex>
#include <thread>

#include "local/durable_file.h"
#include "local/test_sockets.h"

namespace fairlead::op {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The forwarder on 127.x.y.1 and replicas on .2, .3, ..., all on one port.
class ForwarderTest : public testing::Test {
 protected:
  ForwarderTest() : net_(TestNet::pick()), port_(net_.free_port(8)) {
    folder_ = make_test_folder("forwarder");
    options_.listen = boost::asio::ip::make_address(net_.address(1));
    options_.endpoints = folder_ / "endpoints.json";
    options_.status = folder_ / "status.json";
    options_.dial_timeout = 500ms;
  }

  ~ForwarderTest() override {
    if (thread_.joinable()) {
      io_->stop();
      thread_.join();
    }
    io_.reset();
    std::filesystem::remove_all(folder_);
  }

  void ready(std::vector<int> hosts) {
    Endpoints endpoints;
    endpoints.ports = {port_};
    for (const int host : hosts) {
      endpoints.ready.push_back({"u", "r" + std::to_string(host), net_.address(host)});
    }
    ASSERT_EQ(replace_file(options_.endpoints, to_json(endpoints), Durability::kVisible),
              std::nullopt);
  }

  void start() {
    io_ = std::make_unique<boost::asio::io_context>(1);
    forwarder_ = std::make_unique<Forwarder>(*io_, options_, [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    });
    forwarder_->start();
    thread_ = std::thread([this] { io_->run(); });
  }

  TestSocket visit() { return TestSocket::dial(net_.address(1), port_); }
  TestListener replica(int host) { return TestListener(net_.address(host), port_); }

  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  ForwarderCounters counters_when(std::function<bool(const ForwarderCounters&)> condition) {
    ForwarderCounters last;
    eventually(5s, [&] {
      std::string error;
      const auto text = read_file(options_.status, error);
      const auto status = text ? parse_forwarder_status(*text, error) : std::nullopt;
      if (status) last = status->counters;
      return status && condition(last);
    });
    return last;
  }

  ForwarderCounters counters_of_one() {
    return counters_when([](const auto& c) { return c.accepted == 1 && c.live == 0; });
  }

  TestNet net_;
  std::uint16_t port_;
  std::filesystem::path folder_;
  ForwarderOptions options_;
  std::unique_ptr<boost::asio::io_context> io_;
  std::unique_ptr<Forwarder> forwarder_;
  std::thread thread_;
  std::mutex mutex_;
  std::string log_;
};

// The first 28 bytes at a replica: PROXY v2 over TCP/IPv4.
std::string read_header(TestSocket& socket) {
  return socket.read_exactly(28);
}

TEST_F(ForwarderTest, BytesPassBothWaysBehindAProxyHeader) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  const std::string header = read_header(upstream);
  ASSERT_EQ(header.size(), 28u);
  EXPECT_EQ(header.substr(0, 16), std::string("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", 16));
  EXPECT_EQ(header.substr(16, 4), visitor.local_address_bytes());
  EXPECT_EQ(header.substr(20, 4), visitor.remote_address_bytes());
  EXPECT_EQ(header.substr(24, 2), visitor.local_port_bytes());
  EXPECT_EQ(header.substr(26, 2), visitor.remote_port_bytes());
  visitor.write("ping");
  EXPECT_EQ(upstream.read_exactly(4), "ping");
  upstream.write("pong");
  EXPECT_EQ(visitor.read_exactly(4), "pong");
}

TEST_F(ForwarderTest, TheHeaderIsSentEvenIfTheVisitorSaysNothing) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  EXPECT_EQ(read_header(upstream).size(), 28u);
}

TEST_F(ForwarderTest, DealsRoundRobinOverReadyReplicas) {
  TestListener two = replica(2);
  TestListener three = replica(3);
  TestListener four = replica(4);
  ready({2, 3});
  start();
  std::vector<TestSocket> open;
  for (int i = 0; i < 6; ++i) open.push_back(visit());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(two.accept().valid());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(three.accept().valid());
  EXPECT_FALSE(four.pending());
  // A replica that is no longer ready gets no new connection and keeps those it has.
  ready({4});
  eventually(5s, [&] { return log().find("ready replicas: r4") != std::string::npos; });
  TestSocket late = visit();
  EXPECT_TRUE(four.accept().valid());
  EXPECT_FALSE(two.pending());
  EXPECT_FALSE(three.pending());
}

TEST_F(ForwarderTest, FinIsPassedOnForItsDirectionOnly) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  read_header(upstream);
  visitor.write("question");
  visitor.send_fin();
  EXPECT_EQ(upstream.read_exactly(8), "question");
  EXPECT_EQ(upstream.read_end(), End::kFin);
  // The late answer after the visitor's FIN still arrives, and so does its end.
  upstream.write("answer");
  EXPECT_EQ(visitor.read_exactly(6), "answer");
  upstream.send_fin();
  EXPECT_EQ(visitor.read_end(), End::kFin);
  EXPECT_EQ(counters_of_one().finished, 1u);
}

TEST_F(ForwarderTest, ReplicaFinFirst) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  read_header(upstream);
  upstream.send_fin();
  EXPECT_EQ(visitor.read_end(), End::kFin);
  visitor.write("still here");
  EXPECT_EQ(upstream.read_exactly(10), "still here");
  visitor.send_fin();
  EXPECT_EQ(upstream.read_end(), End::kFin);
}

TEST_F(ForwarderTest, ResetOfTheReplicaIsAResetForTheVisitor) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  read_header(upstream);
  upstream.reset();
  EXPECT_EQ(visitor.read_end(), End::kReset);
  EXPECT_EQ(counters_of_one().replica_reset, 1u);
}

TEST_F(ForwarderTest, ResetOfTheVisitorIsAResetForTheReplica) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  read_header(upstream);
  visitor.reset();
  EXPECT_EQ(upstream.read_end(), End::kReset);
  EXPECT_EQ(counters_of_one().visitor_reset, 1u);
}

TEST_F(ForwarderTest, ResetAfterAFinIsStillAReset) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  read_header(upstream);
  visitor.send_fin();
  EXPECT_EQ(upstream.read_end(), End::kFin);
  upstream.reset();
  EXPECT_EQ(visitor.read_end(), End::kReset);
}

TEST_F(ForwarderTest, ResetIsSeenWhileTheOtherSideDoesNotRead) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  read_header(upstream);
  // The visitor reads nothing: what the replica sends backs up until it cannot write.
  upstream.write_until_blocked();
  upstream.reset();
  EXPECT_EQ(counters_of_one().replica_reset, 1u);
  EXPECT_EQ(visitor.read_end(), End::kReset);
}

TEST_F(ForwarderTest, ASlowReaderHoldsTheSenderAndLosesNothing) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  read_header(upstream);
  const std::size_t stuck = upstream.write_until_blocked();
  // Sockets buffer some MiB in the kernel; the forwarder itself adds at most kMaxPending.
  EXPECT_LT(stuck, 64u << 20);
  std::thread rest([&] {
    upstream.write(pattern(stuck, 8 << 20));
    upstream.send_fin();
  });
  const std::string all = visitor.read_all();
  rest.join();
  ASSERT_EQ(all.size(), stuck + (8 << 20));
  EXPECT_TRUE(all == pattern(0, all.size()));
}

TEST_F(ForwarderTest, ARefusedDialIsTriedElsewhere) {
  TestListener three = replica(3);
  ready({2, 3});  // nobody listens on .2
  start();
  for (int i = 0; i < 4; ++i) {
    TestSocket visitor = visit();
    TestSocket upstream = three.accept();
    ASSERT_TRUE(upstream.valid());
    read_header(upstream);
    upstream.write("hi");
    EXPECT_EQ(visitor.read_exactly(2), "hi");
  }
  EXPECT_EQ(counters_when([](const auto& c) { return c.accepted == 4; }).refused_dials, 2u);
}

TEST_F(ForwarderTest, NobodyReadyResetsTheVisitor) {
  ready({});
  start();
  EXPECT_EQ(visit().read_end(), End::kReset);
  ready({2, 3});  // both refuse
  eventually(5s, [&] { return log().find("ready replicas: r2 r3") != std::string::npos; });
  EXPECT_EQ(visit().read_end(), End::kReset);
  EXPECT_EQ(counters_when([](const auto& c) { return c.accepted == 2; }).no_replica, 2u);
}

TEST_F(ForwarderTest, ADialThatHangsIsNotTriedElsewhere) {
  TestListener two(net_.address(2), port_, /*backlog=*/0);
  TestListener three = replica(3);
  // Fills the backlog, so that further dials get no answer.
  std::vector<TestSocket> fill;
  for (int i = 0; i < 4; ++i)
    fill.push_back(TestSocket::dial_without_waiting(net_.address(2), port_));
  std::this_thread::sleep_for(50ms);
  ready({2, 3});
  start();
  EXPECT_EQ(visit().read_end(), End::kReset);
  EXPECT_FALSE(three.pending());
  EXPECT_EQ(counters_of_one().dial_failed, 1u);
}

TEST_F(ForwarderTest, AWrongEndpointsFileChangesNothing) {
  TestListener one = replica(2);
  ready({2});
  start();
  ASSERT_EQ(replace_file(options_.endpoints, "{\"ports\": [70000]", Durability::kVisible),
            std::nullopt);
  eventually(5s, [&] { return log().find("unusable") != std::string::npos; });
  EXPECT_THAT(log(), HasSubstr("endpoints file unusable"));
  TestSocket visitor = visit();
  EXPECT_TRUE(one.accept().valid());
}

TEST_F(ForwarderTest, APortThatIsTakenIsReportedAndTakenLater) {
  std::optional<TestListener> squatter(std::in_place, net_.address(1), port_);
  TestListener one = replica(2);
  ready({2});
  start();
  eventually(5s, [&] { return log().find("cannot listen on") != std::string::npos; });
  EXPECT_THAT(log(), HasSubstr("cannot listen on " + net_.address(1) + ":" + std::to_string(port_) +
                               ": Address already in use"));
  squatter.reset();
  EXPECT_TRUE(eventually(5s, [&] { return log().find("\nlistening on") != std::string::npos; }));
  TestSocket visitor = visit();
  EXPECT_TRUE(one.accept().valid());
}

TEST_F(ForwarderTest, ItsOwnDeathIsAResetForBothSides) {
  TestListener one = replica(2);
  ready({2});
  start();
  TestSocket visitor = visit();
  TestSocket upstream = one.accept();
  read_header(upstream);
  visitor.send_fin();
  EXPECT_EQ(upstream.read_end(), End::kFin);
  io_->stop();
  thread_.join();
  forwarder_.reset();
  io_.reset();
  EXPECT_EQ(visitor.read_end(), End::kReset);
}

TEST(EndpointsFile, RoundTripAndErrors) {
  const Endpoints endpoints{{7000, 8080}, {{"u1", "a", "127.0.0.2"}, {"u2", "b", "127.0.0.3"}}};
  std::string error;
  EXPECT_EQ(parse_endpoints(to_json(endpoints), error), endpoints);
  for (const char* bad : {"", "{}", "[]", R"({"ports":[0],"ready":[]})",
                          R"({"ports":[1,1],"ready":[]})", R"({"ports":[65537],"ready":[]})",
                          R"({"ports":["x"],"ready":[]})", R"({"ports":[1],"ready":[{}]})"}) {
    error.clear();
    EXPECT_EQ(parse_endpoints(bad, error), std::nullopt) << bad;
    EXPECT_FALSE(error.empty()) << bad;
  }
  ForwarderStatus status;
  status.listening = {7000};
  status.failed = {{8080, "taken"}};
  status.counters = {8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(parse_forwarder_status(to_json(status), error), status);
}

}  // namespace
}  // namespace fairlead::op
