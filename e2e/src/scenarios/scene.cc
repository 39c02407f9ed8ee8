#include <utility>

#include "scenario.h"

namespace fairlead::e2e {

using nlohmann::json;
using std::chrono::milliseconds;
namespace fs = std::filesystem;

Scene::Scene(std::string scenario, fs::path example, fs::path work, bool quick, std::uint64_t seed,
             Screen& screen)
    : scenario_(std::move(scenario)),
      example_(std::move(example)),
      work_(std::move(work)),
      quick_(quick),
      seed_(seed),
      screen_(screen) {}

fs::path Scene::last_work() const {
  return work_ / (scenario_ + "-" + std::to_string(clusters_));
}

std::unique_ptr<Cluster> Scene::cluster(int homes, const std::string& liveness) {
  ++clusters_;
  Cluster::Options options;
  options.programs = fs::canonical("/proc/self/exe").parent_path();
  options.example = example_;
  options.work = last_work();
  options.homes = homes;
  options.liveness = liveness;
  auto cluster = std::make_unique<Cluster>(options);
  cluster->start();
  cluster->start_upstream();
  return cluster;
}

void Scene::row(std::string name, std::string promised, std::string measured, bool pass) {
  screen_.step(scenario_ + (pass ? " pass  " : " MISS  ") + name + ": " + measured);
  rows_.push_back({scenario_, std::move(name), std::move(promised), std::move(measured), pass});
}

void Scene::wait(Cluster& cluster, Load* load, const std::string& what, milliseconds limit,
                 const std::function<bool()>& reached) {
  cluster.wait(what, limit, [&] {
    screen_.live(scenario_ + ": waiting for " + what +
                 (load != nullptr ? " | " + one_line(load->snapshot()) : ""));
    return reached();
  });
}

void Scene::hold(Cluster& cluster, Load* load, milliseconds duration) {
  const auto end = Clock::now() + duration;
  wait(cluster, load, "time to pass", duration + milliseconds(5000),
       [&] { return Clock::now() >= end; });
}

Replica home_of(const Cluster& cluster, const std::string& agent) {
  for (const ReplicaState& state : cluster.states()) {
    if (!state.status.is_object()) continue;
    for (const json& row : state.status.value("agents", json::array())) {
      if (row.value("id", "") == agent && row.value("here", false)) return state.replica;
    }
  }
  throw Failure("no replica says that it is a home of agent " + agent);
}

Replica other_than(const Cluster& cluster, const std::string& name) {
  for (const Replica& replica : cluster.replicas()) {
    if (replica.name != name && replica.pid != 0 && !replica.draining) return replica;
  }
  throw Failure("there is no replica but " + name);
}

tcp::endpoint endpoint_of(const Replica& replica, std::uint16_t port) {
  return {asio::ip::make_address(replica.address), port};
}

}  // namespace fairlead::e2e
