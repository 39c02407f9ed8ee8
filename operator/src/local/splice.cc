#include "local/splice.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace fairlead::op {
namespace {

using boost::asio::socket_base;
using boost::system::error_code;
namespace error = boost::asio::error;

// Reads of one direction before the others get their turn.
constexpr int kReadsPerTurn = 16;

bool would_block(const error_code& ec) {
  return ec == error::would_block || ec == error::try_again;
}

}  // namespace

Splice::Splice(Socket visitor, Socket replica, std::string first, Scratch& scratch,
               std::function<void(SpliceEnd)> on_end)
    : visitor_(std::move(visitor)),
      replica_(std::move(replica)),
      up_{visitor_, replica_, SpliceEnd::kVisitorReset, SpliceEnd::kReplicaReset},
      down_{replica_, visitor_, SpliceEnd::kReplicaReset, SpliceEnd::kVisitorReset},
      scratch_(scratch),
      on_end_(std::move(on_end)) {
  up_.pending = std::move(first);
}

void Splice::start() {
  watch_for_reset(visitor_, SpliceEnd::kVisitorReset);
  watch_for_reset(replica_, SpliceEnd::kReplicaReset);
  pump(up_);
  pump(down_);
}

// Moves bytes until a socket is not ready or the direction has had its turn.
void Splice::pump(Direction& direction) {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    if (over_ || direction.passed_fin) return;
    if (!flush(direction)) return;
    if (direction.read_fin) return pass_fin(direction);
    if (!fill(direction)) return;
  }
  boost::asio::post(visitor_.get_executor(),
                    [self = shared_from_this(), &direction] { self->pump(direction); });
}

// True when nothing is pending any more.
bool Splice::flush(Direction& direction) {
  while (direction.taken < direction.pending.size()) {
    error_code ec;
    direction.taken +=
        direction.to.write_some(boost::asio::buffer(direction.pending.data() + direction.taken,
                                                    direction.pending.size() - direction.taken),
                                ec);
    if (would_block(ec)) {
      wait(direction, direction.to, Socket::wait_write);
      return false;
    }
    if (ec) {
      end(direction.to_reset);
      return false;
    }
  }
  // Idle connections hold no memory.
  direction.pending = std::string();
  direction.taken = 0;
  return true;
}

// Reads once and offers it to the other side; what that does not take becomes pending. False when
// there is nothing to read yet.
bool Splice::fill(Direction& direction) {
  error_code ec;
  const std::size_t size = direction.from.read_some(boost::asio::buffer(scratch_), ec);
  if (would_block(ec)) {
    wait(direction, direction.from, Socket::wait_read);
    return false;
  }
  if (ec == error::eof) {
    direction.read_fin = true;
    return true;
  }
  if (ec) {
    end(direction.from_reset);
    return false;
  }
  std::size_t sent = direction.to.write_some(boost::asio::buffer(scratch_.data(), size), ec);
  if (would_block(ec)) sent = 0;
  if (ec && !would_block(ec)) {
    end(direction.to_reset);
    return false;
  }
  direction.pending.assign(scratch_.data() + sent, size - sent);
  return true;
}

void Splice::wait(Direction& direction, Socket& socket, Socket::wait_type what) {
  socket.async_wait(what, [self = shared_from_this(), &direction](const error_code& ec) {
    if (!ec) self->pump(direction);
  });
}

// A reset must be seen even while its side is not being read because the other one is slow.
void Splice::watch_for_reset(Socket& socket, SpliceEnd reset) {
  socket.async_wait(Socket::wait_error,
                    [self = shared_from_this(), &socket, reset](const error_code& ec) {
                      if (ec || self->over_) return;
                      int reason = 0;
                      socklen_t size = sizeof reason;
                      ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_ERROR, &reason, &size);
                      // Both directions having ended also wakes this up: no error, no reset.
                      if (reason != 0) self->end(reset);
                    });
}

void Splice::pass_fin(Direction& direction) {
  error_code ec;
  direction.to.shutdown(socket_base::shutdown_send, ec);
  if (ec) return end(direction.to_reset);
  direction.passed_fin = true;
  if (up_.passed_fin && down_.passed_fin) end(SpliceEnd::kFinished);
}

void Splice::end(SpliceEnd how) {
  if (std::exchange(over_, true)) return;
  error_code ignored;
  for (Socket* const socket : {&visitor_, &replica_}) {
    // Off: the kernel delivers what is left and then the FIN. On: close sends RST.
    if (how == SpliceEnd::kFinished) socket->set_option(socket_base::linger(false, 0), ignored);
    socket->close(ignored);
  }
  on_end_(how);
}

}  // namespace fairlead::op
