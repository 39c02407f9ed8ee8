// The demo: a three-replica cluster under live visits, through a rolling upgrade or through kills.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "../cluster/cluster.h"
#include "../load/load.h"
#include "../screen.h"

namespace fairlead::e2e {

inline constexpr std::size_t kEchoVisits = 40;
inline constexpr std::size_t kDownloads = 8;
inline constexpr std::uint64_t kDownloadSize = 64ULL << 20U;
inline constexpr std::uint32_t kHttpPerSecond = 50;

// The cluster with upstreams and agents, and visits that go through its forwarder.
class Stage {
 public:
  Stage(Cluster::Options options, Screen& screen);

  void start();          // replicas, upstream, agents
  void open_visits();    // the long ones, each class in full, and the HTTP stream
  void top_up_visits();  // opens as many long ones as are missing
  // Lets long visits end: echo visits are closed, downloads are no longer throttled.
  void close_visits();

  // Cluster::wait with the live line, the counters and the forwarded shares kept up to date.
  void wait(const std::string& what, std::chrono::milliseconds limit,
            const std::function<bool()>& reached);
  void hold(std::chrono::milliseconds duration);

  Cluster& cluster() { return cluster_; }
  Load& load() { return load_; }
  Screen& screen() { return screen_; }
  const CrossShare& shares() const { return shares_; }
  // Wall seconds from the drain's start to the end of its process, by replica.
  std::map<std::string, double> drain_seconds();

 private:
  void look();

  Screen& screen_;
  Cluster cluster_;
  Load load_;
  CrossShare shares_;
  std::string digest_;
  std::map<std::string, Clock::time_point> drain_began_;
  std::map<std::string, double> drain_took_;
  Clock::time_point looked_;
};

struct DemoResult {
  Load::Snapshot visits;
  std::vector<std::string> faults;  // why it fails; empty: it passed
  int replaced = 0;
  std::map<std::string, double> drain_seconds;
  std::map<std::string, double> shares;  // "tcp", "download"
  nlohmann::json extra = nlohmann::json::object();
};

// The image in the RelayCluster changes; all long visits outlive the old replicas' service.
DemoResult run_rollout(Stage& stage, int homes);

// SIGKILL of each replica in turn; what is lost is compared with what the replicas said they held.
DemoResult run_kills(Stage& stage);

nlohmann::json to_report(const DemoResult& result, double seconds);
std::string to_table(const DemoResult& result, double seconds);

}  // namespace fairlead::e2e
