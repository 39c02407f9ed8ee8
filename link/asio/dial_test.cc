#include "link/asio/dial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "link/asio/testing_rig.h"

namespace fairlead::link {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Recorder;
using testing::tcp;

class DialTest : public testing::AsioTest {
 protected:
  // A port on which nobody listens.
  static std::uint16_t free_port() {
    asio::io_context io;
    return tcp::acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0))
        .local_endpoint()
        .port();
  }
  Recorder client_;
};

TEST_F(DialTest, NameIsResolvedAndEveryAddressTried) {
  listen();
  DialOptions options = dial_options();
  options.host = "localhost";  // may be ::1 first, where nobody listens
  const auto link = dial_link(options, client_);
  ASSERT_TRUE(link) << dial_error_;
  EXPECT_EQ(link->remote(), listener_->endpoint());
}

TEST_F(DialTest, RefusedSaysWhere) {
  const std::uint16_t port = free_port();
  EXPECT_EQ(dial_link(dial_options(port), client_), nullptr);
  EXPECT_THAT(dial_error_, HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(dial_error_, HasSubstr("Connection refused"));
}

TEST_F(DialTest, UnknownNameSaysSo) {
  DialOptions options = dial_options(1);
  options.host = "no-such-host.invalid";
  options.timeout = seconds(3);
  EXPECT_EQ(dial_link(options, client_), nullptr);
  EXPECT_THAT(dial_error_, HasSubstr("cannot resolve no-such-host.invalid:1"));
}

TEST_F(DialTest, SilentServerEndsAtTheTimeout) {
  tcp::acceptor silent(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  DialOptions options = dial_options(silent.local_endpoint().port());
  options.timeout = milliseconds(400);
  const Instant begin = LinkSocket::now();
  EXPECT_EQ(dial_link(options, client_), nullptr);
  EXPECT_GT(LinkSocket::now() - begin, milliseconds(380));
  EXPECT_LT(LinkSocket::now() - begin, milliseconds(600));
  EXPECT_THAT(dial_error_, HasSubstr("in time"));
}

// A full backlog: SYNs are dropped, so even the connect never ends.
TEST_F(DialTest, ConnectThatNeverEndsIsBoundedToo) {
  tcp::acceptor full(io_);
  full.open(tcp::v4());
  full.bind(tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  full.listen(0);
  std::vector<tcp::socket> filling;
  for (int n = 0; n < 4; ++n) {
    filling.emplace_back(io_);
    filling.back().async_connect(full.local_endpoint(), [](boost::system::error_code) {});
  }
  run_for(milliseconds(50));
  DialOptions options = dial_options(full.local_endpoint().port());
  options.timeout = milliseconds(400);
  const Instant begin = LinkSocket::now();
  EXPECT_EQ(dial_link(options, client_), nullptr);
  EXPECT_LT(LinkSocket::now() - begin, milliseconds(600));
  EXPECT_THAT(dial_error_, HasSubstr("no answer in time"));
}

TEST_F(DialTest, PlainTextServerIsNamed) {
  tcp::acceptor acceptor(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  tcp::socket served(io_);
  acceptor.async_accept(served, [&](boost::system::error_code) {
    asio::write(served, asio::buffer(std::string_view("HTTP/1.1 400 Bad Request\r\n\r\n")));
  });
  EXPECT_EQ(dial_link(dial_options(acceptor.local_endpoint().port()), client_), nullptr);
  EXPECT_THAT(dial_error_, HasSubstr("not TLS"));
}

TEST_F(DialTest, WrongHostNameIsRefusedWithBothNames) {
  listen();
  DialOptions options = dial_options();
  options.policy.host = "relay.test";
  EXPECT_EQ(dial_link(options, client_), nullptr);
  EXPECT_THAT(dial_error_, HasSubstr("localhost"));
  EXPECT_THAT(dial_error_, HasSubstr("not for relay.test"));
}

TEST_F(DialTest, UriCheckReplacesTheHostName) {
  testing::TestLeaf leaf;
  leaf.uris = {"fairlead://c/r1"};
  ListenOptions serving = listen_options();
  serving.identity = authority_.identity(leaf);
  listen(serving);
  DialOptions options = dial_options();
  options.policy.check = require_uri("fairlead://c/r1");
  EXPECT_TRUE(dial_link(options, client_)) << dial_error_;
  options.policy.check = require_uri("fairlead://c/r2");
  EXPECT_EQ(dial_link(options, client_), nullptr);
  EXPECT_THAT(dial_error_, HasSubstr("not for fairlead://c/r2"));
}

TEST_F(DialTest, CancelledDialCallsNobody) {
  tcp::acceptor silent(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  for (const auto when : {milliseconds(0), milliseconds(50)}) {
    int calls = 0;
    const auto dialling =
        dial(io_, dial_options(silent.local_endpoint().port()),
             [&](const std::shared_ptr<LinkSocket>&, const std::string&) { ++calls; });
    run_for(when);
    dialling->cancel();
    run_for(milliseconds(50));
    EXPECT_EQ(calls, 0);
  }
}

}  // namespace
}  // namespace fairlead::link
