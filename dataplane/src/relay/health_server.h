// The small HTTP server that kubelets, Prometheus and people ask (port 9090).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace fairlead::dataplane {

struct HealthReply {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Runs on a thread of its own, so that an answer never waits for the byte path. `respond` is called
// on that thread with method ("GET", "HEAD" or "POST"), the target's path and query, and whether
// the peer is on this host; it may block for a bounded time. At most kMaxConnections at once; a
// request that is not complete within kRequestTimeout is closed; bodies are refused.
class HealthServer {
 public:
  using Respond = std::function<HealthReply(const std::string& method, const std::string& path,
                                            const std::string& query, bool from_this_host)>;
  static constexpr std::size_t kMaxConnections = 64;
  static constexpr std::chrono::seconds kRequestTimeout{5};

  // Throws boost::system::system_error when the address cannot be bound.
  HealthServer(const boost::asio::ip::tcp::endpoint& endpoint, Respond respond);
  ~HealthServer();  // stops and joins

  boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }

 private:
  class Session;
  void accept();

  Respond respond_;
  std::size_t connections_ = 0;  // outlives context_, whose handlers hold the sessions
  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::ip::tcp::endpoint endpoint_;
  std::thread thread_;
};

}  // namespace fairlead::dataplane
