#include "wire_tap.h"

#include <utility>

namespace fairlead::e2e {

using boost::system::error_code;

WireTap::WireTap(const tcp::endpoint& target)
    : target_(target),
      acceptor_(listen_on(io_.get_executor(), {asio::ip::make_address("127.0.0.1"), 0})),
      address_(acceptor_.local_endpoint()) {
  start(io_.get_executor(), accept_all());
  thread_ = std::thread([this] { io_.run(); });
}

WireTap::~WireTap() {
  io_.stop();
  thread_.join();
}

WireTap::Record WireTap::record(End end) const {
  const std::lock_guard lock(mutex_);
  const Pair* pair = pinned_ ? pinned_.get() : newest_.get();
  if (pair == nullptr) return {};
  const Leg& leg = end == End::kDialer ? pair->dialer_leg : pair->listener_leg;
  return {connections_, leg.last_given, leg.closed_at};
}

void WireTap::pin() {
  const std::lock_guard lock(mutex_);
  pinned_ = newest_;
}

Task<> WireTap::accept_all() {
  while (true) {
    error_code error;
    auto pair = std::make_shared<Pair>(io_.get_executor());
    pair->dialer = co_await acceptor_.async_accept(catching(error));
    if (error) co_return;
    co_await pair->listener.async_connect(target_, catching(error));
    if (error) {
      reset_on_close(pair->dialer);
      pair->dialer.close(error);
      continue;
    }
    for (tcp::socket* socket : {&pair->dialer, &pair->listener}) {
      socket->set_option(tcp::no_delay(true), error);
    }
    {
      const std::lock_guard lock(mutex_);
      newest_ = pair;
      ++connections_;
      pair->dialer_leg.last_given = pair->listener_leg.last_given = Clock::now();
    }
    start(io_.get_executor(), pass(pair, false));
    start(io_.get_executor(), pass(pair, true));
  }
}

// What `from` closes is closed towards the other in the same way.
Task<> WireTap::pass(std::shared_ptr<Pair> pair, bool to_dialer) {
  tcp::socket& from = to_dialer ? pair->listener : pair->dialer;
  tcp::socket& to = to_dialer ? pair->dialer : pair->listener;
  Leg& given = to_dialer ? pair->dialer_leg : pair->listener_leg;
  Leg& taken = to_dialer ? pair->listener_leg : pair->dialer_leg;
  std::vector<std::byte> block(64 * 1024);
  error_code error;
  while (!error) {
    const std::size_t n = co_await read_some(from, block, error);
    if (error && error != asio::error::operation_aborted) {  // that is the other direction's doing
      const std::lock_guard lock(mutex_);
      if (!taken.closed_at) taken.closed_at = Clock::now();
    }
    for (auto rest = std::span<const std::byte>(block).first(n); !error && !rest.empty();) {
      const std::size_t written = co_await write_some(to, rest, error);
      rest = rest.subspan(written);
      const std::lock_guard lock(mutex_);
      given.last_given = Clock::now();
    }
  }
  error_code ignored;
  if (error == asio::error::eof) {
    to.shutdown(tcp::socket::shutdown_send, ignored);
  } else {
    reset_on_close(to);
    to.close(ignored);
    from.close(ignored);
  }
}

}  // namespace fairlead::e2e
