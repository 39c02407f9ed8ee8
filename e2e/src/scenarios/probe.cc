#include "probe.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "../pattern.h"

namespace fairlead::e2e {

using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t kBlock = 10'000;
constexpr std::size_t kHead = 12;
constexpr std::string_view kFinalChunk = "0\r\n\r\n";

std::string how_of(const error_code& error) {
  return error == asio::error::eof ? "fin" : cause_of(error);
}

}  // namespace

Probe::Probe(const asio::any_io_executor& executor, Options options)
    : options_(std::move(options)), socket_(executor) {}

void Probe::start() {
  asio::post(socket_.get_executor(), [this] { e2e::start(socket_.get_executor(), run()); });
}

Task<> Probe::write_on() {
  asio::steady_timer timer(socket_.get_executor());
  const auto began = Clock::now();
  while (!ended_) {
    std::string text = pattern_text(1, end_.sent, 1000);
    end_.sent += text.size();
    if (options_.chunked) text = "3e8\r\n" + text + "\r\n";
    error_code error;
    co_await write_all(socket_, text, error);
    if (error) co_return;  // the reader tells how it ended
    moved_ = end_.sent;
    co_await wait_until(timer, began + milliseconds(1000 * end_.sent / options_.bytes_per_second));
  }
}

Task<> Probe::run() {
  error_code error;
  co_await socket_.async_connect(options_.server, catching(error));
  if (!error) co_await write_all(socket_, options_.request, error);
  if (!error && options_.upload) e2e::start(socket_.get_executor(), write_on());
  asio::steady_timer timer(socket_.get_executor());
  const auto began = Clock::now();
  std::vector<std::byte> block(kBlock);
  std::string tail;
  while (!error) {
    const std::size_t n = co_await read_some(socket_, block, error);
    end_.received += n;
    end_.head.append(reinterpret_cast<const char*>(block.data()),
                     std::min(n, kHead - end_.head.size()));
    tail.append(reinterpret_cast<const char*>(block.data()), n);
    tail.erase(0, tail.size() - std::min(tail.size(), kFinalChunk.size()));
    if (options_.upload) continue;
    moved_ = end_.received;
    co_await wait_until(timer,
                        began + milliseconds(1000 * end_.received / options_.bytes_per_second));
  }
  end_.how = how_of(error);
  end_.last_chunk = tail == kFinalChunk;
  ended_ = true;
}

Probes::Probes() : work_(io_.get_executor()), thread_([this] { io_.run(); }) {}

Probes::~Probes() {
  io_.stop();
  thread_.join();
}

Probe& Probes::open(Probe::Options options) {
  probes_.push_back(std::make_unique<Probe>(io_.get_executor(), std::move(options)));
  probes_.back()->start();
  return *probes_.back();
}

bool Probes::all_ended() const {
  return std::all_of(probes_.begin(), probes_.end(), [](const auto& p) { return p->ended(); });
}

bool Probes::all_moved(std::uint64_t bytes) const {
  return std::all_of(probes_.begin(), probes_.end(),
                     [&](const auto& p) { return p->moved() >= bytes; });
}

}  // namespace fairlead::e2e
