#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "demo.h"

namespace fairlead::e2e {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Lines of the operator's log that say how a replica's process ended: "... Removed NAME ... exit
// code 0".
bool exited_cleanly(const std::string& log, const std::string& name) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(name) != std::string::npos && line.find("exit code 0") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// Says each new replica's name once.
void tell_active(Stage& stage, std::set<std::string>& told) {
  for (const ReplicaState& state : stage.cluster().states()) {
    if (state.replica.image != Cluster::kImage2 || !state.active()) continue;
    if (told.insert(state.replica.name).second) {
      stage.screen().step("  " + state.replica.name + " is Active, version " +
                          state.status.value("version", "?"));
    }
  }
}

}  // namespace

DemoResult run_rollout(Stage& stage, int homes) {
  DemoResult result;
  stage.open_visits();
  stage.hold(seconds(5));
  const std::vector<Replica> old = stage.cluster().replicas();
  stage.screen().step(
      "40 TCP and 8 download visits are open, HTTP at 50/s; now the image becomes " +
      std::string(Cluster::kImage2));
  stage.cluster().edit([](YAML::Node& spec) { spec["image"] = Cluster::kImage2; });

  std::set<std::string> told;
  stage.wait("three replacements Active", seconds(120), [&] {
    tell_active(stage, told);
    return told.size() >= 3 && stage.cluster().active(Cluster::kImage2) == 3;
  });
  stage.hold(seconds(2));
  const Load::Snapshot held = stage.load().snapshot();
  stage.screen().step("three replacements serve; " + std::to_string(held.tcp.live) + " TCP and " +
                      std::to_string(held.download.live) +
                      " download visits from before are still open; the clients close them now");
  if (held.tcp.live != kEchoVisits || held.download.live != kDownloads) {
    result.faults.push_back("not every long visit outlived the change of image");
  }
  stage.close_visits();

  stage.wait("the old replicas to drain and exit", seconds(90), [&] {
    const auto now = stage.cluster().replicas();
    return std::none_of(now.begin(), now.end(),
                        [](const Replica& r) { return r.image == Cluster::kImage1; });
  });
  stage.load().stop_http();
  stage.wait("the last visits to end", seconds(40),
             [&] { return live_in(stage.load().snapshot()) == 0; });

  const std::string log = stage.cluster().operator_log();
  for (const Replica& replica : old) {
    if (exited_cleanly(log, replica.name)) {
      ++result.replaced;
    } else {
      result.faults.push_back(replica.name + " did not exit 0 after its drain");
    }
  }
  result.visits = stage.load().snapshot();
  result.drain_seconds = stage.drain_seconds();
  const double floor = homes == 1 ? 0.55 : 0.25;
  for (const auto& [kind, service] : {std::pair{"tcp", "echo"}, std::pair{"download", "files"}}) {
    const double share = stage.shares().share(service).value_or(0);
    result.shares[kind] = share;
    if (share < floor) {
      result.faults.push_back("only " + one_decimal(100 * share) + " % of " + kind +
                              " visits crossed replicas, at least " + one_decimal(100 * floor) +
                              " % are expected");
    }
  }
  if (result.replaced != 3) result.faults.push_back("not all three replicas were replaced");
  if (lost_in(result.visits) > 0) result.faults.push_back("visits were lost");
  return result;
}

}  // namespace fairlead::e2e
