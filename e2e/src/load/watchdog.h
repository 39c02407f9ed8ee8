// Closes a socket on which nothing moved for too long.
#pragma once

#include <memory>

#include "../net.h"

namespace fairlead::e2e {

class Watchdog {
 public:
  // `socket` must outlive the last call and any wait: its owner calls stop() before it goes.
  Watchdog(tcp::socket& socket, std::chrono::milliseconds limit);

  void feed();  // something moved; also starts the watch
  void stop();
  bool fired() const { return fired_; }

 private:
  void wait();

  tcp::socket& socket_;
  std::chrono::milliseconds limit_;
  asio::steady_timer timer_;
  Clock::time_point fed_;
  bool waiting_ = false;
  bool fired_ = false;
};

}  // namespace fairlead::e2e
