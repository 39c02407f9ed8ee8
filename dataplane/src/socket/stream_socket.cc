#include "socket/stream_socket.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace fairlead::dataplane {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// A visitor or upstream that vanished without FIN or RST is found by the kernel in two minutes: by
// probes when idle, by unacknowledged data when not. Who is merely slow or silent is left alone.
void set_keepalive(int socket) {
  const int on = 1, idle = 60, interval = 15, count = 4;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

std::array<std::byte, StreamSocket::kMaxRead>& read_buffer() {
  thread_local std::array<std::byte, StreamSocket::kMaxRead> buffer;
  return buffer;
}

void set_linger(asio::ip::tcp::socket& socket, bool reset) {
  const linger value{reset ? 1 : 0, 0};
  ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_LINGER, &value, sizeof value);
}

}  // namespace

void close_means_reset(asio::ip::tcp::socket& socket) {
  set_linger(socket, true);
}

void StreamSocket::open(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  opened_ = true;
  close_means_reset(socket_);
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  set_keepalive(socket_.native_handle());
  wait_error();
  resume();
  if (!queue_.empty() || finishing_) {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->flush(); });
  }
}

void StreamSocket::resume() {
  if (closed_ || reading_ || read_ended_ || !opened_) return;
  if (callbacks_.room() == 0) return;
  if (early_.empty()) return wait_readable();
  reading_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->reading_ = false;
    if (!self->closed_ && !self->closing_) self->on_readable();
  });
}

void StreamSocket::wait_readable() {
  reading_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->reading_ = false;
    if (self->closed_ || self->closing_) return;
    if (error) return self->fail(error);
    self->on_readable();
  });
}

void StreamSocket::on_readable() {
  const std::size_t room = std::min(callbacks_.room(), kMaxRead);
  if (room == 0) return;  // resume() goes on
  if (!early_.empty()) {
    const std::size_t n = std::min(room, early_.size());
    callbacks_.data(early_.first(n));
    early_ = n < early_.size() ? early_.from(n) : link::Slice();
    return resume();
  }
  auto& buffer = read_buffer();
  error_code error;
  const std::size_t n = socket_.read_some(asio::buffer(buffer.data(), room), error);
  if (error == asio::error::would_block || error == asio::error::interrupted) {
    return wait_readable();
  }
  if (error == asio::error::eof) {
    read_ended_ = true;
    return callbacks_.fin();
  }
  if (error) return fail(error);
  callbacks_.data(link::Slice::copy_of(link::Bytes(buffer.data(), n)));
  resume();
}

// EPOLLERR comes whether or not anybody reads or writes.
void StreamSocket::wait_error() {
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const error_code& error) {
    if (error || self->closed_) return;
    int pending = 0;
    socklen_t size = sizeof pending;
    ::getsockopt(self->socket_.native_handle(), SOL_SOCKET, SO_ERROR, &pending, &size);
    if (pending != 0) {
      return self->fail(error_code(pending, boost::system::system_category()));
    }
    // Both halves ended (EPOLLHUP): no further error can come. Urgent data is nobody's business.
  });
}

void StreamSocket::write(link::Slice bytes) {
  if (closed_ || finishing_ || bytes.empty()) return;
  queued_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (writing_ || !opened_) return;
  // By way of the executor, so that what is written in one turn leaves in one call, and callbacks
  // are never made from inside this one.
  writing_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->flush(); });
}

void StreamSocket::flush() {
  writing_ = false;
  if (closed_) return;
  static constexpr std::size_t kMaxBuffers = 16;
  std::size_t total = 0;
  while (!queue_.empty()) {
    std::array<asio::const_buffer, kMaxBuffers> buffers{};
    std::size_t count = 0;
    for (const link::Slice& slice : queue_) {
      if (count == kMaxBuffers) break;
      buffers[count++] = asio::buffer(slice.bytes().data(), slice.size());
    }
    error_code error;
    std::size_t n = socket_.write_some(buffers, error);
    if (error == asio::error::would_block || error == asio::error::interrupted) {
      writing_ = true;
      socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const error_code& failed) {
        if (self->closed_) return;
        if (failed) return self->fail(failed);
        self->flush();
      });
      break;
    }
    if (error) return fail(error);
    total += n;
    queued_ -= n;
    while (n > 0) {
      link::Slice& front = queue_.front();
      if (n < front.size()) {
        front = front.from(n);
        break;
      }
      n -= front.size();
      queue_.pop_front();
    }
  }
  if (queue_.empty()) maybe_shut_down();
  if (total > 0 && opened_) callbacks_.written(total);
}

void StreamSocket::finish() {
  if (closed_ || finishing_) return;
  finishing_ = true;
  if (queue_.empty() && opened_) maybe_shut_down();
}

void StreamSocket::maybe_shut_down() {
  if (finishing_ && !shut_down_) {
    shut_down_ = true;
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  if (closing_) close();
}

void StreamSocket::close_cleanly() {
  if (closed_) return;
  closing_ = true;
  finishing_ = true;
  forget_callbacks();
  if (queue_.empty()) maybe_shut_down();
}

// One of them may be running now, so they are destroyed later.
void StreamSocket::forget_callbacks() {
  opened_ = false;
  asio::post(socket_.get_executor(), [old = std::move(callbacks_)] {});
  callbacks_ = {};
}

void StreamSocket::close() {
  set_linger(socket_, false);
  error_code ignored;
  closed_ = true;
  socket_.close(ignored);
}

void StreamSocket::reset() {
  if (closed_) return;
  closed_ = true;
  queue_.clear();
  queued_ = 0;
  forget_callbacks();
  close_means_reset(socket_);
  error_code ignored;
  socket_.close(ignored);
}

void StreamSocket::fail(const error_code& error) {
  if (closed_) return;
  auto failed = std::move(callbacks_.failed);
  reset();
  if (failed) failed(error.message());
}

}  // namespace fairlead::dataplane
