#include "link/asio/link_listener.h"

#include <sys/socket.h>

#include <utility>

#include "link/asio/socket_io.h"

namespace fairlead::link {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Until descriptors or memory may be had again.
constexpr std::chrono::milliseconds kRetryAfter{100};
// The backlog of a reconnect storm; the kernel lowers it to net.core.somaxconn.
constexpr int kBacklog = 4096;

}  // namespace

std::shared_ptr<LinkListener> LinkListener::listen(asio::io_context& io, ListenOptions options,
                                                   OnLink on_link, OnFailure on_failure,
                                                   std::string& error) {
  // What does not fit is an error of the configuration and not of the first peer.
  if (!TlsEngine::server(*options.identity, options.policy, error)) return nullptr;
  auto listener = std::make_shared<LinkListener>(Private(), io, std::move(options),
                                                 std::move(on_link), std::move(on_failure));
  if (!listener->open(error)) return nullptr;
  listener->accept();
  return listener;
}

LinkListener::LinkListener(Private, asio::io_context& io, ListenOptions options, OnLink on_link,
                           OnFailure on_failure)
    : options_(std::move(options)),
      on_link_(std::move(on_link)),
      on_failure_(std::move(on_failure)),
      acceptor_(io),
      retry_(io) {
  options_.config.side = Side::kListener;
}

bool LinkListener::open(std::string& error) {
  error_code code;
  const auto failed = [&](const char* step) {
    if (code) {
      error =
          "cannot listen on " + to_text(options_.endpoint) + ": " + step + ": " + code.message();
    }
    return static_cast<bool>(code);
  };
  acceptor_.open(options_.endpoint.protocol(), code);
  if (failed("socket")) return false;
  acceptor_.set_option(tcp::acceptor::reuse_address(true), code);
  if (options_.reuse_port) {
    const int on = 1;
    setsockopt(acceptor_.native_handle(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  }
  acceptor_.bind(options_.endpoint, code);
  if (failed("bind")) return false;
  acceptor_.listen(kBacklog, code);
  if (failed("listen")) return false;
  acceptor_.non_blocking(true, code);
  endpoint_ = acceptor_.local_endpoint(code);
  return true;
}

void LinkListener::accept() {
  if (accepting_ || !acceptor_.is_open() || slots_taken_ >= options_.max_handshakes) return;
  accepting_ = true;
  acceptor_.async_accept([weak = weak_from_this()](error_code error, tcp::socket socket) {
    const auto self = weak.lock();
    if (!self) return;
    self->accepting_ = false;
    if (!self->acceptor_.is_open()) return;
    if (error) return self->accept_failed(error);
    self->accepted(std::move(socket));
    self->accept();
  });
}

void LinkListener::accept_failed(error_code error) {
  // Errors of the connection itself concern nobody but the peer that is gone.
  const bool exhausted = error == asio::error::no_descriptors ||
                         error == boost::system::errc::too_many_files_open_in_system ||
                         error == asio::error::no_buffer_space || error == asio::error::no_memory;
  if (!exhausted) return accept();
  accepting_ = true;
  retry_.expires_after(kRetryAfter);
  retry_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self) return;
    self->accepting_ = false;
    self->accept();
  });
  on_failure_({"accept", "cannot accept connections now: " + error.message(), {}});
}

void LinkListener::accepted(tcp::socket socket) {
  std::string error;
  auto engine = TlsEngine::server(*options_.identity, options_.policy, error);
  error_code ignored;
  const tcp::endpoint from = socket.remote_endpoint(ignored);
  if (!engine) return on_failure_({"tls", std::move(error), from});
  ++slots_taken_;
  std::shared_ptr<void> slot(nullptr, [weak = weak_from_this()](void*) {
    if (const auto self = weak.lock()) self->slot_freed();
  });
  // The handshake is found again by its address, since its callback cannot own it.
  auto key = std::make_shared<std::weak_ptr<Handshake>>();
  auto handshake = std::make_shared<Handshake>(
      std::move(socket), std::move(engine), options_.pre_tls, std::move(slot),
      [weak = weak_from_this(), key, from](std::unique_ptr<TlsChannel> channel,
                                           TlsFailure failure) {
        const auto self = weak.lock();
        if (!self) return;
        self->handshakes_.erase(key->lock());
        if (channel) {
          self->on_link_(std::make_shared<LinkSocket>(std::move(channel), self->options_.config));
        } else {
          self->on_failure_({failure.cause, std::move(failure.text), from});
        }
      });
  *key = handshake;
  handshakes_.insert(handshake);
  handshake->run(LinkSocket::now() + options_.handshake_timeout);
}

void LinkListener::slot_freed() {
  --slots_taken_;
  accept();
}

void LinkListener::stop() {
  error_code error;
  while (acceptor_.is_open()) {
    tcp::socket socket(acceptor_.get_executor());
    acceptor_.accept(socket, error);
    if (error) break;
    accepted(std::move(socket));
  }
  acceptor_.close(error);
  retry_.cancel();
}

void LinkListener::close() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  const auto handshakes = std::exchange(handshakes_, {});
  for (const auto& handshake : handshakes) handshake->cancel();
}

}  // namespace fairlead::link
