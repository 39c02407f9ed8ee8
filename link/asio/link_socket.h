// A link over a TCP socket with TLS: the connection of the core, driven.
//
//   class Echo : public LinkHandler { ... };
//   socket->start(&echo);                      // from here on, events come
//   socket->connection().open(...); socket->wake();
//
// Threads. A LinkSocket, its listener, its dial and its pool belong to the one thread that runs
// their io_context; every call and every callback happens there. Another thread does asio::post(io,
// ...) and nothing else.
//
// Writing. What goes next is chosen when the kernel holds less than 16 KiB unsent
// (TCP_NOTSENT_LOWAT), then up to 64 KiB of frames become TLS records and one write. So an urgent
// frame waits for little, and bulk costs one system call for many records. Reading never waits for
// writing.
//
// Memory. Plaintext and ciphertext pass through buffers of the thread. A link itself keeps at most
// 64 KiB of ciphertext that the kernel did not take, and nothing when it is idle.
//
// Time. Before the peer is judged by a timer, everything the socket holds is read: a process that
// was stopped and continued does not declare a live peer dead.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fairlead/link/connection.h"
#include "link/asio/handshake.h"
#include "link/asio/tls.h"

namespace fairlead::link {

class LinkSocket;

// Callbacks may give commands to the connection (no wake() is needed for this link, it is for any
// other), and may drop the last pointer to the link.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  // Every event of the core in its order; event::Closed is the last.
  virtual void on_event(LinkSocket& link, Event&& event) = 0;
  // The socket is closed too: at once when the link was cut, within a second when it was closed in
  // order. The last callback.
  virtual void on_closed(LinkSocket& link) = 0;
};

// Counts since the handshake.
struct SocketStats {
  std::uint64_t writes = 0;     // write system calls
  std::uint64_t bytes_out = 0;  // ciphertext
  std::uint64_t reads = 0;      // read system calls
  std::uint64_t bytes_in = 0;
};

// How the end of the link looks on the socket:
//   close() here or CLOSE from the peer    what is queued and has credit, CLOSE, close_notify, FIN;
//                                          at most kLinger after the last of it was written
//   close_notify or FIN without CLOSE      Cut kEnded, which of them in the text
//   RST, TLS alert, broken record          Cut kTransport with the system's or OpenSSL's words
//   dead peer and the like, abort()        RST
// While closing, no progress of the queue for the liveness bound ends it with RST.
class LinkSocket : public std::enable_shared_from_this<LinkSocket> {
 public:
  // From a listener or a dial. `config.side` must fit.
  LinkSocket(std::unique_ptr<TlsChannel> channel, const Config& config);
  ~LinkSocket();
  LinkSocket(const LinkSocket&) = delete;
  LinkSocket& operator=(const LinkSocket&) = delete;

  // Starts reading and writing; once. Until on_closed the link keeps itself alive. `handler` must
  // outlive that or be taken away with set_handler(nullptr), after which events are dropped.
  void start(LinkHandler* handler);
  void set_handler(LinkHandler* handler) { handler_ = handler; }

  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }
  // Call after commands given outside this link's own callbacks. Many calls cost one turn.
  void wake();
  // Cuts the link: sessions are cut here with `text`, the peer sees RST.
  void abort(std::string text);

  const PeerCertificate& peer() const { return channel_->engine->peer(); }
  const boost::asio::ip::tcp::endpoint& remote() const { return channel_->remote; }
  // Where the peer really is: remote(), or what a PROXY header said.
  const boost::asio::ip::tcp::endpoint& source() const { return channel_->source; }
  const SocketStats& socket_stats() const { return stats_; }

  // The clock of every `now` that the connection is given.
  static Instant now() { return std::chrono::steady_clock::now(); }

 private:
  // kReady until start(); kFlushing after the connection is done; kLingering once FIN was said.
  enum class State : std::uint8_t { kReady, kOpen, kFlushing, kLingering, kClosed };
  enum class Drained : std::uint8_t { kYes, kNo, kOver };

  void read_turn();
  Drained read_available(int turns);
  void decrypt(Bytes ciphertext);
  void wait_readable();

  void pump();
  bool write_once();
  bool flush_unsent();
  void send(const std::vector<std::byte>& ciphertext);
  void write_failed(boost::system::error_code error);
  void wait_writable();
  bool room();

  void dispatch();
  void settle();
  void end_in_order();
  void close(bool reset);
  void closed();

  std::optional<Instant> deadline() const;
  void arm_timer();
  void on_timer();
  void measure_rtt();

  std::unique_ptr<TlsChannel> channel_;
  boost::asio::ip::tcp::socket& socket_;
  TlsEngine& engine_;
  std::vector<std::byte>& unsent_;
  boost::asio::steady_timer timer_;
  Connection connection_;
  LinkHandler* handler_ = nullptr;

  State state_ = State::kReady;
  std::optional<Cut> cut_;  // once event::Closed passed
  bool in_turn_ = false;    // a turn is running and will pump
  bool wake_posted_ = false;
  bool waiting_write_ = false;
  std::size_t batch_;               // bytes of the next produce()
  std::size_t sent_unchecked_ = 0;  // ciphertext written since has_room() was asked

  std::optional<Instant> armed_;  // when timer_ is set to fire
  Instant timer_floor_{};         // not to fire again before this
  Instant last_progress_;         // of writing
  Instant end_by_{};              // kFlushing
  Instant rtt_at_{};
  SocketStats stats_;
};

}  // namespace fairlead::link
