#include <thread>
#include <utility>

#include "../pattern.h"
#include "demo.h"

namespace fairlead::e2e {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t kDownloadSeed = 64;
// 64 MiB last more than two minutes, longer than the rollout; then they are let go.
constexpr std::uint64_t kThrottle = 448 * 1024;

EchoVisit::Options echo_options(const Cluster& cluster) {
  EchoVisit::Options options;
  options.server = cluster.forwarder(Cluster::kEchoPort);
  return options;
}

Download::Options download_options(const Cluster& cluster, const std::string& digest) {
  Download::Options options;
  options.server = cluster.forwarder(Cluster::kFilePort);
  options.size = kDownloadSize;
  options.seed = kDownloadSeed;
  options.sha256 = digest;
  options.bytes_per_second = kThrottle;
  return options;
}

}  // namespace

Stage::Stage(Cluster::Options options, Screen& screen)
    : screen_(screen), cluster_(std::move(options)) {}

void Stage::start() {
  screen_.step("starting three replicas of " + std::string(Cluster::kImage1) + " from " +
               (cluster_.work() / "relaycluster.yaml").string());
  cluster_.start();
  for (const ReplicaState& state : cluster_.states()) {
    screen_.step("  " + state.replica.name + " is Active at " + state.replica.address +
                 ", version " + state.status.value("version", "?"));
  }
  digest_ = pattern_digest(kDownloadSeed, kDownloadSize);
  cluster_.start_upstream();
  cluster_.start_demo_agents();
  screen_.step("agents echo, web and files are connected through the forwarder " +
               to_text(cluster_.forwarder(Cluster::kAgentPort)));
}

// The downloads first: the forwarder deals connections in turn, so they spread over all replicas.
void Stage::open_visits() {
  load_.open_downloads(kDownloads, download_options(cluster_, digest_));
  wait("downloads to begin", seconds(15), [&] {
    const auto s = load_.snapshot();
    return s.download_bytes > kDownloads * 1024 || s.download.lost > 0;
  });
  load_.open_echoes(kEchoVisits, echo_options(cluster_));
  HttpLoad::Options http;
  http.server = cluster_.forwarder(Cluster::kHttpPort);
  http.host = Cluster::kHost;
  http.per_second = kHttpPerSecond;
  load_.start_http(http);
}

void Stage::top_up_visits() {
  const auto s = load_.snapshot();
  if (s.download.live < kDownloads) {
    load_.open_downloads(kDownloads - s.download.live, download_options(cluster_, digest_));
  }
  if (s.tcp.live < kEchoVisits) {
    load_.open_echoes(kEchoVisits - s.tcp.live, echo_options(cluster_));
  }
}

void Stage::close_visits() {
  load_.close_echoes();
  load_.set_download_rate(Download::kUnlimited);
}

void Stage::wait(const std::string& what, milliseconds limit,
                 const std::function<bool()>& reached) {
  cluster_.wait(what, limit, [&] {
    look();
    return reached();
  });
}

void Stage::hold(milliseconds duration) {
  const auto end = Clock::now() + duration;
  wait("time to pass", duration + seconds(5), [&] { return Clock::now() >= end; });
}

void Stage::look() {
  const auto now = Clock::now();
  if (now - looked_ < milliseconds(300)) return;
  looked_ = now;
  const std::vector<Replica> replicas = cluster_.replicas();
  shares_.sample(replicas);
  for (const Replica& replica : replicas) {
    if (replica.draining) drain_began_.emplace(replica.name, now);
  }
  std::size_t draining = 0;
  for (const auto& [name, began] : drain_began_) {
    bool runs = false;
    for (const Replica& replica : replicas) runs |= replica.name == name && replica.pid != 0;
    draining += runs ? 1 : 0;
    if (!runs) drain_took_.emplace(name, std::chrono::duration<double>(now - began).count());
  }
  screen_.live(one_line(load_.snapshot()) + " | replicas " + std::to_string(replicas.size()) +
               ", draining " + std::to_string(draining));
}

std::map<std::string, double> Stage::drain_seconds() {
  looked_ = {};
  look();  // the last one may have ended since
  return drain_took_;
}

}  // namespace fairlead::e2e
