#include <algorithm>
#include <utility>
#include <vector>

#include "../pattern.h"
#include "visits.h"

namespace fairlead::e2e {

using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kWriteInterval{250};

}  // namespace

Task<std::string> connect_visit(tcp::socket& socket, tcp::endpoint server, Tally& tally, VisitId id,
                                std::optional<int> receive_buffer) {
  error_code error;
  socket.open(server.protocol(), error);
  if (receive_buffer) {
    socket.set_option(asio::socket_base::receive_buffer_size(*receive_buffer), error);
  }
  co_await socket.async_connect(server, catching(error));
  if (error) co_return "connect: " + cause_of(error);
  const auto local = socket.local_endpoint(error);
  if (!error) tally.connected(id, to_text(local));
  socket.set_option(tcp::no_delay(true), error);
  co_return "";
}

EchoVisit::EchoVisit(const asio::any_io_executor& executor, Tally& tally, Options options)
    : tally_(tally),
      options_(std::move(options)),
      socket_(executor),
      watchdog_(socket_, options_.stall_limit),
      pace_(executor) {}

void EchoVisit::start() {
  id_ = tally_.open(Kind::kTcp);

  e2e::start(socket_.get_executor(), run(shared_from_this()));
}

void EchoVisit::close() {
  closing_ = true;
  pace_.cancel();
}

Task<> EchoVisit::run(std::shared_ptr<EchoVisit> self) {
  watchdog_.feed();
  std::string lost = co_await connect_visit(socket_, options_.server, tally_, id_, std::nullopt);
  if (lost.empty()) {
    e2e::start(socket_.get_executor(), write(self));
    const error_code error = co_await read();
    lost = cause(error);
  }
  watchdog_.stop();
  close();
  error_code ignored;
  socket_.close(ignored);
  if (lost.empty()) {
    tally_.finish(id_);
  } else {
    tally_.lose(id_, lost);
  }
}

Task<> EchoVisit::write(std::shared_ptr<EchoVisit> /*keeps it alive*/) {
  const std::size_t block =
      std::max<std::size_t>(1, options_.bytes_per_second * kWriteInterval.count() / 1000);
  while (!closing_) {
    const std::string text = pattern_text(options_.seed, sent_, block);
    sent_ += co_await write_all(socket_, text, write_error_);
    if (write_error_) {
      error_code ignored;
      socket_.close(ignored);  // wakes the reader, which tells the cause
      co_return;
    }
    if (!closing_) co_await wait_until(pace_, Clock::now() + kWriteInterval);
  }
  if (!socket_.is_open()) co_return;
  socket_.shutdown(tcp::socket::shutdown_send, write_error_);
  fin_sent_ = true;
}

Task<error_code> EchoVisit::read() {
  std::vector<std::byte> block(16 * 1024);
  error_code error;
  while (!error && !wrong_at_) {
    const std::size_t n = co_await read_some(socket_, block, error);
    wrong_at_ = first_difference(options_.seed, received_, std::span(block).first(n));
    received_ += n;
    if (n > 0) watchdog_.feed();
  }
  co_return error;
}

std::string EchoVisit::cause(const error_code& error) const {
  if (wrong_at_) return "wrong byte";
  if (watchdog_.fired()) return "stalled";
  if (error == asio::error::eof) {
    if (!fin_sent_) return "ended early";
    return received_ == sent_ ? "" : "short";
  }
  return cause_of(write_error_ ? write_error_ : error);
}

}  // namespace fairlead::e2e
