#include "local/forwarder_process.h"

#include <signal.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "local/durable_file.h"
#include "local/json_time.h"

namespace fairlead::op {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kRetry = 1s;
constexpr auto kStopLimit = 2s;

}  // namespace

ForwarderProcess::ForwarderProcess(std::filesystem::path state, std::filesystem::path binary,
                                   std::string listen, std::function<void(const Event&)> emit)
    : state_(std::move(state)),
      binary_(std::move(binary)),
      listen_(std::move(listen)),
      emit_(std::move(emit)) {
  std::string ignored;
  const auto text = read_file(state_ / "forwarder.json", ignored);
  const json root = json::parse(text.value_or("{}"), nullptr, false);
  if (!root.is_object()) return;
  deaths_ = root.value("deaths", std::uint64_t{0});
  read_member(root, "process", [&](const json& process) {
    process_ = ProcessId{process.value("pid", 0), process.value("start_ticks", std::uint64_t{0}),
                         process.value("boot_id", "")};
  });
}

void ForwarderProcess::check(std::chrono::steady_clock::time_point now) {
  if (process_ && !is_alive(*process_)) report_death();
  if (!process_ && (!tried_at_ || now - *tried_at_ >= kRetry)) {
    tried_at_ = now;
    start();
  }
  if (process_) report_ports();
}

void ForwarderProcess::start() {
  std::string error;
  const std::filesystem::path lock_file = state_ / "forwarder.lock";
  std::optional<LockFile> lock = LockFile::take(lock_file, error);
  if (!lock && error.empty()) {
    // Somebody holds it: an operator died between starting the forwarder and writing it down.
    process_ = find_holder(lock_file);
    if (process_) save();
    return;
  }
  if (lock) {
    const SpawnRequest request{
        {binary_.string(), "--listen", listen_, "--endpoints", (state_ / "endpoints.json").string(),
         "--status", (state_ / "forwarder-status.json").string()},
        state_,
        state_ / "forwarder.log"};
    // Of the process before: its counters are not those of this one.
    remove_file(state_ / "forwarder-status.json");
    process_ = spawn(request, *lock, error);
  }
  if (!process_) {
    if (error != reported_error_) {
      emit_({Event::Type::kWarning, "ForwarderFailed", "", error + "; trying again every second"});
    }
    reported_error_ = error;
    return;
  }
  reported_error_.clear();
  reported_ports_.clear();
  save();
}

void ForwarderProcess::report_death() {
  const std::string how = reap(process_->pid).value_or("how is not known");
  const std::optional<ForwarderStatus> last = status();
  ++deaths_;
  std::string text = "the forwarder ended by itself (" + how + "); ";
  text += last ? "about " + std::to_string(last->counters.live) + " connections were cut"
               : "the connections it had were cut";
  text += "; starting another";
  if (const std::string tail = log_tail(state_ / "forwarder.log", 1, 500); !tail.empty()) {
    text += "; its last words: " + tail;
  }
  emit_({Event::Type::kWarning, "ForwarderDied", "", text});
  process_.reset();
  save();
}

void ForwarderProcess::report_ports() {
  const std::optional<ForwarderStatus> now = status();
  if (!now || now->failed == reported_ports_) return;
  for (const auto& [port, reason] : now->failed) {
    const auto before = reported_ports_.find(port);
    if (before != reported_ports_.end() && before->second == reason) continue;
    emit_({Event::Type::kWarning, "PortNotAvailable", "",
           "nobody is served on " + listen_ + ":" + std::to_string(port) + ": " + reason +
               "; free the port or give another --listen address"});
  }
  reported_ports_ = now->failed;
}

void ForwarderProcess::stop() {
  if (!process_) {
    process_ = find_holder(state_ / "forwarder.lock");
  }
  if (!process_) return;
  send_signal(*process_, SIGTERM);
  const auto end = std::chrono::steady_clock::now() + kStopLimit;
  while (is_alive(*process_) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(5ms);
  }
  send_signal(*process_, SIGKILL);
  reap(process_->pid);
  process_.reset();
  save();
}

std::optional<ForwarderStatus> ForwarderProcess::status() const {
  std::string ignored;
  const auto text = read_file(state_ / "forwarder-status.json", ignored);
  return text ? parse_forwarder_status(*text, ignored) : std::nullopt;
}

void ForwarderProcess::save() {
  json root = {{"deaths", deaths_}, {"process", nullptr}};
  if (process_) {
    root["process"] = {{"pid", process_->pid},
                       {"start_ticks", process_->start_ticks},
                       {"boot_id", process_->boot_id}};
  }
  const auto failed =
      replace_file(state_ / "forwarder.json", root.dump(2) + "\n", Durability::kSynced);
  if (failed) emit_({Event::Type::kWarning, "StateNotWritten", "", *failed});
}

}  // namespace fairlead::op
