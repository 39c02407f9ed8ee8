#include "link/asio/socket_io.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace fairlead::link {

namespace asio = boost::asio;
using asio::ip::tcp;

Scratch& Scratch::of_thread() {
  thread_local const std::unique_ptr<Scratch> scratch = std::make_unique<Scratch>();
  return *scratch;
}

void set_link_options(tcp::socket& socket, boost::system::error_code& error) {
  socket.non_blocking(true, error);
  if (error) return;
  socket.set_option(tcp::no_delay(true), error);
  if (error) return;
  const int low_water = kNotSentLowWater;
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &low_water, sizeof low_water);
}

void set_user_timeout(tcp::socket& socket, std::chrono::milliseconds timeout) {
  const auto value = static_cast<unsigned>(timeout.count());
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &value, sizeof value);
}

std::chrono::microseconds smoothed_rtt(tcp::socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return std::chrono::microseconds(info.tcpi_rtt);
}

bool has_room(tcp::socket& socket) {
  pollfd poll_for{socket.native_handle(), POLLOUT, 0};
  return poll(&poll_for, 1, 0) > 0;
}

void close_with_reset(tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

namespace {

class Lingering : public std::enable_shared_from_this<Lingering> {
 public:
  Lingering(tcp::socket socket, std::function<void()> done)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), done_(std::move(done)) {}

  void run() {
    boost::system::error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    if (error) {  // the peer is gone already
      asio::post(socket_.get_executor(), [self = shared_from_this()] { self->finish(); });
      return;
    }
    timer_.expires_after(kLinger);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
      if (!cancelled) self->finish();
    });
    wait();
  }

 private:
  void wait() {
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](boost::system::error_code error) {
                         if (!error) self->drop();
                       });
  }
  void drop() {
    if (!socket_.is_open()) return;
    boost::system::error_code error;
    socket_.read_some(asio::buffer(Scratch::of_thread().cipher_in), error);
    if (!error || error == asio::error::would_block) {
      wait();
    } else {
      finish();
    }
  }
  void finish() {
    if (!done_) return;
    boost::system::error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
    std::exchange(done_, nullptr)();
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  std::function<void()> done_;
};

}  // namespace

void linger_and_close(tcp::socket socket, std::function<void()> done) {
  std::make_shared<Lingering>(std::move(socket), std::move(done))->run();
}

std::string to_text(const tcp::endpoint& endpoint) {
  const auto& address = endpoint.address();
  const std::string text = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return text + ":" + std::to_string(endpoint.port());
}

}  // namespace fairlead::link
