#include "link/asio/testing_rig.h"

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace fairlead::link::testing {

namespace asio = boost::asio;
using boost::system::error_code;

void Recorder::on_event(LinkSocket& link, Event&& event) {
  if (on) on(link, event);
  if (auto* is_up = std::get_if<event::Up>(&event)) up = *is_up;
  if (auto* open = std::get_if<event::Opened>(&event)) opened.push_back(open->id);
  if (auto* bytes = std::get_if<event::Data>(&event)) data[bytes->id] += bytes->bytes.text();
  if (auto* end = std::get_if<event::Finished>(&event)) finished.push_back(end->id);
  if (auto* lost = std::get_if<event::SessionCut>(&event)) cut_sessions.push_back(lost->id);
  if (auto* closed = std::get_if<event::Closed>(&event)) {
    cut = closed->cut;
    cut_at = LinkSocket::now();
  }
}

Echo::Echo() {
  on = [this](LinkSocket& link, Event& event) {
    Connection& connection = link.connection();
    const Instant now = LinkSocket::now();
    if (auto* open = std::get_if<event::Opened>(&event)) {
      connection.accept(open->id, {}, 0, now);
    } else if (auto* bytes = std::get_if<event::Data>(&event)) {
      owed_[bytes->id] += bytes->bytes.size();
      connection.write(bytes->id, std::exchange(bytes->bytes, {}));
      give_credit(link, bytes->id);
    } else if (auto* credit = std::get_if<event::Credit>(&event)) {
      give_credit(link, credit->id);
    } else if (auto* end = std::get_if<event::Finished>(&event)) {
      connection.finish(end->id);
    } else if (auto* retired = std::get_if<event::Retired>(&event)) {
      owed_.erase(retired->id);
      connection.release(retired->id, now);
    }
  };
}

void Echo::give_credit(LinkSocket& link, SessionId id) {
  std::uint64_t& owed = owed_[id];
  const std::uint64_t queued = link.connection().queued(id);
  if (owed <= queued) return;
  link.connection().consume(id, owed - queued, LinkSocket::now());
  owed = queued;
}

void RawPeer::send(Bytes ciphertext) {
  error_code ignored;
  asio::write(channel->socket, asio::buffer(ciphertext.data(), ciphertext.size()), ignored);
}

void RawPeer::send_plain(Bytes plain) {
  std::vector<std::byte> out;
  ASSERT_TRUE(channel->engine->write(plain, out));
  send(out);
}

bool AsioTest::run_until(const std::function<bool()>& done, Duration most) {
  const Instant deadline = LinkSocket::now() + most;
  io_.restart();
  while (!done()) {
    if (LinkSocket::now() >= deadline) return false;
    io_.run_one_for(std::chrono::milliseconds(5));
    if (io_.stopped()) io_.restart();
  }
  return true;
}

void AsioTest::run_for(Duration time) {
  run_until([] { return false; }, time);
}

ListenOptions AsioTest::listen_options() const {
  ListenOptions options;
  options.endpoint = tcp::endpoint(asio::ip::address_v4::loopback(), 0);
  options.identity = identity_;
  options.config.side = Side::kListener;
  options.config.software = "test";
  return options;
}

void AsioTest::listen(ListenOptions options) {
  std::string error;
  listener_ = LinkListener::listen(
      io_, std::move(options),
      [this](std::shared_ptr<LinkSocket> link) {
        served_.push_back(std::make_unique<Echo>());
        link->start(served_.back().get());
        served_links_.push_back(std::move(link));
      },
      [this](const AcceptFailure& failure) { failures_.push_back(failure); }, error);
  ASSERT_TRUE(listener_) << error;
}

DialOptions AsioTest::dial_options() const {
  return dial_options(listener_->endpoint().port());
}

DialOptions AsioTest::dial_options(std::uint16_t port) const {
  DialOptions options;
  options.host = "127.0.0.1";
  options.port = std::to_string(port);
  options.identity = identity_;
  options.config.software = "test";
  return options;
}

std::shared_ptr<LinkSocket> AsioTest::dial_link(DialOptions options, LinkHandler& handler) {
  std::shared_ptr<LinkSocket> link;
  bool done = false;
  dial(io_, std::move(options), [&](std::shared_ptr<LinkSocket> made, std::string error) {
    link = std::move(made);
    dial_error_ = std::move(error);
    done = true;
  });
  EXPECT_TRUE(run_until([&] { return done; }, std::chrono::seconds(15)));
  if (link) link->start(&handler);
  return link;
}

tcp::socket AsioTest::connect() {
  tcp::socket socket(io_);
  socket.connect(listener_->endpoint());
  return socket;
}

RawPeer AsioTest::raw_client() {
  RawPeer peer;
  std::string error;
  bool done = false;
  TlsClientPolicy policy;
  policy.host = "localhost";
  auto engine = TlsEngine::client(*identity_, policy, error);
  EXPECT_TRUE(engine) << error;
  const auto handshake =
      std::make_shared<Handshake>(connect(), std::move(engine), nullptr, nullptr,
                                  [&](std::unique_ptr<TlsChannel> channel, const TlsFailure& why) {
                                    EXPECT_TRUE(channel) << why.text;
                                    peer.channel = std::move(channel);
                                    done = true;
                                  });
  handshake->run(LinkSocket::now() + std::chrono::seconds(5));
  EXPECT_TRUE(run_until([&] { return done; }));
  return peer;
}

Blackhole::Blackhole(asio::io_context& io, std::uint16_t to_port)
    : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
      dialer_(io),
      listener_(io) {
  for (auto& buffer : buffers_) buffer.resize(64 * 1024);
  acceptor_.async_accept(dialer_, [this, to_port](error_code error) {
    if (error) return;
    listener_.connect(tcp::endpoint(asio::ip::address_v4::loopback(), to_port));
    forward(0);
    forward(1);
  });
}

// Direction 0 goes to the dialer.
void Blackhole::forward(int direction) {
  const auto index = static_cast<std::size_t>(direction);
  tcp::socket& from = direction == 0 ? listener_ : dialer_;
  tcp::socket& to = direction == 0 ? dialer_ : listener_;
  from.async_read_some(asio::buffer(buffers_[index]),
                       [this, direction, index, &to](error_code error, std::size_t n) {
                         if (silent_) return;
                         if (error) {
                           error_code ignored;
                           to.shutdown(tcp::socket::shutdown_send, ignored);
                           return;
                         }
                         // Stamped before the write: the bytes arrive no earlier.
                         last_[index] = LinkSocket::now();
                         asio::async_write(to, asio::buffer(buffers_[index].data(), n),
                                           [this, direction](error_code failed, std::size_t) {
                                             if (!failed && !silent_) forward(direction);
                                           });
                       });
}

std::vector<std::byte> client_hello(int version, std::string_view alpn) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(context, version);
  SSL* ssl = SSL_new(context);
  SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(alpn.data()),
                      static_cast<unsigned>(alpn.size()));
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
  SSL_connect(ssl);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  std::vector<std::byte> hello = raw({bytes, static_cast<std::size_t>(size)});
  SSL_free(ssl);
  SSL_CTX_free(context);
  return hello;
}

}  // namespace fairlead::link::testing
