// The forwarder as a process that the operator starts, takes over and watches.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "local/child_process.h"
#include "local/endpoints.h"
#include "reconcile/backend.h"

namespace fairlead::op {

// One thread. Its files in the state folder: forwarder.lock (held by the process), forwarder.json
// (which process, how often one died), endpoints.json, forwarder-status.json, forwarder.log.
class ForwarderProcess {
 public:
  ForwarderProcess(std::filesystem::path state, std::filesystem::path binary, std::string listen,
                   std::function<void(const Event&)> emit);

  // Starts the forwarder when none runs, at most once a second, and reports what changed: a death,
  // with how many connections it cut, and ports that it cannot listen on.
  void check(std::chrono::steady_clock::time_point now);

  // Ends the process and waits for it, at most about two seconds.
  void stop();

  bool running() const { return process_.has_value(); }
  std::optional<ForwarderStatus> status() const;

 private:
  void start();
  void report_death();
  void report_ports();
  void save();

  const std::filesystem::path state_;
  const std::filesystem::path binary_;
  const std::string listen_;
  const std::function<void(const Event&)> emit_;
  std::optional<ProcessId> process_;
  std::uint64_t deaths_ = 0;
  std::optional<std::chrono::steady_clock::time_point> tried_at_;
  std::map<std::uint16_t, std::string> reported_ports_;
  std::string reported_error_;
};

}  // namespace fairlead::op
