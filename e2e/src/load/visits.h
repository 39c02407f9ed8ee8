// Visits of the raw kinds. Each one opens itself in the tally, checks every byte it is given, and
// ends there exactly once; none ever retries. All belong to their socket's single thread.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "../net.h"
#include "../tally.h"
#include "watchdog.h"

namespace fairlead::e2e {

// A visit on which nothing moves for this long is lost as "stalled".
inline constexpr std::chrono::seconds kStallLimit{30};

// Writes the pattern of `seed` at a steady rate and reads it back, until close(): then it sends FIN
// and expects the rest of the echo and the echo's own end.
class EchoVisit : public std::enable_shared_from_this<EchoVisit> {
 public:
  struct Options {
    tcp::endpoint server;
    std::uint64_t seed = 1;
    std::uint32_t bytes_per_second = 4096;
    std::chrono::milliseconds stall_limit = kStallLimit;
  };

  EchoVisit(const asio::any_io_executor& executor, Tally& tally, Options options);

  void start();
  void close();

  std::uint64_t received() const { return received_; }

 private:
  Task<> run(std::shared_ptr<EchoVisit> self);
  Task<> write(std::shared_ptr<EchoVisit> self);
  Task<boost::system::error_code> read();
  std::string cause(const boost::system::error_code& error) const;

  Tally& tally_;
  Options options_;
  tcp::socket socket_;
  Watchdog watchdog_;
  asio::steady_timer pace_;
  VisitId id_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::optional<std::uint64_t> wrong_at_;
  boost::system::error_code write_error_;
  bool closing_ = false;
  bool fin_sent_ = false;
};

// Reads a file of the raw file service at no more than a given rate.
class Download : public std::enable_shared_from_this<Download> {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  struct Options {
    tcp::endpoint server;
    std::uint64_t size = 0;
    std::uint64_t seed = 1;
    std::string sha256;                           // expected, of the whole
    std::uint64_t bytes_per_second = kUnlimited;  // 0: reads nothing
    int receive_buffer = 256 * 1024;              // of the socket: what a slow reader lets through
    std::chrono::milliseconds stall_limit = kStallLimit;
  };

  Download(const asio::any_io_executor& executor, Tally& tally, Options options);

  void start();
  void set_rate(std::uint64_t bytes_per_second);

  std::uint64_t received() const { return received_; }
  Clock::time_point ended_at() const { return ended_at_; }  // the epoch while it is live

 private:
  Task<> run(std::shared_ptr<Download> self);
  Task<std::string> transfer();  // the cause of its loss, "" when all came
  Task<> keep_pace();
  void end(const std::string& cause);

  Tally& tally_;
  Options options_;
  tcp::socket socket_;
  Watchdog watchdog_;
  asio::steady_timer pace_;
  VisitId id_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t pace_from_bytes_ = 0;
  Clock::time_point pace_from_;
  Clock::time_point ended_at_;
};

// Connects and tells the tally the visitor's address. The cause of failure, "" on success.
Task<std::string> connect_visit(tcp::socket& socket, tcp::endpoint server, Tally& tally, VisitId id,
                                std::optional<int> receive_buffer);

}  // namespace fairlead::e2e
