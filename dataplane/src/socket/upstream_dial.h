// Connects to a service beside the agent.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <string>

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

struct Upstream {
  std::string host;
  std::string port;
};
inline std::string to_string(const Upstream& upstream) {
  return upstream.host + ":" + upstream.port;
}

// Name lookup and every address included.
inline constexpr std::chrono::seconds kUpstreamTimeout{10};

// Calls `done` once, later: with a connected socket that close_means_reset() and code 0, or with
// visit_code::kUpstreamRefused or kUpstreamUnreachable and a text for the log.
void dial_upstream(boost::asio::io_context& io, const Upstream& upstream,
                   std::function<void(boost::asio::ip::tcp::socket, link::Code, std::string)> done);

}  // namespace fairlead::dataplane
