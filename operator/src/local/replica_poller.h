// Watches one replica: asks its health endpoint and its Admin service, over and over, on a thread
// of its own, and keeps the last answers with their age. A replica that hangs stalls only its
// poller.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "admin/admin_client.h"
#include "local/child_process.h"
#include "plan/replica.h"

namespace fairlead::op {

// GET `path` from an address: the HTTP status, or nullopt when there was no answer in time.
std::optional<int> http_get_status(const std::string& address, std::uint16_t port,
                                   const std::string& path, std::chrono::milliseconds limit);

struct ReplicaView {
  bool ready = false;
  std::chrono::steady_clock::time_point ready_since{};  // `ready` is what it is
  std::optional<AdminSample> sample;  // with its age at the moment of the question
  std::string certificate_serial;     // that it serves; "" while not known
};

class ReplicaPoller {
 public:
  struct Target {
    std::string address;
    std::uint16_t health_port = 0;
    std::uint16_t admin_port = 0;
    std::string uid;
    std::string uri;
    ProcessId process;
    // What is believed until the replica was asked: a new operator goes by what the last one knew.
    bool ready = false;
  };

  // `on_news` is called from the poller's thread whenever something happened that a pass should
  // look at: readiness or process came or went, a drain made progress, visits of a drain ended.
  ReplicaPoller(Target target, const AdminIdentity& identity, std::function<void()> on_news);
  ~ReplicaPoller();  // waits for a probe that is under way: at most 2 s
  ReplicaPoller(const ReplicaPoller&) = delete;
  ReplicaPoller& operator=(const ReplicaPoller&) = delete;

  ReplicaView view() const;
  // For orders to the replica, from the thread of the passes; nullptr while it does not answer: an
  // order would wait for its deadline in vain.
  AdminClient* admin();
  // Asks now instead of at the next turn.
  void hurry();

 private:
  // What one probe said: the health endpoint answered at all, and whether readiness changed.
  struct Probe {
    bool answered = false;
    bool news = false;
  };

  void run();
  Probe probe();
  bool set_ready(bool ready);
  bool ask();
  void pause();

  const Target target_;
  const std::function<void()> on_news_;
  AdminClient admin_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool hurry_ = false;
  bool draining_ = false;
  bool answers_ = false;  // the last question was answered
  int failed_probes_ = 0;
  ReplicaView view_;
  std::chrono::steady_clock::time_point sampled_at_{};
  std::thread thread_;
};

}  // namespace fairlead::op
