// A TCP connection of a visitor or an upstream, with the manners a visit needs.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <functional>
#include <memory>

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

// However the socket is closed from now on, by its destructor too, the peer sees RST. Asio's own
// linger option is not enough: its destructor takes that back.
void close_means_reset(boost::asio::ip::tcp::socket& socket);

// Reads on demand, writes from a queue, and never lets a cut look like an end: from open() to
// close_cleanly() the socket carries SO_LINGER {1, 0}, so that close(), and even SIGKILL of this
// process, sends RST. An idle connection holds no buffer. A reset by the peer is noticed at once,
// also while nothing is read.
//
// All calls and callbacks on the io_context's one thread. Callbacks are never made from inside a
// call. None is made after close_cleanly() or reset().
class StreamSocket : public std::enable_shared_from_this<StreamSocket> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  struct Callbacks {
    // How many bytes may be read now; 0 stops reading until resume().
    std::function<std::size_t()> room;
    std::function<void(link::Slice)> data;
    std::function<void()> fin;                 // the peer ended its half
    std::function<void(std::size_t)> written;  // so many queued bytes left for the kernel
    std::function<void(std::string)> failed;   // reset or failed: the system's words; the last one
  };

  // Most bytes read at once. The buffer is one for the thread, not one for each connection.
  static constexpr std::size_t kMaxRead = 64 * 1024;

  explicit StreamSocket(Socket socket) : socket_(std::move(socket)) {}

  // Bytes that were read from the connection already; they come before all others. Before open().
  void unread(link::Slice bytes) { early_ = std::move(bytes); }
  // The connection stands: sets the options and begins to read.
  void open(Callbacks callbacks);
  // Room was 0 and is not any more.
  void resume();
  void write(link::Slice bytes);
  // Bytes written and not yet with the kernel.
  std::size_t queued() const { return queued_; }
  bool read_ended() const { return read_ended_; }  // `fin` was called
  // FIN after everything queued. A second call does nothing.
  void finish();
  // After finish(): closes in the ordinary way once everything is with the kernel.
  void close_cleanly();
  // Closes at once; the peer sees RST.
  void reset();

  Socket& raw() { return socket_; }

 private:
  void wait_readable();
  void on_readable();
  void wait_error();
  void flush();
  void maybe_shut_down();
  void fail(const boost::system::error_code& error);
  void close();
  void forget_callbacks();

  Socket socket_;
  Callbacks callbacks_;
  std::deque<link::Slice> queue_;
  std::size_t queued_ = 0;
  link::Slice early_;
  bool opened_ = false;   // callbacks_ are set
  bool reading_ = false;  // a wait for readability is out
  bool writing_ = false;  // a wait for writability is out
  bool read_ended_ = false;
  bool finishing_ = false;
  bool shut_down_ = false;
  bool closing_ = false;
  bool closed_ = false;
};

}  // namespace fairlead::dataplane
