// Visitors and upstreams of integration tests: plain blocking sockets, so that what they see is
// what the system says and nothing of this product is between. Every wait ends after ten seconds.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace fairlead::dataplane::testing {

using Tcp = boost::asio::ip::tcp;

enum class End { kFin, kReset, kTimeout };
std::ostream& operator<<(std::ostream& out, End end);

// One TCP connection.
class Client {
 public:
  // Connects; connected() says whether that worked. `receive_buffer` of 0 is the system's default.
  explicit Client(const Tcp::endpoint& to, int receive_buffer = 0);
  // Of an accepted socket.
  explicit Client(int fd);
  ~Client();
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Client& operator=(Client&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool connected() const { return fd_ >= 0; }
  Tcp::endpoint local() const;
  // False when the connection failed first or ten seconds passed.
  bool send(std::string_view bytes);
  // Sends until the system takes no more; how much that was.
  std::size_t send_what_fits();
  void finish();  // FIN
  void reset();   // RST
  void close();
  // All that comes until the end, and how it ended.
  std::string read_all(End& end);
  // Exactly n bytes, or what came before the end.
  std::string read(std::size_t n);
  // At least one byte; empty at the end, see last_end().
  std::string read_some();
  // Up to and with `mark`; what came behind it is kept for the next read.
  std::string read_until(std::string_view mark);
  // How the connection ended for reading, when it did.
  std::optional<End> last_end() const { return end_; }
  // Waits for the end and drops what comes before it.
  End wait_end();

 private:
  bool fill();

  int fd_ = -1;
  std::string buffer_;  // read and not yet asked for
  std::optional<End> end_;
};

// A TCP service beside an agent. Make it before the cluster: its threads end with what they serve.
class Upstream {
 public:
  // `serve` runs on a thread of its own for each connection, which is closed in the ordinary way
  // behind it unless `serve` did that.
  explicit Upstream(std::function<void(Client&)> serve);
  ~Upstream();  // waits for the threads
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  std::uint16_t port() const { return port_; }
  // Connections so far.
  int accepted() const { return accepted_; }

  static void echo(Client& visitor);  // until FIN, then FIN

 private:
  void accept();

  std::function<void(Client&)> serve_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<int> accepted_{0};
  std::vector<std::thread> serving_;  // of accepting_ until that ended
  std::thread accepting_;
};

// Bytes that the system takes for a peer that reads nothing and has this receive buffer.
std::size_t system_holds(int receive_buffer);

// A port of 127.0.0.1 where nothing listens.
std::uint16_t refused_port();

struct HttpMessage {
  std::string start;                          // the first line
  std::map<std::string, std::string> fields;  // by lower-case name
  std::string body;
  bool complete = false;  // every byte came, the last chunk included
  int status() const;
  std::string field(const std::string& name) const;
};
// Reads one message. A body without Content-Length or chunks goes until FIN when it is a response.
HttpMessage read_http(Client& from, bool response, bool head_only = false);
std::string chunk(std::string_view bytes);

// `n` bytes that differ at every offset that a shift or a swap could confuse.
std::string pattern(std::size_t n, std::uint32_t seed = 1);

}  // namespace fairlead::dataplane::testing
