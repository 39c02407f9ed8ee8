// Dials a peer: resolves its name, tries its addresses one after the other through TCP and TLS, and
// gives a LinkSocket.
//
// Belongs to the thread of its io_context, as LinkSocket does.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "link/asio/handshake.h"
#include "link/asio/link_socket.h"
#include "link/asio/tls.h"

namespace fairlead::link {

struct DialOptions {
  std::string host;  // name or address
  std::string port;
  std::shared_ptr<TlsIdentity> identity;
  // With neither host nor check given in it, the certificate must be for `host` above.
  TlsClientPolicy policy;
  Config config;  // `side` is set to kDialer
  // For everything: resolving and all addresses. Each address gets an equal share of what is left.
  Duration timeout = std::chrono::seconds(10);
};

class Dial : public std::enable_shared_from_this<Dial> {
 public:
  // Called once, later than dial() returns: a link that waits for start(), or null and a text that
  // names every address that was tried with what went wrong there.
  using Done = std::function<void(std::shared_ptr<LinkSocket>, std::string error)>;

  // Gives up; `done` is not called after it. Dropping the pointer does not cancel.
  void cancel();

 private:
  struct Private {};

 public:
  Dial(Private, boost::asio::io_context& io, DialOptions options, Done done);
  friend std::shared_ptr<Dial> dial(boost::asio::io_context& io, DialOptions options,
                                    Dial::Done done);

 private:
  void begin();
  void resolved(boost::system::error_code error,
                const boost::asio::ip::tcp::resolver::results_type& results);
  void try_next();
  void connected(boost::system::error_code error);
  void failed_here(std::string text);
  void finish(std::shared_ptr<LinkSocket> link, std::string error);
  std::string target() const { return options_.host + ":" + options_.port; }

  DialOptions options_;
  Done done_;  // null once called or cancelled
  Instant deadline_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::weak_ptr<Handshake> handshake_;  // it owns us
  std::vector<boost::asio::ip::tcp::endpoint> endpoints_;
  std::size_t next_ = 0;
  Instant attempt_deadline_{};
  std::string errors_;
};

std::shared_ptr<Dial> dial(boost::asio::io_context& io, DialOptions options, Dial::Done done);

}  // namespace fairlead::link
