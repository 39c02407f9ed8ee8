#include <algorithm>
#include <utility>
#include <vector>

#include "../pattern.h"
#include "visits.h"

namespace fairlead::e2e {

using boost::system::error_code;

Download::Download(const asio::any_io_executor& executor, Tally& tally, Options options)
    : tally_(tally),
      options_(std::move(options)),
      socket_(executor),
      watchdog_(socket_, options_.stall_limit),
      pace_(executor) {}

void Download::start() {
  id_ = tally_.open(Kind::kDownload);

  e2e::start(socket_.get_executor(), run(shared_from_this()));
}

void Download::set_rate(std::uint64_t bytes_per_second) {
  options_.bytes_per_second = bytes_per_second;
  pace_from_bytes_ = received_;
  pace_from_ = Clock::now();
  pace_.cancel();
}

Task<> Download::run(std::shared_ptr<Download> /*keeps it alive*/) {
  watchdog_.feed();
  std::string lost =
      co_await connect_visit(socket_, options_.server, tally_, id_, options_.receive_buffer);
  if (lost.empty()) lost = co_await transfer();
  if (watchdog_.fired()) lost = "stalled";
  end(lost);
}

void Download::end(const std::string& cause) {
  watchdog_.stop();
  error_code ignored;
  socket_.close(ignored);
  ended_at_ = Clock::now();
  if (cause.empty()) {
    tally_.finish(id_);
  } else {
    tally_.lose(id_, cause);
  }
}

Task<std::string> Download::transfer() {
  const std::string request =
      "GET " + std::to_string(options_.size) + " " + std::to_string(options_.seed) + "\n";
  error_code error;
  co_await write_all(socket_, request, error);
  if (error) co_return cause_of(error);
  pace_from_ = Clock::now();
  Digest digest;
  std::vector<std::byte> block(64 * 1024);
  while (true) {
    co_await keep_pace();
    const std::size_t n = co_await read_some(socket_, block, error);
    const auto part = std::span(block).first(n);
    if (first_difference(options_.seed, received_, part)) co_return "wrong byte";
    digest.update(part);
    received_ += n;
    if (n > 0) watchdog_.feed();
    if (error == asio::error::eof) break;
    if (error) co_return cause_of(error);
  }
  if (received_ != options_.size) co_return "short";
  co_return digest.hex() == options_.sha256 ? "" : "wrong hash";
}

// Sleeps until what was read is no more than the rate allows; a wait is no stall.
Task<> Download::keep_pace() {
  while (options_.bytes_per_second != kUnlimited && socket_.is_open()) {
    watchdog_.feed();
    auto until = Clock::now() + std::chrono::milliseconds(100);
    if (options_.bytes_per_second > 0) {
      const double seconds = static_cast<double>(received_ - pace_from_bytes_) /
                             static_cast<double>(options_.bytes_per_second);
      const auto due = pace_from_ + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
      if (due <= Clock::now()) co_return;
      until = std::min(until, due);
    }
    co_await wait_until(pace_, until);
  }
}

}  // namespace fairlead::e2e
