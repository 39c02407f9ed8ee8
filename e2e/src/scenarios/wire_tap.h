// A byte-for-byte proxy between an agent and a replica that writes down, from the outside, when
// each end last was given a byte and when it closed its side.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "../net.h"

namespace fairlead::e2e {

class WireTap {
 public:
  explicit WireTap(const tcp::endpoint& target);
  ~WireTap();

  tcp::endpoint address() const { return address_; }

  enum class End { kDialer, kListener };
  struct Record {
    std::size_t connections = 0;                 // since the tap was made
    Clock::time_point last_given;                // when `end` was last given a byte
    std::optional<Clock::time_point> closed_at;  // when `end` closed its side
  };
  // Of the newest connection, or of the one that was the newest when pin() was called: an end that
  // gives up dials again at once.
  Record record(End end) const;
  void pin();

  struct Leg {
    Clock::time_point last_given;
    std::optional<Clock::time_point> closed_at;
  };
  struct Pair {
    explicit Pair(const asio::any_io_executor& executor) : dialer(executor), listener(executor) {}
    tcp::socket dialer;
    tcp::socket listener;
    Leg dialer_leg;
    Leg listener_leg;
  };

 private:
  Task<> accept_all();
  Task<> pass(std::shared_ptr<Pair> pair, bool to_dialer);

  tcp::endpoint target_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  tcp::endpoint address_;
  mutable std::mutex mutex_;  // of what follows
  std::shared_ptr<Pair> newest_;
  std::shared_ptr<Pair> pinned_;
  std::size_t connections_ = 0;
  std::thread thread_;
};

}  // namespace fairlead::e2e
