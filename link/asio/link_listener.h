// Accepts links: TCP, an optional step before TLS, TLS, then a LinkSocket.
//
// Whoever does not get through the handshake (garbage, an HTTP request, a client without ALPN
// `link/1`, a wrong certificate, silence, a byte a second) is closed within `handshake_timeout`,
// with one call of on_failure. Nothing else is disturbed by it.
//
// Belongs to the thread of its io_context, as LinkSocket does.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include "link/asio/handshake.h"
#include "link/asio/link_socket.h"
#include "link/asio/tls.h"

namespace fairlead::link {

struct ListenOptions {
  boost::asio::ip::tcp::endpoint endpoint;  // port 0: any free one
  bool reuse_port = false;  // SO_REUSEPORT: a listener per thread on the same endpoint
  std::shared_ptr<TlsIdentity> identity;
  TlsServerPolicy policy;
  Config config;   // of every link; `side` is set to kListener
  PreTls pre_tls;  // may be null; see handshake.h
  // Handshakes at the same time; further connections wait in the kernel's backlog.
  std::size_t max_handshakes = 512;
  Duration handshake_timeout = std::chrono::seconds(10);  // pre_tls included
};

struct AcceptFailure {
  // One word for counting and for limiting logs to a line per cause and source: those of Handshake,
  // or "accept" when the system gives no more sockets (`source` is then unset).
  std::string_view cause;
  std::string text;
  boost::asio::ip::tcp::endpoint source;
};

class LinkListener : public std::enable_shared_from_this<LinkListener> {
 public:
  // The link waits for start(); dropping it closes it.
  using OnLink = std::function<void(std::shared_ptr<LinkSocket>)>;
  using OnFailure = std::function<void(const AcceptFailure&)>;

  // Null with `error` (the endpoint, the system's words) when the endpoint cannot be had, or when
  // identity and policy do not fit.
  static std::shared_ptr<LinkListener> listen(boost::asio::io_context& io, ListenOptions options,
                                              OnLink on_link, OnFailure on_failure,
                                              std::string& error);

  boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }

  // Takes what already waits in the backlog, then stops listening. Handshakes under way still
  // become links.
  void stop();
  // Stops at once and closes the handshakes under way. No callback comes after it.
  void close();

 private:
  struct Private {};

 public:
  LinkListener(Private, boost::asio::io_context& io, ListenOptions options, OnLink on_link,
               OnFailure on_failure);

 private:
  bool open(std::string& error);
  void accept();
  void accepted(boost::asio::ip::tcp::socket socket);
  void accept_failed(boost::system::error_code error);
  void slot_freed();

  ListenOptions options_;
  OnLink on_link_;
  OnFailure on_failure_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::ip::tcp::endpoint endpoint_;
  boost::asio::steady_timer retry_;
  std::unordered_set<std::shared_ptr<Handshake>> handshakes_;
  std::size_t slots_taken_ = 0;
  bool accepting_ = false;  // an accept or a retry is under way
};

}  // namespace fairlead::link
