// The raw TCP services: a listener for each port that a token fixes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <map>
#include <memory>
#include <string>

#include "relay/visits.h"
#include "routes/route_table.h"
#include "socket/listener.h"
#include "socket/proxy_header.h"

namespace fairlead::dataplane {

class TcpFront {
 public:
  TcpFront(boost::asio::io_context& io, const boost::asio::ip::address& address,
           const CidrSet& trusted, Visits& visits)
      : io_(io), address_(address), trusted_(trusted), visits_(visits) {}

  // Listens on exactly the table's ports: called at start and when the tokens change. False with
  // `error` when a port cannot be had; the others are served.
  bool set_routes(const RouteTable& routes, std::string& error);
  // Takes what waits on the listeners, then closes them.
  void stop();

 private:
  void accepted(boost::asio::ip::tcp::socket socket, const TcpOwner& owner);
  void visit(Visitor visitor, const TcpOwner& owner);

  boost::asio::io_context& io_;
  boost::asio::ip::address address_;
  const CidrSet& trusted_;
  Visits& visits_;
  std::map<std::uint16_t, std::shared_ptr<Listener>> listeners_;
};

}  // namespace fairlead::dataplane
