#include "link/asio/link_socket.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "link/asio/socket_io.h"

namespace fairlead::link {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// A turn ends after this many reads or writes of up to 64 KiB, so that one link leaves room for the
// others of its thread.
constexpr int kReadsPerTurn = 4;
constexpr int kWritesPerTurn = 4;
// Before a timer judges the peer: more than any socket buffer holds.
constexpr int kReadsBeforeTimer = 256;
constexpr std::size_t kLeastBatch = kMaxDataPayload + 8;
constexpr std::size_t kMostBatch = sizeof(Scratch::plain_out);
// The core writes only when nothing is left unsent, so what exceeds this are answers that the peer
// made TLS itself give (key updates) without reading them.
constexpr std::size_t kMostUnsent = 256 * 1024;
// The kernel's timeout comes after the core's own verdict on the same silence, which says more.
constexpr std::chrono::milliseconds kUserTimeoutSlack{500};
constexpr std::chrono::seconds kRttEvery{1};

}  // namespace

LinkSocket::LinkSocket(std::unique_ptr<TlsChannel> channel, const Config& config)
    : channel_(std::move(channel)),
      socket_(channel_->socket),
      engine_(*channel_->engine),
      unsent_(channel_->unsent),
      timer_(socket_.get_executor()),
      connection_(config, now()),
      batch_(kMostBatch),
      last_progress_(now()) {
  set_user_timeout(socket_, config.liveness.bound() + kUserTimeoutSlack);
}

LinkSocket::~LinkSocket() = default;

void LinkSocket::start(LinkHandler* handler) {
  handler_ = handler;
  state_ = State::kOpen;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->in_turn_ = true;
    const std::vector<std::byte> early = std::exchange(self->channel_->early, {});
    self->decrypt(early);
    self->in_turn_ = false;
    self->wait_readable();
    self->pump();
  });
}

void LinkSocket::wake() {
  if (in_turn_ || wake_posted_ || state_ == State::kReady) return;
  wake_posted_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->wake_posted_ = false;
    self->pump();
  });
}

void LinkSocket::abort(std::string text) {
  connection_.transport_ended(CutKind::kTransport, std::move(text), now());
  wake();
}

// --- reading ---

void LinkSocket::wait_readable() {
  if (state_ != State::kOpen) return;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (!error) self->read_turn();
  });
}

void LinkSocket::read_turn() {
  if (state_ != State::kOpen) return;
  in_turn_ = true;
  const Drained drained = read_available(kReadsPerTurn);
  in_turn_ = false;
  if (drained == Drained::kYes) wait_readable();
  if (drained == Drained::kNo) {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->read_turn(); });
  }
  pump();
}

LinkSocket::Drained LinkSocket::read_available(int turns) {
  auto& buffer = Scratch::of_thread().cipher_in;
  for (int turn = 0; turn < turns; ++turn) {
    if (connection_.closed()) return Drained::kOver;
    error_code error;
    const std::size_t n = socket_.read_some(asio::buffer(buffer), error);
    ++stats_.reads;
    if (error == asio::error::would_block) return Drained::kYes;
    if (error == asio::error::eof) {
      connection_.transport_ended(
          CutKind::kEnded, "the connection ended (FIN) without CLOSE and without close_notify",
          now());
    } else if (error) {
      connection_.transport_ended(CutKind::kTransport, "reading failed: " + error.message(), now());
    } else {
      stats_.bytes_in += n;
      decrypt(Bytes(buffer).first(n));
    }
    dispatch();
    if (n > 0 && n < buffer.size()) return Drained::kYes;
  }
  return connection_.closed() ? Drained::kOver : Drained::kNo;
}

void LinkSocket::decrypt(Bytes ciphertext) {
  auto& plain = Scratch::of_thread().plain_in;
  engine_.give_input(ciphertext);
  const Instant at = now();
  while (!connection_.closed()) {
    std::size_t n = 0;
    const TlsEngine::Result result = engine_.read(plain, n, unsent_);
    if (result == TlsEngine::Result::kMore) break;
    if (result == TlsEngine::Result::kDone) {
      connection_.receive(Bytes(plain).first(n), at);
    } else if (result == TlsEngine::Result::kEnded) {
      connection_.transport_ended(CutKind::kEnded, "TLS ended (close_notify) without CLOSE", at);
    } else {
      connection_.transport_ended(CutKind::kTransport, engine_.failure().text, at);
    }
    dispatch();
  }
  engine_.take_input();
  if (unsent_.size() > kMostUnsent) {
    connection_.transport_ended(CutKind::kTransport,
                                "the peer asks for TLS key updates and does not read", at);
    dispatch();
  }
}

// --- writing ---

void LinkSocket::wait_writable() {
  if (std::exchange(waiting_write_, true)) return;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code error) {
    self->waiting_write_ = false;
    if (error) return;
    self->sent_unchecked_ = 0;
    self->pump();
  });
}

// Asking costs a system call, so it is asked once for each low-water mark of bytes.
bool LinkSocket::room() {
  if (sent_unchecked_ < kNotSentLowWater) return true;
  if (!has_room(socket_)) return false;
  sent_unchecked_ = 0;
  return true;
}

void LinkSocket::pump() {
  if (state_ != State::kOpen) {
    if (state_ == State::kFlushing) end_in_order();
    return;
  }
  const auto self = shared_from_this();
  in_turn_ = true;
  dispatch();
  int writes = 0;
  while (writes < kWritesPerTurn && write_once()) ++writes;
  in_turn_ = false;
  if (writes == kWritesPerTurn) wake();
  settle();
}

// One batch; false when there is nothing to send or no room.
bool LinkSocket::write_once() {
  if (waiting_write_ || !flush_unsent() || !connection_.wants_write()) return false;
  if (!room()) {
    wait_writable();
    return false;
  }
  Scratch& scratch = Scratch::of_thread();
  const std::size_t n = connection_.produce(std::span(scratch.plain_out).first(batch_), now());
  if (n > 0) {
    scratch.cipher_out.clear();
    if (engine_.write(Bytes(scratch.plain_out).first(n), scratch.cipher_out)) {
      send(scratch.cipher_out);
    } else {
      connection_.transport_ended(CutKind::kTransport, engine_.failure().text, now());
    }
  }
  dispatch();
  return n > 0;
}

void LinkSocket::send(const std::vector<std::byte>& ciphertext) {
  error_code error;
  const std::size_t n = socket_.write_some(asio::buffer(ciphertext), error);
  ++stats_.writes;
  if (error && error != asio::error::would_block) return write_failed(error);
  stats_.bytes_out += n;
  sent_unchecked_ += n;
  if (n > 0) last_progress_ = now();
  if (n == ciphertext.size()) {
    batch_ = std::min(batch_ * 2, kMostBatch);
    return;
  }
  // A kernel that takes less than a batch gets smaller ones: what was encrypted cannot be
  // reordered.
  batch_ = kLeastBatch;
  unsent_.assign(ciphertext.begin() + static_cast<std::ptrdiff_t>(n), ciphertext.end());
  wait_writable();
}

// True when nothing is left.
bool LinkSocket::flush_unsent() {
  if (unsent_.empty()) return true;
  if (waiting_write_) return false;
  error_code error;
  const std::size_t n = socket_.write_some(asio::buffer(unsent_), error);
  ++stats_.writes;
  if (error && error != asio::error::would_block) {
    write_failed(error);
    return false;
  }
  stats_.bytes_out += n;
  sent_unchecked_ += n;
  if (n > 0) last_progress_ = now();
  if (n == unsent_.size()) {
    std::vector<std::byte>().swap(unsent_);  // an idle link keeps no buffer
    return true;
  }
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(n));
  wait_writable();
  return false;
}

// The peer may have said why before it went: its CLOSE can wait unread behind the error.
void LinkSocket::write_failed(error_code error) {
  unsent_.clear();
  if (state_ == State::kOpen) read_available(kReadsBeforeTimer);
  connection_.transport_ended(CutKind::kTransport, "writing failed: " + error.message(), now());
}

// --- events, timers, the end ---

void LinkSocket::dispatch() {
  while (auto event = connection_.poll_event()) {
    if (const auto* up = std::get_if<event::Up>(&*event)) {
      set_user_timeout(socket_, up->liveness.bound() + kUserTimeoutSlack);
    } else if (auto* over = std::get_if<event::Closed>(&*event)) {
      cut_ = over->cut;
    }
    if (handler_ != nullptr) handler_->on_event(*this, std::move(*event));
  }
}

// After every turn: is the link over, when to look again.
void LinkSocket::settle() {
  if (state_ == State::kOpen && connection_.done()) {
    const bool in_order =
        cut_ && (cut_->kind == CutKind::kPeerClosed || cut_->kind == CutKind::kClosed ||
                 cut_->kind == CutKind::kProtocolError);
    if (!in_order) return close(!cut_ || cut_->kind != CutKind::kEnded);
    state_ = State::kFlushing;
    end_by_ = now() + kLinger;
    engine_.close_notify(unsent_);
    return end_in_order();
  }
  measure_rtt();
  arm_timer();
}

// close_notify is queued: once it is written, FIN, and wait for the peer's.
void LinkSocket::end_in_order() {
  if (!flush_unsent()) {
    // write_failed() empties the queue, else the socket is waited for.
    return unsent_.empty() ? close(false) : arm_timer();
  }
  state_ = State::kLingering;
  timer_.cancel();
  error_code ignored;
  socket_.cancel(ignored);
  linger_and_close(std::move(socket_), [self = shared_from_this()] { self->closed(); });
}

void LinkSocket::close(bool reset) {
  state_ = State::kLingering;
  timer_.cancel();
  error_code ignored;
  if (reset) {
    close_with_reset(socket_);
  } else {
    socket_.close(ignored);
  }
  asio::post(timer_.get_executor(), [self = shared_from_this()] { self->closed(); });
}

void LinkSocket::closed() {
  state_ = State::kClosed;
  if (handler_ != nullptr) std::exchange(handler_, nullptr)->on_closed(*this);
}

std::optional<Instant> LinkSocket::deadline() const {
  if (state_ == State::kFlushing) return end_by_;
  if (state_ != State::kOpen) return std::nullopt;
  if (connection_.closed()) return last_progress_ + connection_.liveness().bound();
  return connection_.next_deadline();
}

// The timer is set earlier at once and later only when it fires: deadlines move with every byte.
void LinkSocket::arm_timer() {
  const std::optional<Instant> wanted = deadline();
  if (!wanted || (armed_ && *armed_ <= *wanted)) return;
  armed_ = std::max(*wanted, timer_floor_);
  timer_.expires_at(*armed_);
  timer_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled) self->on_timer();
  });
}

void LinkSocket::on_timer() {
  armed_.reset();
  // A deadline that stays in the past while the socket takes nothing must not make this spin.
  timer_floor_ = now() + std::chrono::milliseconds(5);
  if (state_ == State::kFlushing) {
    if (now() >= end_by_) return close(true);
    return arm_timer();
  }
  if (state_ != State::kOpen) return;
  if (const auto due = deadline(); due && now() >= *due) {
    // What close() left to be sent makes no progress.
    if (connection_.closed()) return close(true);
    in_turn_ = true;
    if (read_available(kReadsBeforeTimer) != Drained::kOver) connection_.on_timer(now());
    in_turn_ = false;
  }
  pump();
}

void LinkSocket::measure_rtt() {
  const Instant at = now();
  if (at < rtt_at_ + kRttEvery) return;
  rtt_at_ = at;
  if (const auto rtt = smoothed_rtt(socket_); rtt.count() > 0) connection_.set_rtt(rtt);
}

}  // namespace fairlead::link
