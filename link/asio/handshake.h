// The way from a connected TCP socket to a TLS channel that a link can run over.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "link/asio/tls.h"

namespace fairlead::link {

// What a hook found at the start of a connection, before TLS.
struct PreTlsResult {
  enum class Verdict { kMore, kDone, kRefused };
  Verdict verdict = Verdict::kDone;
  std::size_t consumed = 0;                              // kDone: these bytes are not TLS
  std::optional<boost::asio::ip::tcp::endpoint> source;  // kDone: where the peer really is
  std::string text;                                      // kRefused: why
};

// Looks at every byte that has come so far; called again with more after kMore. `from` is the
// socket's peer. Used to take a PROXY header off the start of connections from trusted addresses.
using PreTls =
    std::function<PreTlsResult(Bytes so_far, const boost::asio::ip::tcp::endpoint& from)>;
// A hook that wants more than this is refused.
inline constexpr std::size_t kMaxPreTls = 4096;

// A socket on which both ends have proved what they had to.
struct TlsChannel {
  boost::asio::ip::tcp::socket socket;
  std::unique_ptr<TlsEngine> engine;
  std::vector<std::byte> early;   // ciphertext that came with the end of the handshake
  std::vector<std::byte> unsent;  // ciphertext that the socket has not taken yet
  boost::asio::ip::tcp::endpoint remote;
  boost::asio::ip::tcp::endpoint source;  // `remote`, or what the hook found
};

// Runs on its socket's io_context thread and keeps itself alive until `done` was called or it was
// cancelled.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  // Called once: a channel, or null and why. Causes are those of TlsFailure, "pre-tls", "timeout"
  // and "closed" (the peer ended or broke the connection).
  using Done = std::function<void(std::unique_ptr<TlsChannel>, TlsFailure)>;

  // `pre_tls` may be null. `slot` is held until the socket is closed or handed over.
  Handshake(boost::asio::ip::tcp::socket socket, std::unique_ptr<TlsEngine> engine, PreTls pre_tls,
            std::shared_ptr<void> slot, Done done);

  void run(Instant deadline);
  // Closes the socket; `done` is not called.
  void cancel();

 private:
  void on_readable();
  void pre_tls(Bytes bytes);
  void step(Bytes bytes);
  bool flush();
  void send_alert();
  void wait_readable();
  void succeed(Bytes rest);
  void fail(std::string_view cause, std::string text);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<TlsEngine> engine_;
  PreTls pre_tls_;  // null once it is through
  std::shared_ptr<void> slot_;
  Done done_;
  boost::asio::ip::tcp::endpoint remote_, source_;
  std::vector<std::byte> held_;  // what the hook has seen
  std::vector<std::byte> unsent_;
  bool waiting_write_ = false;
};

}  // namespace fairlead::link
