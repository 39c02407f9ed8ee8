#include "link/asio/link_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <boost/asio/post.hpp>
#include <random>
#include <thread>

#include "link/asio/testing_rig.h"

namespace fairlead::link {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Echo;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Recorder;
using ::testing::SizeIs;

class LinkSocketTest : public testing::AsioTest {
 protected:
  void listen_and_dial() {
    listen();
    link_ = dial_link(client_);
    ASSERT_TRUE(link_) << dial_error_;
    ASSERT_TRUE(run_until([this] { return client_.up && served_[0]->up; }));
  }
  SessionId open() {
    const OpenResult opened = link_->connection().open({}, LinkSocket::now());
    EXPECT_EQ(opened.error, OpenError::kNone);
    link_->wake();
    return opened.id;
  }
  // Text there and back, and the session's orderly end.
  void echo(SessionId id, std::string_view text) {
    link_->connection().write(id, Slice::copy_of(text));
    link_->connection().finish(id);
    link_->wake();
  }

  Recorder client_;
  std::shared_ptr<LinkSocket> link_;
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(Bytes bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  std::vector<unsigned char> finish() {
    std::vector<unsigned char> digest(EVP_MAX_MD_SIZE);
    unsigned size = 0;
    EVP_DigestFinal_ex(context_, digest.data(), &size);
    digest.resize(size);
    return digest;
  }

 private:
  EVP_MD_CTX* context_;
};

TEST_F(LinkSocketTest, SmallEcho) {
  listen_and_dial();
  const SessionId id = open();
  echo(id, "hello");
  ASSERT_TRUE(run_until([&] { return !client_.finished.empty(); }));
  EXPECT_EQ(client_.data[id], "hello");
  EXPECT_EQ(client_.up->peer.software, "test");
  EXPECT_GT(link_->connection().rtt_us(), 0u) << "the kernel's round trip";
}

// 100 MB up and the same bytes down, all within credit, with few system calls.
TEST_F(LinkSocketTest, HundredMegabytesBothWays) {
  constexpr std::uint64_t kTotal = 100'000'000;
  listen_and_dial();
  Sha256 sent, received;
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> block(8 * 1024);
  const SessionId id = open();
  const auto write_more = [&] {
    Connection& connection = link_->connection();
    while (sent_bytes < kTotal && connection.send_room(id) > 0) {
      for (std::uint64_t& word : block) word = random();
      const auto n = std::min({connection.send_room(id), kTotal - sent_bytes,
                               std::uint64_t{block.size() * sizeof block[0]}});
      const Bytes bytes = std::as_bytes(std::span(block)).first(n);
      sent.add(bytes);
      sent_bytes += n;
      connection.write(id, Slice::copy_of(bytes));
      if (sent_bytes == kTotal) connection.finish(id);
    }
  };
  client_.on = [&](LinkSocket& link, Event& event) {
    if (std::holds_alternative<event::Credit>(event) ||
        std::holds_alternative<event::Accepted>(event)) {
      write_more();
    } else if (auto* data = std::get_if<event::Data>(&event)) {
      received.add(data->bytes.bytes());
      received_bytes += data->bytes.size();
      link.connection().consume(id, data->bytes.size(), LinkSocket::now());
      data->bytes = {};
    }
  };
  ASSERT_TRUE(run_until([&] { return !client_.finished.empty(); }, seconds(120)))
      << sent_bytes << " sent, " << received_bytes << " received";
  EXPECT_EQ(received_bytes, kTotal);
  EXPECT_EQ(sent.finish(), received.finish());
  const SocketStats& stats = link_->socket_stats();
  RecordProperty("bytes_per_write", std::to_string(stats.bytes_out / stats.writes));
  EXPECT_GT(stats.bytes_out / stats.writes, 24'000u) << "more than one record a write";
}

TEST_F(LinkSocketTest, ManySessionsAtOnce) {
  listen_and_dial();
  std::map<SessionId, std::string> wanted;
  for (int n = 0; n < 200; ++n) {
    const SessionId id = open();
    wanted[id] = "session " + std::to_string(n);
    echo(id, wanted[id]);
  }
  ASSERT_TRUE(run_until([&] { return client_.finished.size() == wanted.size(); }));
  EXPECT_EQ(client_.data, wanted);
}

// Commands given from another thread by post(), and nothing else: the rule of this library.
TEST_F(LinkSocketTest, ForeignThreadPosts) {
  listen_and_dial();
  constexpr std::size_t kSessions = 300;
  std::thread foreign([&] {
    for (std::size_t n = 0; n < kSessions; ++n) {
      asio::post(io_, [&] { echo(open(), "from afar"); });
    }
  });
  EXPECT_TRUE(run_until([&] { return client_.finished.size() == kSessions; }));
  foreign.join();
  for (const auto& [id, text] : client_.data) EXPECT_EQ(text, "from afar");
}

// --- ends ---

TEST_F(LinkSocketTest, CloseDeliversEverythingQueued) {
  listen_and_dial();
  const std::string floor(kFloorWindow, 'x');
  constexpr std::size_t kSessions = 30;
  for (std::size_t n = 0; n < kSessions; ++n) echo(open(), floor);
  link_->connection().close(code::kOk, "bye", LinkSocket::now());
  link_->wake();
  ASSERT_TRUE(run_until([&] { return served_[0]->socket_closed && client_.socket_closed; }));
  EXPECT_THAT(served_[0]->finished, SizeIs(kSessions));
  EXPECT_EQ(served_[0]->cut->kind, CutKind::kPeerClosed);
  EXPECT_EQ(served_[0]->cut->text, "bye");
  EXPECT_EQ(client_.cut->kind, CutKind::kClosed);
}

TEST_F(LinkSocketTest, CloseEndsWithinASecondAndAHalfWhenThePeerStays) {
  listen();
  testing::RawPeer peer = raw_client();
  ASSERT_TRUE(run_until([&] { return !served_links_.empty(); }));
  const Instant begin = LinkSocket::now();
  served_links_[0]->connection().close(code::kOk, "bye", begin);
  served_links_[0]->wake();
  ASSERT_TRUE(run_until([&] { return served_[0]->socket_closed; }));
  EXPECT_LT(LinkSocket::now() - begin, milliseconds(1500));
  EXPECT_GT(LinkSocket::now() - begin, milliseconds(900)) << "it waited for the peer's FIN";
}

TEST_F(LinkSocketTest, AbortIsSeenAsTransportAndNeverAsAnEnd) {
  listen_and_dial();
  const SessionId id = open();
  link_->connection().write(id, Slice::copy_of("half a"));
  link_->wake();
  ASSERT_TRUE(
      run_until([&] { return served_[0]->data[id] == "half a" || !served_[0]->opened.empty(); }));
  link_->abort("pulled");
  ASSERT_TRUE(run_until([&] { return served_[0]->socket_closed && client_.socket_closed; }));
  EXPECT_EQ(served_[0]->cut->kind, CutKind::kTransport);
  EXPECT_THAT(served_[0]->cut->text, HasSubstr("reset by peer"));
  EXPECT_THAT(served_[0]->cut_sessions, ElementsAre(id));
  EXPECT_THAT(served_[0]->finished, IsEmpty());
  EXPECT_EQ(client_.cut->text, "pulled");
}

TEST_F(LinkSocketTest, FinWithoutCloseIsACut) {
  listen();
  testing::RawPeer peer = raw_client();
  ASSERT_TRUE(run_until([&] { return !served_links_.empty(); }));
  peer.channel->socket.shutdown(testing::tcp::socket::shutdown_send);
  ASSERT_TRUE(run_until([&] { return served_[0]->socket_closed; }));
  EXPECT_EQ(served_[0]->cut->kind, CutKind::kEnded);
  EXPECT_THAT(served_[0]->cut->text, HasSubstr("FIN"));
}

TEST_F(LinkSocketTest, CloseNotifyWithoutCloseIsACutAtOnce) {
  listen();
  testing::RawPeer peer = raw_client();
  ASSERT_TRUE(run_until([&] { return !served_links_.empty(); }));
  std::vector<std::byte> out;
  peer.channel->engine->close_notify(out);
  peer.send(out);  // and no FIN
  ASSERT_TRUE(run_until([&] { return served_[0]->socket_closed; }, seconds(2)));
  EXPECT_EQ(served_[0]->cut->kind, CutKind::kEnded);
  EXPECT_THAT(served_[0]->cut->text, HasSubstr("close_notify"));
}

TEST_F(LinkSocketTest, BrokenRecordIsATransportCut) {
  listen();
  testing::RawPeer peer = raw_client();
  ASSERT_TRUE(run_until([&] { return !served_links_.empty(); }));
  peer.send(testing::raw(std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x')));
  ASSERT_TRUE(run_until([&] { return served_[0]->socket_closed; }, seconds(2)));
  EXPECT_EQ(served_[0]->cut->kind, CutKind::kTransport);
}

TEST_F(LinkSocketTest, PlainGarbageInsideTlsIsAProtocolError) {
  listen();
  testing::RawPeer peer = raw_client();
  ASSERT_TRUE(run_until([&] { return !served_links_.empty(); }));
  peer.send_plain(as_bytes("GET / HTTP/1.1\r\nHost: inside-tls\r\n\r\n"));
  ASSERT_TRUE(run_until([&] { return served_[0]->cut.has_value(); }, seconds(2)));
  EXPECT_EQ(served_[0]->cut->kind, CutKind::kProtocolError);
}

TEST_F(LinkSocketTest, SilenceAfterTlsEndsAtTheHelloTimeout) {
  listen();
  testing::RawPeer peer = raw_client();
  ASSERT_TRUE(run_until([&] { return !served_links_.empty(); }));
  const Instant begin = LinkSocket::now();
  ASSERT_TRUE(run_until([&] { return served_[0]->cut.has_value(); }, seconds(12)));
  EXPECT_NEAR(std::chrono::duration<double>(LinkSocket::now() - begin).count(), 10.0, 0.3);
}

TEST_F(LinkSocketTest, HandlerTakenAwayIsNotCalled) {
  listen_and_dial();
  auto handler = std::make_unique<Recorder>();
  link_->set_handler(handler.get());
  link_->set_handler(nullptr);
  handler.reset();
  echo(open(), "to nobody");
  link_->abort("gone");
  EXPECT_TRUE(run_until([&] { return served_[0]->socket_closed; }));
}

TEST_F(LinkSocketTest, DroppedWithoutStartClosesTheSocket) {
  listen();
  bool done = false;
  dial(io_, dial_options(), [&](const std::shared_ptr<LinkSocket>& link, const std::string&) {
    EXPECT_TRUE(link);
    done = true;
  });
  ASSERT_TRUE(run_until([&] { return done && !served_.empty() && served_[0]->socket_closed; }));
  EXPECT_EQ(served_[0]->cut->kind, CutKind::kEnded);
}

// --- liveness ---

constexpr Liveness kShort{milliseconds(1000), milliseconds(2000)};

class DeadPeerTest : public LinkSocketTest, public ::testing::WithParamInterface<bool> {};

// Both ends find that the other fell silent, within -0.05/+0.25 s of the bound after the last byte.
TEST_P(DeadPeerTest, IsFoundWithinTheBound) {
  const bool loaded = GetParam();
  listen();
  testing::Blackhole hole(io_, listener_->endpoint().port());
  DialOptions options = dial_options(hole.port());
  options.config.liveness = kShort;
  link_ = dial_link(options, client_);
  ASSERT_TRUE(link_) << dial_error_;
  ASSERT_TRUE(run_until([&] { return client_.up && !served_.empty() && served_[0]->up; }));
  if (loaded) {
    const SessionId id = open();
    const std::string block(64 * 1024, 'x');
    client_.on = [this, id, block](LinkSocket& link, Event& event) {
      Connection& connection = link.connection();
      if (auto* data = std::get_if<event::Data>(&event)) {
        connection.consume(id, data->bytes.size(), LinkSocket::now());
        data->bytes = {};
      }
      const auto room = connection.send_room(id);
      if (room > 0) {
        connection.write(id, Slice::copy_of(as_bytes(block).first(std::min(room, block.size()))));
      }
    };
    link_->connection().write(id, Slice::copy_of("go"));
    link_->wake();
  }
  run_for(milliseconds(700));
  hole.fall_silent();
  ASSERT_TRUE(run_until([&] { return client_.cut && served_[0]->cut; }, seconds(6)));
  const auto after = [](Instant at, Instant last) {
    return std::chrono::duration<double>(at - last).count();
  };
  EXPECT_EQ(client_.cut->kind, CutKind::kDeadPeer) << to_string(*client_.cut);
  EXPECT_EQ(served_[0]->cut->kind, CutKind::kDeadPeer) << to_string(*served_[0]->cut);
  EXPECT_GT(after(client_.cut_at, hole.last_to_dialer()), 2.95);
  EXPECT_LT(after(client_.cut_at, hole.last_to_dialer()), 3.25);
  EXPECT_GT(after(served_[0]->cut_at, hole.last_to_listener()), 2.95);
  EXPECT_LT(after(served_[0]->cut_at, hole.last_to_listener()), 3.25);
}

INSTANTIATE_TEST_SUITE_P(Load, DeadPeerTest, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "Loaded" : "Idle"; });

TEST_F(LinkSocketTest, IdleLinkLivesPastTheBound) {
  listen();
  DialOptions options = dial_options();
  options.config.liveness = kShort;
  link_ = dial_link(options, client_);
  ASSERT_TRUE(link_);
  run_for(milliseconds(4500));
  EXPECT_FALSE(client_.cut) << to_string(*client_.cut);
  EXPECT_FALSE(served_[0]->cut);
}

// A process that was stopped past the deadline finds bytes in its socket: the peer lives.
TEST_F(LinkSocketTest, HeldUpProcessReadsBeforeItJudges) {
  listen();
  testing::RawPeer peer = raw_client();
  ASSERT_TRUE(run_until([&] { return !served_links_.empty(); }));
  Config config;
  config.liveness = kShort;
  Connection by_hand(config, LinkSocket::now());
  std::array<std::byte, 16384> out{};
  peer.send_plain(Bytes(out).first(by_hand.produce(out, LinkSocket::now())));
  ASSERT_TRUE(run_until([&] { return served_[0]->up.has_value(); }));
  const Instant up_at = LinkSocket::now();
  // Held up until after dead_at; meanwhile a frame arrives.
  const OpenResult opened = by_hand.open({}, LinkSocket::now());
  EXPECT_EQ(opened.error, OpenError::kNone);
  peer.send_plain(Bytes(out).first(by_hand.produce(out, LinkSocket::now())));
  std::this_thread::sleep_until(up_at + kShort.bound() + milliseconds(300));
  run_for(milliseconds(300));
  EXPECT_FALSE(served_[0]->cut) << to_string(*served_[0]->cut);
  EXPECT_THAT(served_[0]->opened, ElementsAre(opened.id));
}

// --- who the peer is ---

class MutualLinkTest : public LinkSocketTest {
 protected:
  void listen_mutual(const std::string& uri) {
    ListenOptions options = listen_options();
    options.policy = {ClientCertificate::kRequired, require_uri(uri)};
    listen(options);
  }
  DialOptions as(const std::string& uri) {
    DialOptions options = dial_options();
    testing::TestLeaf leaf;
    leaf.uris = {uri};
    options.identity = authority_.identity(leaf);
    return options;
  }
};

TEST_F(MutualLinkTest, BothEndsReadTheOthersCertificate) {
  listen_mutual("fairlead://c/r1");
  DialOptions options = as("fairlead://c/r1");
  link_ = dial_link(options, client_);
  ASSERT_TRUE(link_) << dial_error_;
  ASSERT_TRUE(run_until([&] { return client_.up.has_value(); }));
  EXPECT_THAT(served_links_[0]->peer().uris, ElementsAre("fairlead://c/r1"));
  EXPECT_EQ(served_links_[0]->peer().serial, options.identity->serial());
  EXPECT_EQ(link_->peer().serial, identity_->serial());
}

TEST_F(MutualLinkTest, WrongUriIsRefusedOnBothEndsWithWords) {
  listen_mutual("fairlead://c/r1");
  link_ = dial_link(as("fairlead://c/r2"), client_);
  // With TLS 1.3 a client may learn of it after its handshake: then the link is cut before Up.
  ASSERT_TRUE(run_until([&] { return !link_ || client_.socket_closed; }));
  const std::string words = link_ ? client_.cut->text : dial_error_;
  EXPECT_THAT(words, HasSubstr("does not accept this side's certificate"));
  EXPECT_FALSE(client_.up);
  ASSERT_THAT(failures_, SizeIs(1));
  EXPECT_EQ(failures_[0].cause, "certificate");
  EXPECT_THAT(failures_[0].text, HasSubstr("not for fairlead://c/r1"));
  EXPECT_THAT(served_, IsEmpty());
}

}  // namespace
}  // namespace fairlead::link
