#include "link/asio/handshake.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <utility>

#include "link/asio/socket_io.h"

namespace fairlead::link {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

Handshake::Handshake(tcp::socket socket, std::unique_ptr<TlsEngine> engine, PreTls pre_tls,
                     std::shared_ptr<void> slot, Done done)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      engine_(std::move(engine)),
      pre_tls_(std::move(pre_tls)),
      slot_(std::move(slot)),
      done_(std::move(done)) {
  error_code ignored;
  remote_ = source_ = socket_.remote_endpoint(ignored);
}

void Handshake::run(Instant deadline) {
  timer_.expires_at(deadline);
  timer_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled) self->fail("timeout", "the handshake did not finish in time");
  });
  error_code error;
  set_link_options(socket_, error);
  if (error) return fail("closed", error.message());
  if (pre_tls_) {
    wait_readable();
  } else {
    step({});  // a client speaks first
  }
}

void Handshake::cancel() {
  done_ = nullptr;
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
}

void Handshake::wait_readable() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (!error && self->done_) self->on_readable();
  });
}

void Handshake::on_readable() {
  // One read a turn; the hook sees no more than it may hold.
  const auto room = asio::buffer(Scratch::of_thread().cipher_in.data(),
                                 pre_tls_ ? kMaxPreTls - held_.size() : 16 * 1024);
  error_code error;
  const std::size_t n = socket_.read_some(room, error);
  if (error == asio::error::would_block) return wait_readable();
  if (error == asio::error::eof) {
    return fail("closed", "the peer closed the connection before the handshake was done");
  }
  if (error) return fail("closed", "the connection broke during the handshake: " + error.message());
  const Bytes bytes = Bytes(Scratch::of_thread().cipher_in).first(n);
  if (pre_tls_) {
    pre_tls(bytes);
  } else {
    step(bytes);
  }
}

void Handshake::pre_tls(Bytes bytes) {
  held_.insert(held_.end(), bytes.begin(), bytes.end());
  PreTlsResult result = pre_tls_(held_, remote_);
  switch (result.verdict) {
    case PreTlsResult::Verdict::kRefused:
      return fail("pre-tls", std::move(result.text));
    case PreTlsResult::Verdict::kMore:
      if (held_.size() < kMaxPreTls) return wait_readable();
      return fail("pre-tls", "what comes before TLS is longer than 4096 bytes");
    case PreTlsResult::Verdict::kDone:
      break;
  }
  pre_tls_ = nullptr;
  source_ = result.source.value_or(remote_);
  const std::vector<std::byte> held = std::exchange(held_, {});
  step(Bytes(held).subspan(std::min(result.consumed, held.size())));
}

void Handshake::step(Bytes bytes) {
  engine_->give_input(bytes);
  const TlsEngine::Result result = engine_->handshake(unsent_);
  const Bytes rest = engine_->take_input();
  switch (result) {
    case TlsEngine::Result::kDone:
      return succeed(rest);
    case TlsEngine::Result::kMore:
      if (flush()) wait_readable();
      return;
    case TlsEngine::Result::kEnded:
    case TlsEngine::Result::kFailed:
      send_alert();
      return fail(engine_->failure().cause, engine_->failure().text);
  }
}

// Written if the socket takes it; nobody waits for that, and an error here would hide the cause.
void Handshake::send_alert() {
  error_code ignored;
  socket_.write_some(asio::buffer(unsent_), ignored);
}

// False when the connection broke.
bool Handshake::flush() {
  while (!unsent_.empty() && !waiting_write_) {
    error_code error;
    const std::size_t n = socket_.write_some(asio::buffer(unsent_), error);
    if (error == asio::error::would_block) {
      waiting_write_ = true;
      socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code failed) {
        self->waiting_write_ = false;
        if (!failed && self->done_) self->flush();
      });
      return true;
    }
    if (error) {
      fail("closed", "the connection broke during the handshake: " + error.message());
      return false;
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return true;
}

void Handshake::succeed(Bytes rest) {
  if (!flush() || !done_) return;
  timer_.cancel();
  error_code ignored;
  socket_.cancel(ignored);
  auto channel = std::make_unique<TlsChannel>(TlsChannel{std::move(socket_),
                                                         std::move(engine_),
                                                         {rest.begin(), rest.end()},
                                                         std::move(unsent_),
                                                         remote_,
                                                         source_});
  slot_.reset();
  std::exchange(done_, nullptr)(std::move(channel), {});
}

void Handshake::fail(std::string_view cause, std::string text) {
  if (!done_) return;
  timer_.cancel();
  error_code ignored;
  socket_.cancel(ignored);
  const Done done = std::exchange(done_, nullptr);
  linger_and_close(std::move(socket_), [slot = std::move(slot_)] {});
  done(nullptr, {cause, std::move(text)});
}

}  // namespace fairlead::link
