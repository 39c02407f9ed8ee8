// Accepts TCP connections of visitors.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

namespace fairlead::dataplane {

// Belongs to the thread of its io_context. Each accepted socket carries SO_LINGER {1, 0}: however
// it is dropped before its end was decided, its peer sees RST.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  using OnSocket = std::function<void(boost::asio::ip::tcp::socket)>;

  // Null with `error` (the endpoint, the system's words) when the endpoint cannot be had. Serves
  // nobody before serve().
  static std::shared_ptr<Listener> listen(boost::asio::io_context& io,
                                          const boost::asio::ip::tcp::endpoint& endpoint,
                                          std::string& error);

  boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }
  // Gives accepted sockets to `on_socket`, from now on to this one.
  void serve(OnSocket on_socket);
  // Takes what waits in the backlog, then closes.
  void stop();

 private:
  explicit Listener(boost::asio::io_context& io) : acceptor_(io), retry_(io) {}
  void wait();
  bool accept_waiting();

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  boost::asio::ip::tcp::endpoint endpoint_;
  OnSocket on_socket_;
  bool waiting_ = false;
};

}  // namespace fairlead::dataplane
