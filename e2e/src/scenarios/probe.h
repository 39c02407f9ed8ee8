// A visitor that moves bytes until its connection ends, and tells how it ended and whether what it
// saw could be taken for a whole.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../net.h"

namespace fairlead::e2e {

struct ProbeEnd {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::string how;          // "fin", "reset", or the system's words; "" while it lives
  bool last_chunk = false;  // the end of what came is a final chunk of HTTP/1.1
  std::string head;         // the first bytes of what came: "HTTP/1.1 502"
};

class Probe {
 public:
  struct Options {
    tcp::endpoint server;
    std::string request;                         // sent first
    bool upload = false;                         // then sends chunks of 1000 bytes without end
    bool chunked = false;                        // the upload in the chunked coding
    std::uint64_t bytes_per_second = 1'000'000;  // at which it reads or writes
  };

  Probe(const asio::any_io_executor& executor, Options options);
  void start();
  std::uint64_t moved() const { return moved_; }
  bool ended() const { return ended_; }
  ProbeEnd end() const { return end_; }  // once ended()

 private:
  Task<> run();
  Task<> write_on();

  Options options_;
  tcp::socket socket_;
  ProbeEnd end_;
  std::atomic<std::uint64_t> moved_ = 0;
  std::atomic<bool> ended_ = false;
};

// Probes on a thread of their own.
class Probes {
 public:
  Probes();
  ~Probes();
  Probe& open(Probe::Options options);
  bool all_ended() const;
  bool all_moved(std::uint64_t bytes) const;

 private:
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::unique_ptr<Probe>> probes_;
  std::thread thread_;
};

}  // namespace fairlead::e2e
