#include "watchdog.h"

namespace fairlead::e2e {

Watchdog::Watchdog(tcp::socket& socket, std::chrono::milliseconds limit)
    : socket_(socket), limit_(limit), timer_(socket.get_executor()) {}

void Watchdog::feed() {
  fed_ = Clock::now();
  if (!waiting_ && !fired_) wait();
}

void Watchdog::stop() {
  waiting_ = false;
  timer_.cancel();
}

void Watchdog::wait() {
  waiting_ = true;
  timer_.expires_at(fed_ + limit_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;  // stop(), after which `this` may be gone
    if (fed_ + limit_ > Clock::now()) {
      wait();
      return;
    }
    fired_ = true;
    waiting_ = false;
    boost::system::error_code ignored;
    socket_.close(ignored);
  });
}

}  // namespace fairlead::e2e
