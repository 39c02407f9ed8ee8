// A6: the operator is killed, scaled and misled; visits do not notice.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <utility>

#include "scenario.h"

namespace fairlead::e2e {

using std::chrono::milliseconds;
using std::chrono::seconds;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kVisits = 12;

void set_image(Cluster& cluster, const std::string& image) {
  cluster.edit([&](YAML::Node& spec) { spec["image"] = image; });
}

// Processes that run a relay of this cluster's images, records or not.
std::set<pid_t> relay_processes(const Cluster& cluster) {
  std::set<pid_t> found;
  std::error_code error;
  const std::string images = (cluster.work() / "images").string();
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const fs::path binary = fs::read_symlink(entry.path() / "exe", error);
    if (!error && binary.string().starts_with(images)) found.insert(pid);
  }
  return found;
}

std::set<pid_t> recorded_processes(const Cluster& cluster) {
  std::set<pid_t> found;
  for (const Replica& replica : cluster.replicas()) found.insert(replica.pid);
  return found;
}

// "15:04:05.678", so long ago: to be found in logs.
std::string wall_time(milliseconds ago) {
  const auto at = std::chrono::system_clock::now() - ago;
  const std::time_t seconds_part = std::chrono::system_clock::to_time_t(at);
  const auto ms = std::chrono::duration_cast<milliseconds>(at.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::localtime_r(&seconds_part, &parts);
  char text[32];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%03d", parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(ms));
  return text;
}

class Traffic {
 public:
  explicit Traffic(Cluster& cluster) : cluster_(cluster) {
    HttpLoad::Options http;
    http.server = cluster.forwarder(Cluster::kHttpPort);
    http.host = Cluster::kHost;
    load.start_http(http);
  }

  void open() {
    EchoVisit::Options echo;
    echo.server = cluster_.forwarder(Cluster::kEchoPort);
    load.open_echoes(kVisits, echo);
  }
  std::uint64_t lost() { return lost_in(load.snapshot()); }
  std::string causes() {
    std::string text;
    for (const LostVisit& visit : load.lost()) {
      if (text.size() > 300) break;
      const auto ago = std::chrono::duration_cast<milliseconds>(Clock::now() - visit.ended);
      text += " [" + wall_time(ago) + " " + visit.visitor + " " +
              std::string(kind_name(visit.kind)) + " " + visit.cause + "]";
    }
    return text;
  }

  Load load;

 private:
  Cluster& cluster_;
};

bool only(const Cluster& cluster, const std::string& image, std::size_t n) {
  const auto replicas = cluster.replicas();
  return replicas.size() == n &&
         std::all_of(replicas.begin(), replicas.end(),
                     [&](const Replica& r) { return r.image == image; }) &&
         cluster.active(image) == n;
}

// One rollout with one kill; false when it did not complete.
bool rollout_with_kill(Scene& scene, Cluster& cluster, Traffic& traffic, const std::string& image,
                       milliseconds when) {
  traffic.open();
  set_image(cluster, image);
  scene.hold(cluster, &traffic.load, when);
  cluster.operator_process().send(SIGKILL);
  cluster.operator_process().wait_for(seconds(5));
  cluster.start_operator();
  try {
    scene.wait(cluster, &traffic.load, "three replacements Active", seconds(90),
               [&] { return cluster.active(image) == 3; });
    traffic.load.close_echoes();
    scene.wait(cluster, &traffic.load, "the old replicas to go", seconds(90),
               [&] { return only(cluster, image, 3); });
  } catch (const Failure& failure) {
    if (interrupted()) throw;
    scene.screen().step(failure.what());
    traffic.load.close_echoes();
    return false;
  }
  return true;
}

void kills(Scene& scene) {
  const int rollouts = scene.quick() ? 2 : 20;
  const auto cluster = scene.cluster(/*homes=*/2);
  cluster->start_demo_agents();
  Traffic traffic(*cluster);
  std::mt19937_64 random(scene.seed());
  int completed = 0;
  std::size_t strays = 0;
  for (int i = 0; i < rollouts; ++i) {
    const milliseconds when(random() % 8000);
    const std::string image = i % 2 == 0 ? Cluster::kImage2 : Cluster::kImage1;
    completed += rollout_with_kill(scene, *cluster, traffic, image, when) ? 1 : 0;
    const auto running = relay_processes(*cluster);
    const auto recorded = recorded_processes(*cluster);
    if (running != recorded) ++strays;
    scene.screen().step("a6: rollout " + std::to_string(i + 1) + " of " + std::to_string(rollouts) +
                        ", operator killed after " + std::to_string(when.count()) + " ms, lost " +
                        std::to_string(traffic.lost()));
  }
  const std::string all = std::to_string(rollouts);
  scene.row("rollouts with one kill -9 of the operator each, seed " + std::to_string(scene.seed()),
            all + " of " + all + " complete", std::to_string(completed) + " of " + all,
            completed == rollouts);
  scene.row("the same: visits and requests", "0 lost",
            std::to_string(traffic.lost()) + " lost of " +
                std::to_string(traffic.load.snapshot().tcp.opened) + " visits and " +
                std::to_string(traffic.load.snapshot().http.opened) + " requests" +
                traffic.causes(),
            traffic.lost() == 0);
  scene.row("the same: processes and records", "each process recorded, each record running",
            std::to_string(strays) + " of " + all + " rollouts ended with a difference",
            strays == 0);
}

void scale_to(Scene& scene, Cluster& cluster, Traffic& traffic, int replicas) {
  traffic.open();
  cluster.edit([&](YAML::Node& spec) { spec["replicas"] = replicas; });
  const auto n = static_cast<std::size_t>(replicas);
  scene.wait(cluster, &traffic.load, std::to_string(n) + " replicas Active", seconds(60),
             [&] { return cluster.active() == n; });
  scene.hold(cluster, &traffic.load, seconds(3));
  traffic.load.close_echoes();
  scene.wait(cluster, &traffic.load, "drained replicas to go", seconds(90),
             [&] { return cluster.replicas().size() == n; });
}

void scaling(Scene& scene) {
  const auto cluster = scene.cluster(/*homes=*/2);
  cluster->start_demo_agents();
  Traffic traffic(*cluster);
  std::string measured;
  try {
    scale_to(scene, *cluster, traffic, 5);
    scale_to(scene, *cluster, traffic, 2);
    measured = "5 and 2 reached";
  } catch (const Failure& failure) {
    if (interrupted()) throw;
    measured = failure.what();
  }
  scene.row("scale 3 to 5 to 2 under load", "reached", measured, measured == "5 and 2 reached");
  scene.row("the same: visits and requests", "0 lost",
            std::to_string(traffic.lost()) + " lost" + traffic.causes(), traffic.lost() == 0);
}

void bad_image(Scene& scene) {
  const auto cluster = scene.cluster(/*homes=*/2);
  cluster->start_demo_agents();
  Traffic traffic(*cluster);
  traffic.open();
  const fs::path folder = cluster->work() / "images" / "fairlead:bad";
  fs::create_directories(folder);
  std::ofstream(folder / "fairlead-relay")
      << "#!/bin/sh\necho 'cannot start: this image is broken' "
         ">&2\nexit 1\n";
  fs::permissions(folder / "fairlead-relay", fs::perms::owner_all);

  const auto began = Clock::now();
  set_image(*cluster, "fairlead:bad");
  std::string named;
  try {
    scene.wait(*cluster, &traffic.load, "the status to name the cause", seconds(40), [&] {
      const std::string status = cluster->status_text();
      for (const char* cause : {"ContainerCrashing", "this image is broken"}) {
        if (status.find(cause) != std::string::npos) named = cause;
      }
      return !named.empty();
    });
  } catch (const Failure&) {
    if (interrupted()) throw;
  }
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  scene.row("an image that cannot start: status", "names the cause within 30 s",
            named.empty() ? "not named" : "\"" + named + "\" after " + one_decimal(took) + " s",
            !named.empty() && took <= 30);
  scene.hold(*cluster, &traffic.load, seconds(5));
  const std::size_t serving = cluster->active(Cluster::kImage1);
  scene.row("the same: old replicas", "3 serve", std::to_string(serving) + " serve", serving == 3);
  set_image(*cluster, Cluster::kImage2);
  std::string measured = "completed";
  try {
    scene.wait(*cluster, &traffic.load, "the fix to roll out", seconds(90),
               [&] { return cluster->active(Cluster::kImage2) == 3; });
    traffic.load.close_echoes();
    scene.wait(*cluster, &traffic.load, "the old replicas to go", seconds(90),
               [&] { return only(*cluster, Cluster::kImage2, 3); });
  } catch (const Failure& failure) {
    if (interrupted()) throw;
    measured = failure.what();
  }
  scene.row("the same: after the fix", "rollout completes", measured, measured == "completed");
  scene.row("the same: visits and requests", "0 lost",
            std::to_string(traffic.lost()) + " lost" + traffic.causes(), traffic.lost() == 0);
}

}  // namespace

void operator_faults(Scene& scene) {
  bad_image(scene);
  scaling(scene);
  kills(scene);
}

}  // namespace fairlead::e2e
