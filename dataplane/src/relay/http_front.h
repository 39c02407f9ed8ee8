// HTTP/1.1 visitors: their connections, and one visit for each exchange.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>

#include "config/cidr_set.h"
#include "relay/visits.h"
#include "routes/route_table.h"
#include "socket/listener.h"
#include "socket/proxy_header.h"

namespace fairlead::dataplane {

class HttpConnection;

// All calls on the io_context's one thread.
class HttpFront {
 public:
  // Visitor connections at the same time; more are answered with RST.
  static constexpr std::size_t kMaxConnections = 20'000;

  struct Options {
    const CidrSet& trusted;
    std::function<const RouteTable&()> routes;
    std::function<void()> changed;  // a connection began, ended, or became idle
  };

  HttpFront(boost::asio::io_context& io, Visits& visits, Options options);
  ~HttpFront();

  // False with `error` when the endpoint cannot be had.
  bool listen(const boost::asio::ip::tcp::endpoint& endpoint, std::string& error);
  // Takes what waits on the listener, then closes it.
  void stop();
  // Every next response says `Connection: close`.
  void drain();
  // The drain deadline: idle connections are closed too.
  void close_idle();

  // Visitor connections that carry no visit now.
  std::uint32_t idle() const;
  std::size_t connections() const { return connections_.size(); }

 private:
  friend class HttpConnection;

  void accepted(boost::asio::ip::tcp::socket socket);

  boost::asio::io_context& io_;
  Visits& visits_;
  Options options_;
  std::shared_ptr<Listener> listener_;
  std::unordered_set<std::shared_ptr<HttpConnection>> connections_;
  bool draining_ = false;
};

}  // namespace fairlead::dataplane
