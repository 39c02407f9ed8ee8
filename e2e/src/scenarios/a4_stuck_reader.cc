// A4: one visitor stops reading a large download; eight others must not notice.
#include <algorithm>
#include <map>
#include <utility>

#include "../pattern.h"
#include "scenario.h"

namespace fairlead::e2e {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kLargeSeed = 4001;
constexpr std::uint64_t kSmallSeed = 4002;
constexpr std::uint64_t kWarmSeed = 4003;
constexpr std::uint64_t kAllowedPastVisitor = 64 * kMiB;
constexpr std::uint64_t kAllowedGrowthKib = 64 * 1024;

struct Case {
  bool cross = false;
  bool warm = false;
  std::uint64_t large = 1024 * kMiB;
  std::string large_digest;
  std::string name() const {
    return std::string(cross ? "cross" : "same") + ", " + (warm ? "warm" : "cold");
  }
};

Download::Options download(const tcp::endpoint& server, std::uint64_t size, std::uint64_t seed,
                           std::string digest) {
  Download::Options options;
  options.server = server;
  options.size = size;
  options.seed = seed;
  options.sha256 = std::move(digest);
  return options;
}

// Seconds that 8 x 1 MiB took, and how many of them were right.
struct Eight {
  double seconds = 0;
  std::uint64_t finished = 0;
};

Eight run_eight(Scene& scene, Cluster& cluster, const tcp::endpoint& server) {
  Load load;
  const auto began = Clock::now();
  load.open_downloads(8, download(server, kMiB, kSmallSeed, pattern_digest(kSmallSeed, kMiB)));
  try {
    scene.wait(cluster, &load, "8 x 1 MiB", seconds(30),
               [&] { return live_in(load.snapshot()) == 0; });
  } catch (const Failure&) {
    if (interrupted()) throw;
  }
  const auto s = load.snapshot();
  return {std::chrono::duration<double>(load.last_download_end() - began).count(),
          s.download.finished};
}

// Bytes that left the upstream's kernel and have not reached the visitor.
std::uint64_t past_visitor(const Cluster& cluster, std::uint64_t received) {
  for (const json& connection : cluster.upstream_connections()) {
    const std::string request = connection.at("request");
    if (!request.ends_with(" " + std::to_string(kLargeSeed))) continue;
    const std::uint64_t left = connection.at("bytes_out").get<std::uint64_t>() -
                               connection.at("unsent").get<std::uint64_t>();
    return left > received ? left - received : 0;
  }
  throw Failure("the upstream never saw the large download");
}

std::map<pid_t, std::uint64_t> memory_of(Cluster& cluster) {
  std::map<pid_t, std::uint64_t> memory;
  for (const Replica& replica : cluster.replicas()) memory[replica.pid] = 0;
  memory[cluster.agent("files").pid()] = 0;
  for (auto& [pid, kib] : memory) kib = resident_kib(pid);
  return memory;
}

class Watch {
 public:
  explicit Watch(Cluster& cluster) : cluster_(cluster), before_(memory_of(cluster)) {}

  void look(std::uint64_t received) {
    past_ = std::max(past_, past_visitor(cluster_, received));
    for (const auto& [pid, kib] : memory_of(cluster_)) {
      const auto it = before_.find(pid);
      if (it != before_.end() && kib > it->second) growth_ = std::max(growth_, kib - it->second);
    }
  }
  std::uint64_t past() const { return past_; }
  std::uint64_t growth_kib() const { return growth_; }

 private:
  Cluster& cluster_;
  std::map<pid_t, std::uint64_t> before_;
  std::uint64_t past_ = 0;
  std::uint64_t growth_ = 0;
};

// Until nothing more leaves the upstream: all windows of the stuck visit are full.
void wait_until_stuck(Scene& scene, Cluster& cluster, Load& load, Watch& watch) {
  std::uint64_t last = 0;
  auto changed = Clock::now();
  scene.wait(cluster, &load, "the stopped visit to fill its windows", seconds(30), [&] {
    const std::uint64_t received = load.snapshot().download_bytes;
    watch.look(received);
    const std::uint64_t now = past_visitor(cluster, received) + received;
    if (std::exchange(last, now) != now) changed = Clock::now();
    return Clock::now() - changed > milliseconds(1500);
  });
}

void run_case(Scene& scene, const Case& one) {
  const auto cluster = scene.cluster(/*homes=*/1);
  cluster->start_agent(
      {"files", "tcp", std::to_string(cluster->upstream_port("file")), "", 1, "", ""});
  const Replica home = home_of(*cluster, "files");
  const Replica edge = one.cross ? other_than(*cluster, home.name) : home;
  const tcp::endpoint server = endpoint_of(edge, Cluster::kFilePort);
  if (one.warm) {
    Load load;
    load.open_downloads(
        1, download(server, 64 * kMiB, kWarmSeed, pattern_digest(kWarmSeed, 64 * kMiB)));
    scene.wait(*cluster, &load, "64 MiB to warm the links", seconds(60),
               [&] { return live_in(load.snapshot()) == 0; });
  }
  Watch watch(*cluster);
  Load stuck;
  stuck.open_downloads(1, download(server, one.large, kLargeSeed, one.large_digest));
  scene.wait(*cluster, &stuck, "the large download to begin", seconds(10),
             [&] { return stuck.snapshot().download_bytes > 0; });
  stuck.set_download_rate(0);
  wait_until_stuck(scene, *cluster, stuck, watch);
  const Eight beside = run_eight(scene, *cluster, server);
  watch.look(stuck.snapshot().download_bytes);

  stuck.set_download_rate(Download::kUnlimited);
  scene.wait(*cluster, &stuck, "the stopped one to finish", seconds(240), [&] {
    const auto s = stuck.snapshot();
    watch.look(s.download_bytes);
    return live_in(s) == 0;
  });
  const Eight alone = run_eight(scene, *cluster, server);

  const double allowed = 1 + 2 * alone.seconds;
  const auto mib = [](std::uint64_t bytes) {
    return one_decimal(static_cast<double>(bytes) / kMiB);
  };
  scene.row(
      one.name() + ": 8 x 1 MiB beside a stopped reader",
      "8 of 8 in < 1 s + 2 x " + one_decimal(1000 * alone.seconds) + " ms",
      std::to_string(beside.finished) + " of 8 in " + one_decimal(1000 * beside.seconds) + " ms",
      beside.finished == 8 && alone.finished == 8 && beside.seconds < allowed);
  scene.row(one.name() + ": upstream read past the visitor", "<= 64 MiB",
            mib(watch.past()) + " MiB", watch.past() <= kAllowedPastVisitor);
  scene.row(one.name() + ": growth of the largest process", "<= 64 MiB",
            mib(watch.growth_kib() * 1024) + " MiB", watch.growth_kib() <= kAllowedGrowthKib);
  const auto s = stuck.snapshot();
  scene.row(one.name() + ": the stopped one finishes", "right hash",
            s.download.finished == 1 ? "right hash" : s.download.lost_by_cause.begin()->first,
            s.download.finished == 1);
}

}  // namespace

void stuck_reader(Scene& scene) {
  Case one;
  one.large_digest = pattern_digest(kLargeSeed, one.large);
  for (const bool cross : {false, true}) {
    for (const bool warm : {false, true}) {
      if (scene.quick() && !(cross && !warm)) continue;
      one.cross = cross;
      one.warm = warm;
      run_case(scene, one);
    }
  }
}

}  // namespace fairlead::e2e
