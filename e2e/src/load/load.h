// All visits of a run, on a thread of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../tally.h"
#include "http.h"
#include "visits.h"

namespace fairlead::e2e {

// Every second the thread checks the tally's invariant; the first breach is kept and ends any
// claim. All calls may come from any one other thread and return when the thread has done them.
class Load {
 public:
  struct Snapshot {
    Counts tcp;
    Counts download;
    Counts http;
    std::uint64_t echo_bytes = 0;      // received by echo visits
    std::uint64_t download_bytes = 0;  // received by downloads
    std::uint64_t http_reopened = 0;
    std::string broken;  // the tally's invariant did not hold
  };

  Load();
  ~Load();  // drops what still runs

  void open_echoes(std::size_t count, const EchoVisit::Options& first);
  void open_downloads(std::size_t count, const Download::Options& each);
  void start_http(const HttpLoad::Options& options);

  void close_echoes();
  void set_download_rate(std::uint64_t bytes_per_second);
  void stop_http();

  Snapshot snapshot();
  std::vector<LostVisit> lost();
  // When the last of the downloads that have ended did.
  Clock::time_point last_download_end();
  std::vector<std::string> live_visitors(Kind kind);

 private:
  template <typename F>
  auto on_thread(F call);
  Task<> watch();

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Tally tally_;
  std::vector<std::shared_ptr<EchoVisit>> echoes_;
  std::vector<std::shared_ptr<Download>> downloads_;
  std::shared_ptr<HttpLoad> http_;
  std::string broken_;
  std::thread thread_;
};

std::uint64_t lost_in(const Load::Snapshot& snapshot);
std::uint64_t live_in(const Load::Snapshot& snapshot);

// "tcp 40 live | downloads 8 live, 120 MiB | http 950 done | lost 0": for one line of progress.
std::string one_line(const Load::Snapshot& snapshot);

}  // namespace fairlead::e2e
