#include "socket/listener.h"

#include <poll.h>

#include "socket/proxy_header.h"
#include "socket/stream_socket.h"

namespace fairlead::dataplane {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {
// Accepted in one turn, so that a crowd does not hold up live visits.
constexpr int kMaxAccepts = 64;
constexpr std::chrono::milliseconds kRetry{100};  // when the system gives no more sockets
}  // namespace

std::shared_ptr<Listener> Listener::listen(asio::io_context& io, const tcp::endpoint& endpoint,
                                           std::string& error) {
  std::shared_ptr<Listener> listener(new Listener(io));
  tcp::acceptor& acceptor = listener->acceptor_;
  error_code failed;
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(1024, failed);
  if (!failed) acceptor.non_blocking(true, failed);
  if (failed) {
    error = "cannot listen on " + to_text(endpoint) + ": " + failed.message();
    return nullptr;
  }
  listener->endpoint_ = acceptor.local_endpoint(failed);
  return listener;
}

void Listener::serve(OnSocket on_socket) {
  on_socket_ = std::move(on_socket);
  if (!waiting_) wait();
}

void Listener::wait() {
  waiting_ = true;
  acceptor_.async_wait(tcp::acceptor::wait_read,
                       [self = shared_from_this()](const error_code& error) {
                         self->waiting_ = false;
                         if (error || !self->acceptor_.is_open()) return;
                         if (self->accept_waiting()) return self->wait();
                         self->waiting_ = true;
                         self->retry_.expires_after(kRetry);
                         self->retry_.async_wait([self](const error_code& cancelled) {
                           if (!cancelled && self->acceptor_.is_open()) self->wait();
                         });
                       });
}

// False when the system gives no more sockets.
bool Listener::accept_waiting() {
  for (int i = 0; i < kMaxAccepts; ++i) {
    error_code error;
    tcp::socket socket(acceptor_.get_executor());
    acceptor_.accept(socket, error);
    if (error == asio::error::would_block || error == asio::error::try_again) return true;
    if (error == asio::error::connection_aborted) continue;
    if (error) return false;
    close_means_reset(socket);
    on_socket_(std::move(socket));
  }
  return true;
}

void Listener::stop() {
  error_code ignored;
  // A connection that the kernel has completed would be reset with the listener; it is served.
  for (int rounds = 0; rounds < 64; ++rounds) {
    pollfd waits{acceptor_.native_handle(), POLLIN, 0};
    if (::poll(&waits, 1, 0) <= 0 || !on_socket_ || !accept_waiting()) break;
  }
  retry_.cancel();
  acceptor_.close(ignored);
}

}  // namespace fairlead::dataplane
