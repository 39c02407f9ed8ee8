// What the tests of the driver share: an io_context that runs until something is true, handlers
// that record, and peers that do what no LinkSocket does. Everything is on 127.0.0.1 and bounded in
// time.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "link/asio/asio_pool.h"
#include "link/asio/dial.h"
#include "link/asio/link_listener.h"
#include "link/asio/link_socket.h"
#include "link/asio/testing_certificates.h"

namespace fairlead::link::testing {

using boost::asio::ip::tcp;

// Keeps what happened on one link. `on` sees every event first.
class Recorder : public LinkHandler {
 public:
  void on_event(LinkSocket& link, Event&& event) override;
  void on_closed(LinkSocket&) override { socket_closed = true; }

  std::function<void(LinkSocket&, Event&)> on;
  std::map<SessionId, std::string> data;
  std::vector<SessionId> opened, finished, cut_sessions;
  std::optional<event::Up> up;
  std::optional<Cut> cut;
  bool socket_closed = false;
  Instant cut_at{};
};

// Accepts every session and sends its bytes back; ends its half when the peer ended its own. Keeps
// within the peer's credit: bytes are consumed only when they are on their way back.
class Echo : public Recorder {
 public:
  Echo();

 private:
  void give_credit(LinkSocket& link, SessionId id);
  std::unordered_map<SessionId, std::uint64_t> owed_;  // received and not consumed
};

// The other end of a link by hand: TLS and a socket, no core.
struct RawPeer {
  std::unique_ptr<TlsChannel> channel;
  void send(Bytes ciphertext);
  void send_plain(Bytes plain);
};

class AsioTest : public ::testing::Test {
 protected:
  AsioTest() : identity_(authority_.localhost()) {}

  // Runs the io_context until `done` or the time is over; false then.
  bool run_until(const std::function<bool()>& done, Duration most = std::chrono::seconds(10));
  void run_for(Duration time);

  ListenOptions listen_options() const;
  // Accepted links are started with an Echo of their own and kept in `served_`.
  void listen(ListenOptions options);
  void listen() { listen(listen_options()); }
  DialOptions dial_options() const;
  DialOptions dial_options(std::uint16_t port) const;
  // A started link to the listener; null and `dial_error_` when it failed.
  std::shared_ptr<LinkSocket> dial_link(DialOptions options, LinkHandler& handler);
  std::shared_ptr<LinkSocket> dial_link(LinkHandler& handler) {
    return dial_link(dial_options(), handler);
  }
  // TLS as a client would do it, then nothing.
  RawPeer raw_client();
  // A TCP connection to the listener.
  tcp::socket connect();

  boost::asio::io_context io_;
  TestAuthority authority_;
  std::shared_ptr<TlsIdentity> identity_;
  std::shared_ptr<LinkListener> listener_;
  std::vector<std::unique_ptr<Echo>> served_;
  std::vector<std::shared_ptr<LinkSocket>> served_links_;
  std::vector<AcceptFailure> failures_;
  std::string dial_error_;
};

// A TCP forwarder for one connection that can fall silent, as a cable that was pulled.
class Blackhole {
 public:
  Blackhole(boost::asio::io_context& io, std::uint16_t to_port);
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  // From now on nothing is read or forwarded, and nothing is closed.
  void fall_silent() { silent_ = true; }
  // When bytes were last handed to that end.
  Instant last_to_dialer() const { return last_[0]; }
  Instant last_to_listener() const { return last_[1]; }

 private:
  void forward(int direction);

  tcp::acceptor acceptor_;
  tcp::socket dialer_, listener_;
  std::array<std::vector<std::byte>, 2> buffers_;
  std::array<Instant, 2> last_{};
  bool silent_ = false;
};

// The first bytes of an OpenSSL client that offers `alpn` (wire form, may be empty) and at most
// `version`.
std::vector<std::byte> client_hello(int version, std::string_view alpn);

inline std::vector<std::byte> raw(std::string_view text) {
  const Bytes bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

}  // namespace fairlead::link::testing
