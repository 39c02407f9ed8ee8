// The forwarder stands where a Service stands on Kubernetes: one address in front of the replicas.
// It listens on the ports of the endpoints file, deals connections round robin over the ready
// replicas, and passes bytes. Each connection to a replica starts with a PROXY v2 header that names
// the visitor; the replica must trust this process's address.
//
// An end is passed on as what it was, for each direction by itself: FIN as FIN, RST as RST. Until a
// connection has ended cleanly both ways its sockets carry SO_LINGER {1, 0}, so that even a SIGKILL
// of this process shows as RST and never as an end. A dial that is refused is tried at the next
// ready replica, since nothing was passed on; any other failure resets the visitor.
//
// Memory per connection: nothing is read ahead of what the other side has taken but kMaxPending
// bytes each way.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "local/endpoints.h"

namespace fairlead::op {

// Bytes of one direction that were read and that the other side has not taken yet.
inline constexpr std::size_t kMaxPending = 64 * 1024;

struct ForwarderOptions {
  boost::asio::ip::address listen;
  std::filesystem::path endpoints;  // read at the start and whenever it is replaced
  std::filesystem::path status;     // ForwarderStatus, written at most once a second
  std::chrono::milliseconds dial_timeout{5000};
};

class Forwarder {
 public:
  // `log` gets one line per event that a person should see; never one per connection. All of this
  // runs on the thread that runs `io`.
  Forwarder(boost::asio::io_context& io, ForwarderOptions options,
            std::function<void(const std::string&)> log);
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  // Reads the endpoints file and starts. A file that is missing or wrong is reported and waited
  // for; once one was read, a wrong one changes nothing.
  void start();

  // Closes the listeners and writes the last status. Connections go on for as long as `io` runs;
  // destroying `io`, or the end of the process, resets them.
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace fairlead::op
