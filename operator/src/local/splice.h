// One connection through the forwarder: two sockets, two directions.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace fairlead::op {

enum class SpliceEnd { kFinished, kVisitorReset, kReplicaReset };

// Passes bytes between two connected sockets until both directions have ended or one was reset.
// Kept alive by its own handlers; when they are destroyed, so are the sockets, with RST. One
// thread.
class Splice : public std::enable_shared_from_this<Splice> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Scratch = std::array<char, 64 * 1024>;

  // Both sockets are non-blocking and carry SO_LINGER {1, 0}. `first` is sent to the replica before
  // any byte of the visitor. `scratch` is shared by all splices of a thread and outlives them.
  // `on_end` is called once.
  Splice(Socket visitor, Socket replica, std::string first, Scratch& scratch,
         std::function<void(SpliceEnd)> on_end);

  void start();

 private:
  struct Direction {
    Socket& from;
    Socket& to;
    SpliceEnd from_reset;
    SpliceEnd to_reset;
    std::string pending = {};  // read from `from`, not yet taken by `to`
    std::size_t taken = 0;     // of pending
    bool read_fin = false;
    bool passed_fin = false;
  };

  void pump(Direction& direction);
  bool flush(Direction& direction);
  bool fill(Direction& direction);
  void wait(Direction& direction, Socket& socket, Socket::wait_type what);
  void watch_for_reset(Socket& socket, SpliceEnd reset);
  void pass_fin(Direction& direction);
  void end(SpliceEnd how);

  Socket visitor_;
  Socket replica_;
  Direction up_;    // visitor to replica
  Direction down_;  // replica to visitor
  Scratch& scratch_;
  std::function<void(SpliceEnd)> on_end_;
  bool over_ = false;
};

}  // namespace fairlead::op
