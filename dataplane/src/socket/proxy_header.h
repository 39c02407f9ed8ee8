// Finds out who a visitor is: the socket's peer, or what a trusted proxy says in front of the
// bytes.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>

#include "config/cidr_set.h"
#include "fairlead/link/types.h"
#include "link/asio/handshake.h"

namespace fairlead::dataplane {

struct Visitor {
  boost::asio::ip::tcp::socket socket;
  boost::asio::ip::tcp::endpoint source;
  bool proxied = false;  // a trusted proxy is in between; `source` is its word
  link::Slice early;     // bytes of the visitor that were read already
};

// Calls `done` once, later, with the visitor, or with a text when the connection is to be dropped:
// a header that is not usable, or one not complete within kProxyHeaderTimeout. A peer that is not
// in `trusted` is never read from. A trusted peer that sends nothing for kProxyHeaderTimeout is
// taken as a visitor of its own: it may wait for the service to speak first.
inline constexpr std::chrono::seconds kProxyHeaderTimeout{5};
void identify_visitor(boost::asio::ip::tcp::socket socket, const CidrSet& trusted,
                      std::function<void(Visitor, std::string error)> done);

// The same for connections that begin with TLS: the hook of link::ListenOptions.
link::PreTls proxy_before_tls(const CidrSet& trusted);

// "1.2.3.4:5678", "[::1]:80".
std::string to_text(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace fairlead::dataplane
