#include "load.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

namespace fairlead::e2e {

Load::Load() : work_(io_.get_executor()) {
  start(io_.get_executor(), watch());
  thread_ = std::thread([this] { io_.run(); });
}

Load::~Load() {
  io_.stop();
  thread_.join();
}

template <typename F>
auto Load::on_thread(F call) {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto result = task.get_future();
  asio::post(io_, std::move(task));
  return result.get();
}

Task<> Load::watch() {
  asio::steady_timer timer(io_);
  for (auto due = Clock::now();; due += std::chrono::seconds(1)) {
    if (broken_.empty()) broken_ = tally_.broken();
    co_await wait_until(timer, due);
  }
}

void Load::open_echoes(std::size_t count, const EchoVisit::Options& first) {
  on_thread([&] {
    for (std::size_t i = 0; i < count; ++i) {
      EchoVisit::Options options = first;
      options.seed += i;
      echoes_.push_back(std::make_shared<EchoVisit>(io_.get_executor(), tally_, options));
      echoes_.back()->start();
    }
  });
}

void Load::open_downloads(std::size_t count, const Download::Options& each) {
  on_thread([&] {
    for (std::size_t i = 0; i < count; ++i) {
      downloads_.push_back(std::make_shared<Download>(io_.get_executor(), tally_, each));
      downloads_.back()->start();
    }
  });
}

void Load::start_http(const HttpLoad::Options& options) {
  on_thread([&] {
    http_ = std::make_shared<HttpLoad>(io_.get_executor(), tally_, options);
    http_->start();
  });
}

void Load::close_echoes() {
  on_thread([&] {
    for (const auto& echo : echoes_) echo->close();
  });
}

void Load::set_download_rate(std::uint64_t bytes_per_second) {
  on_thread([&] {
    for (const auto& download : downloads_) download->set_rate(bytes_per_second);
  });
}

void Load::stop_http() {
  on_thread([&] {
    if (http_) http_->stop();
  });
}

Load::Snapshot Load::snapshot() {
  return on_thread([&] {
    Snapshot s{tally_.counts(Kind::kTcp), tally_.counts(Kind::kDownload),
               tally_.counts(Kind::kHttp)};
    for (const auto& echo : echoes_) s.echo_bytes += echo->received();
    for (const auto& download : downloads_) s.download_bytes += download->received();
    if (http_) s.http_reopened = http_->reopened();
    s.broken = broken_.empty() ? tally_.broken() : broken_;
    return s;
  });
}

std::vector<LostVisit> Load::lost() {
  return on_thread([&] { return tally_.lost(); });
}

Clock::time_point Load::last_download_end() {
  return on_thread([&] {
    Clock::time_point last{};
    for (const auto& download : downloads_) last = std::max(last, download->ended_at());
    return last;
  });
}

std::vector<std::string> Load::live_visitors(Kind kind) {
  return on_thread([&] { return tally_.live_visitors(kind); });
}

std::uint64_t lost_in(const Load::Snapshot& s) {
  return s.tcp.lost + s.download.lost + s.http.lost;
}

std::uint64_t live_in(const Load::Snapshot& s) {
  return s.tcp.live + s.download.live + s.http.live;
}

std::string one_line(const Load::Snapshot& s) {
  return "tcp " + std::to_string(s.tcp.live) + " live | downloads " +
         std::to_string(s.download.live) + " live, " + std::to_string(s.download_bytes >> 20U) +
         " MiB | http " + std::to_string(s.http.finished) + " done | lost " +
         std::to_string(lost_in(s));
}

}  // namespace fairlead::e2e
