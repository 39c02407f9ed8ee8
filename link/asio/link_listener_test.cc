#include "link/asio/link_listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
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
using ::testing::SizeIs;
using testing::tcp;

class ListenerTest : public testing::AsioTest {
 protected:
  // A second is enough for every honest handshake here.
  ListenOptions quick_options() const {
    ListenOptions options = listen_options();
    options.handshake_timeout = milliseconds(500);
    return options;
  }
  // Whether the listener ends this connection within `most`; what it says first is dropped.
  bool closed_by_listener(tcp::socket& socket, Duration most = seconds(3)) {
    bool over = false;
    std::array<std::byte, 4096> sink{};
    std::function<void()> read = [&] {
      socket.async_read_some(asio::buffer(sink), [&](boost::system::error_code error, std::size_t) {
        if (error) {
          over = true;
        } else {
          read();
        }
      });
    };
    read();
    const bool result = run_until([&] { return over; }, most);
    boost::system::error_code ignored;
    socket.close(ignored);
    run_until([&] { return over; }, seconds(1));
    return result;
  }
  void expect_still_serving() {
    Recorder client;
    const auto link = dial_link(client);
    ASSERT_TRUE(link) << dial_error_;
    EXPECT_TRUE(run_until([&] { return client.up.has_value(); }));
  }
};

struct Stranger {
  const char* name;
  std::vector<std::byte> bytes;
  std::string_view cause;
};

class StrangerTest : public ListenerTest, public ::testing::WithParamInterface<Stranger> {};

TEST_P(StrangerTest, IsClosedWithOneReportAndHarmsNobody) {
  listen(quick_options());
  Recorder bystander;
  const auto link = dial_link(bystander);
  ASSERT_TRUE(link);
  tcp::socket stranger = connect();
  const tcp::endpoint from = stranger.local_endpoint();
  asio::write(stranger, asio::buffer(GetParam().bytes));
  EXPECT_TRUE(closed_by_listener(stranger));
  run_for(milliseconds(50));
  ASSERT_THAT(failures_, SizeIs(1));
  EXPECT_EQ(failures_[0].cause, GetParam().cause) << failures_[0].text;
  EXPECT_EQ(failures_[0].source, from);
  EXPECT_FALSE(failures_[0].text.empty());
  EXPECT_FALSE(bystander.cut);
  expect_still_serving();
}

INSTANTIATE_TEST_SUITE_P(
    Table, StrangerTest,
    ::testing::Values(
        Stranger{"Silence", {}, "timeout"},
        Stranger{"HalfARecord", testing::raw(std::string("\x16\x03\x01\x02", 4)), "timeout"},
        Stranger{"Garbage", testing::raw("\x01\x02\x03 garbage garbage garbage"), "not-tls"},
        Stranger{"HttpRequest", testing::raw("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "not-tls"},
        Stranger{"NoAlpn", testing::client_hello(TLS1_3_VERSION, ""), "no-alpn"},
        Stranger{"OtherAlpn", testing::client_hello(TLS1_3_VERSION, "\x02h2"), "no-alpn"},
        Stranger{"OldTls", testing::client_hello(TLS1_2_VERSION, "\x06link/1"), "version"},
        Stranger{"HelloAndNothingMore", testing::client_hello(TLS1_3_VERSION, "\x06link/1"),
                 "timeout"}),
    [](const auto& each) { return each.param.name; });

// A byte now and then keeps nothing open past the deadline.
TEST_F(ListenerTest, SlowDripEndsAtTheDeadline) {
  listen(quick_options());
  tcp::socket stranger = connect();
  const std::vector<std::byte> hello = testing::client_hello(TLS1_3_VERSION, "\x06link/1");
  const Instant begin = LinkSocket::now();
  for (std::size_t n = 0; failures_.empty() && n < hello.size(); ++n) {
    boost::system::error_code ignored;
    asio::write(stranger, asio::buffer(&hello[n], 1), ignored);
    run_for(milliseconds(20));
  }
  ASSERT_THAT(failures_, SizeIs(1));
  EXPECT_EQ(failures_[0].cause, "timeout");
  EXPECT_LT(LinkSocket::now() - begin, milliseconds(800));
}

TEST_F(ListenerTest, DefaultDeadlineIsTenSeconds) {
  listen();
  tcp::socket stranger = connect();
  const Instant begin = LinkSocket::now();
  ASSERT_TRUE(run_until([&] { return !failures_.empty(); }, seconds(12)));
  EXPECT_NEAR(std::chrono::duration<double>(LinkSocket::now() - begin).count(), 10.0, 0.3);
}

TEST_F(ListenerTest, PeerThatLeavesDuringTheHandshakeIsReportedOnce) {
  listen();
  for (const bool with_reset : {false, true}) {
    failures_.clear();
    tcp::socket stranger = connect();
    asio::write(stranger, asio::buffer("\x16\x03", 2));
    if (with_reset) stranger.set_option(asio::socket_base::linger(true, 0));
    stranger.close();
    ASSERT_TRUE(run_until([&] { return !failures_.empty(); }));
    run_for(milliseconds(50));
    ASSERT_THAT(failures_, SizeIs(1));
    EXPECT_EQ(failures_[0].cause, "closed");
  }
}

TEST_F(ListenerTest, HandshakesAboveTheCapWaitAndAreServed) {
  ListenOptions options = quick_options();
  options.max_handshakes = 2;
  listen(options);
  tcp::socket first = connect();
  tcp::socket second = connect();
  run_for(milliseconds(50));
  Recorder client;
  const Instant begin = LinkSocket::now();
  const auto link = dial_link(client);
  ASSERT_TRUE(link) << dial_error_;
  EXPECT_GT(LinkSocket::now() - begin, milliseconds(300)) << "it waited for a slot";
  EXPECT_THAT(failures_, SizeIs(2));
}

TEST_F(ListenerTest, ReplacedIdentityServesNewLinksAndKeepsOldOnes) {
  listen();
  Recorder before, after;
  const auto first = dial_link(before);
  ASSERT_TRUE(first);
  std::string error;
  testing::TestLeaf leaf;
  leaf.ips = {"127.0.0.1"};
  ASSERT_TRUE(identity_->replace(authority_.issue(leaf), error)) << error;
  const auto second = dial_link(after);
  ASSERT_TRUE(second) << dial_error_;
  EXPECT_EQ(second->peer().serial, identity_->serial());
  EXPECT_NE(second->peer().serial, first->peer().serial);
  EXPECT_TRUE(run_until([&] { return before.up && after.up; }));
  EXPECT_FALSE(before.cut);
}

// --- before TLS ---

// "FROM <port>\n" instead of a PROXY header: as simple, and as easy to get wrong.
PreTlsResult take_line(Bytes so_far, const tcp::endpoint&) {
  PreTlsResult result;
  const std::string_view text = as_text(so_far);
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) {
    result.verdict = PreTlsResult::Verdict::kMore;
    return result;
  }
  if (!text.starts_with("FROM ")) {
    result.verdict = PreTlsResult::Verdict::kRefused;
    result.text = "no FROM line";
    return result;
  }
  result.consumed = end + 1;
  result.source = tcp::endpoint(asio::ip::make_address("192.0.2.7"),
                                static_cast<std::uint16_t>(std::stoi(std::string(text.substr(5)))));
  return result;
}

class PreTlsTest : public ListenerTest {
 protected:
  PreTlsTest() {
    ListenOptions options = quick_options();
    options.pre_tls = take_line;
    listen(options);
  }
  // Says `line` in pieces, then does a client's handshake.
  std::unique_ptr<TlsChannel> handshake_after(std::string_view line, std::size_t piece) {
    tcp::socket socket = connect();
    for (std::size_t at = 0; at < line.size(); at += piece) {
      asio::write(socket, asio::buffer(line.substr(at, piece)));
      run_for(milliseconds(5));
    }
    std::unique_ptr<TlsChannel> result;
    bool done = false;
    std::string error;
    TlsClientPolicy policy;
    policy.host = "localhost";
    const auto handshake = std::make_shared<Handshake>(
        std::move(socket), TlsEngine::client(*identity_, policy, error), nullptr, nullptr,
        [&](std::unique_ptr<TlsChannel> channel, const TlsFailure&) {
          result = std::move(channel);
          done = true;
        });
    handshake->run(LinkSocket::now() + seconds(3));
    EXPECT_TRUE(run_until([&] { return done && (!served_links_.empty() || !failures_.empty()); }));
    return result;
  }
};

TEST_F(PreTlsTest, HeaderIsTakenOffAndNamesTheSource) {
  for (const std::size_t piece : {1u, 3u, 100u}) {
    served_links_.clear();
    const auto channel = handshake_after("FROM 4242\n", piece);
    ASSERT_TRUE(channel);
    ASSERT_THAT(served_links_, SizeIs(1));
    EXPECT_EQ(served_links_[0]->source().port(), 4242);
    EXPECT_EQ(served_links_[0]->source().address().to_string(), "192.0.2.7");
    EXPECT_EQ(served_links_[0]->remote().address().to_string(), "127.0.0.1");
  }
}

TEST_F(PreTlsTest, RefusalIsReported) {
  tcp::socket socket = connect();
  asio::write(socket, asio::buffer(std::string_view("hello\n")));
  EXPECT_TRUE(closed_by_listener(socket));
  ASSERT_THAT(failures_, SizeIs(1));
  EXPECT_EQ(failures_[0].cause, "pre-tls");
  EXPECT_EQ(failures_[0].text, "no FROM line");
}

TEST_F(PreTlsTest, EndlessHeaderIsRefused) {
  tcp::socket socket = connect();
  asio::write(socket, asio::buffer(std::string(kMaxPreTls + 1, 'x')));
  EXPECT_TRUE(closed_by_listener(socket));
  ASSERT_THAT(failures_, SizeIs(1));
  EXPECT_EQ(failures_[0].cause, "pre-tls");
  EXPECT_THAT(failures_[0].text, HasSubstr("4096"));
}

TEST_F(PreTlsTest, SilenceIsBoundedByTheSameDeadline) {
  tcp::socket socket = connect();
  EXPECT_TRUE(closed_by_listener(socket));
  ASSERT_THAT(failures_, SizeIs(1));
  EXPECT_EQ(failures_[0].cause, "timeout");
}

// --- the listener's own ends ---

TEST_F(ListenerTest, StopTakesTheBacklogAndRefusesTheRest) {
  listen();
  tcp::socket waiting = connect();  // in the backlog: nothing ran yet
  listener_->stop();
  asio::write(waiting, asio::buffer(std::string_view("GET / HTTP/1.1\r\n\r\n")));
  ASSERT_TRUE(run_until([&] { return !failures_.empty(); }));
  EXPECT_EQ(failures_[0].cause, "not-tls") << "it was accepted";
  tcp::socket late(io_);
  boost::system::error_code error;
  late.connect(listener_->endpoint(), error);
  EXPECT_EQ(error, asio::error::connection_refused);
}

TEST_F(ListenerTest, CloseDropsHandshakesWithoutACall) {
  listen();
  tcp::socket waiting = connect();
  run_for(milliseconds(30));
  listener_->close();
  EXPECT_TRUE(closed_by_listener(waiting, seconds(1)));
  EXPECT_THAT(failures_, IsEmpty());
}

TEST_F(ListenerTest, EndpointInUseIsAnErrorWithItsName) {
  listen();
  ListenOptions options = listen_options();
  options.endpoint = listener_->endpoint();
  std::string error;
  EXPECT_EQ(LinkListener::listen(io_, options, nullptr, nullptr, error), nullptr);
  EXPECT_THAT(error, HasSubstr("127.0.0.1:" + std::to_string(options.endpoint.port())));
  EXPECT_THAT(error, HasSubstr("Address already in use"));
}

TEST_F(ListenerTest, IdentityThatDoesNotFitIsAnErrorAtOnce) {
  ListenOptions options = listen_options();
  options.identity = authority_.trusting();
  std::string error;
  EXPECT_EQ(LinkListener::listen(io_, options, nullptr, nullptr, error), nullptr);
  EXPECT_THAT(error, HasSubstr("certificate and a key"));
}

// Out of descriptors: said, retried, and served again when there are some.
TEST_F(ListenerTest, OutOfDescriptorsIsRetried) {
  listen();
  tcp::socket waiting = connect();
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  run_for(milliseconds(350));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_GE(failures_.size(), 2u);
  EXPECT_LE(failures_.size(), 5u) << "not in a tight loop";
  for (const AcceptFailure& failure : failures_) EXPECT_EQ(failure.cause, "accept");
  failures_.clear();
  asio::write(waiting, asio::buffer(std::string_view("GET / HTTP/1.1\r\n\r\n")));
  ASSERT_TRUE(run_until([&] { return !failures_.empty(); }));
  EXPECT_EQ(failures_[0].cause, "not-tls");
}

}  // namespace
}  // namespace fairlead::link
