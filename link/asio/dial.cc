#include "link/asio/dial.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <utility>

#include "link/asio/socket_io.h"

namespace fairlead::link {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::shared_ptr<Dial> dial(asio::io_context& io, DialOptions options, Dial::Done done) {
  auto made = std::make_shared<Dial>(Dial::Private(), io, std::move(options), std::move(done));
  asio::post(io, [made] { made->begin(); });
  return made;
}

Dial::Dial(Private, asio::io_context& io, DialOptions options, Done done)
    : options_(std::move(options)),
      done_(std::move(done)),
      deadline_(LinkSocket::now() + options_.timeout),
      resolver_(io),
      socket_(io),
      timer_(io) {
  options_.config.side = Side::kDialer;
  if (options_.policy.host.empty() && !options_.policy.check) options_.policy.host = options_.host;
}

void Dial::cancel() {
  done_ = nullptr;
  resolver_.cancel();
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
  if (const auto handshake = handshake_.lock()) handshake->cancel();
}

void Dial::begin() {
  if (!done_) return;
  // An address needs no resolver, which would cost a thread.
  error_code error;
  const auto address = asio::ip::make_address(options_.host, error);
  std::uint16_t port = 0;
  const auto* end = options_.port.data() + options_.port.size();
  const auto [stop, wrong] = std::from_chars(options_.port.data(), end, port);
  if (!error && wrong == std::errc() && stop == end) {
    endpoints_.emplace_back(address, port);
    return try_next();
  }
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (cancelled) return;
    self->resolver_.cancel();
    self->finish(nullptr, "cannot resolve " + self->target() + ": no answer in time");
  });
  resolver_.async_resolve(options_.host, options_.port,
                          [self = shared_from_this()](error_code failed, auto results) {
                            self->resolved(failed, results);
                          });
}

void Dial::resolved(error_code error, const tcp::resolver::results_type& results) {
  if (!done_) return;
  timer_.cancel();
  if (error) return finish(nullptr, "cannot resolve " + target() + ": " + error.message());
  for (const auto& result : results) endpoints_.push_back(result.endpoint());
  try_next();
}

void Dial::try_next() {
  const Instant at = LinkSocket::now();
  if (next_ == endpoints_.size() || at >= deadline_) {
    return finish(nullptr, "cannot reach " + target() + ": " + errors_);
  }
  attempt_deadline_ = at + (deadline_ - at) / static_cast<long>(endpoints_.size() - next_);
  const tcp::endpoint endpoint = endpoints_[next_];
  error_code error;
  socket_ = tcp::socket(socket_.get_executor());
  socket_.open(endpoint.protocol(), error);
  if (error) return failed_here(error.message());
  timer_.expires_at(attempt_deadline_);
  timer_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (cancelled) return;
    error_code ignored;
    self->socket_.close(ignored);  // the connect below ends with operation_aborted
  });
  socket_.async_connect(endpoint, [self = shared_from_this()](error_code failed) {
    if (self->done_) self->connected(failed);
  });
}

void Dial::connected(error_code error) {
  timer_.cancel();
  if (error == asio::error::operation_aborted || !socket_.is_open()) {
    return failed_here("no answer in time");
  }
  if (error) return failed_here(error.message());
  std::string text;
  auto engine = TlsEngine::client(*options_.identity, options_.policy, text);
  if (!engine) return failed_here(std::move(text));
  const auto handshake = std::make_shared<Handshake>(
      std::move(socket_), std::move(engine), nullptr, nullptr,
      [self = shared_from_this()](std::unique_ptr<TlsChannel> channel, TlsFailure failure) {
        if (!channel) return self->failed_here(std::move(failure.text));
        self->finish(std::make_shared<LinkSocket>(std::move(channel), self->options_.config), {});
      });
  handshake_ = handshake;
  handshake->run(attempt_deadline_);
}

void Dial::failed_here(std::string text) {
  errors_ += (errors_.empty() ? "" : "; ") + to_text(endpoints_[next_]) + ": " + text;
  ++next_;
  try_next();
}

void Dial::finish(std::shared_ptr<LinkSocket> link, std::string error) {
  if (!done_) return;
  timer_.cancel();
  std::exchange(done_, nullptr)(std::move(link), std::move(error));
}

}  // namespace fairlead::link
