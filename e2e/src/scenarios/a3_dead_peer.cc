// A3: SIGSTOP of one end of a link; the other declares it dead within its bound.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "scenario.h"
#include "wire_tap.h"

namespace fairlead::e2e {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::size_t kRuns = 5;

struct Case {
  std::string keepalive;
  milliseconds bound;
  bool stop_dialer = false;
  bool loaded = false;
  std::string name() const {
    return keepalive + ", " + (stop_dialer ? "dialer" : "listener") + " stopped, " +
           (loaded ? "under load" : "idle");
  }
};

// One link of one agent, seen through its tap.
struct Run {
  std::string agent;
  std::unique_ptr<WireTap> tap;
  std::unique_ptr<Load> load;
};

std::vector<Run> open_links(Cluster& cluster, const Replica& replica, const Case& one) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < kRuns; ++i) {
    Run run;
    run.agent = "n" + std::to_string(i);
    run.tap = std::make_unique<WireTap>(endpoint_of(replica, Cluster::kAgentPort));
    cluster.start_agent({run.agent, "http", std::to_string(cluster.upstream_port("http")),
                         one.keepalive, 1, to_text(run.tap->address()), replica.address});
    runs.push_back(std::move(run));
  }
  return runs;
}

// Downloads through the stopped replica or agent: many frames are under way when it stops.
void load_links(Cluster& cluster, const Replica& edge, std::vector<Run>& runs) {
  for (Run& run : runs) {
    run.load = std::make_unique<Load>();
    HttpLoad::Options http;
    http.server = endpoint_of(edge, Cluster::kHttpPort);
    http.host = run.agent + ".relay.localhost";
    http.per_second = 20;
    http.body = 100'000;
    http.limit = seconds(60);
    run.load->start_http(http);
  }
  const auto moving = [&](const Run& run) { return run.load->snapshot().http.finished > 10; };
  cluster.wait("load on every link", seconds(20),
               [&] { return std::all_of(runs.begin(), runs.end(), moving); });
}

// Seconds from the last byte the living end was given to the moment it closed its side.
std::vector<double> times_of_death(const std::vector<Run>& runs, WireTap::End living) {
  std::vector<double> times;
  for (const Run& run : runs) {
    const auto record = run.tap->record(living);
    if (!record.closed_at) continue;
    times.push_back(std::chrono::duration<double>(*record.closed_at - record.last_given).count());
  }
  return times;
}

bool rejoined(const Cluster& cluster, const Replica& replica, std::size_t agents) {
  for (const ReplicaState& state : cluster.states()) {
    if (state.replica.uid != replica.uid || !state.active()) continue;
    const json links = state.status.value("peers", json::array());
    const json rows = state.status.value("agents", json::array());
    const auto here = std::count_if(rows.begin(), rows.end(),
                                    [](const json& row) { return row.value("here", false); });
    return static_cast<std::size_t>(here) >= agents &&
           std::all_of(links.begin(), links.end(), [](const json& peer) {
             return peer.value("links_up", 0) >= peer.value("links_expected", 1);
           });
  }
  return false;
}

std::size_t named_causes(const Cluster& cluster, const Replica& replica, const Case& one) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < kRuns; ++i) {
    const std::string agent = "n" + std::to_string(i);
    const std::string log = one.stop_dialer
                                ? read_file(cluster.replica_log(replica))
                                : read_file(cluster.logs() / ("agent-" + agent + ".log"));
    std::size_t at = log.find("dead peer");
    while (at != std::string::npos && one.stop_dialer) {
      const std::size_t line = log.rfind('\n', at) + 1;
      if (log.substr(line, at - line).find(agent) != std::string::npos) break;
      at = log.find("dead peer", at + 1);
    }
    found += at != std::string::npos ? 1 : 0;
  }
  return found;
}

void signal_case(Cluster& cluster, const Replica& replica, const std::vector<Run>& runs,
                 const Case& one, int signal) {
  if (!one.stop_dialer) {
    ::kill(replica.pid, signal);
    return;
  }
  for (const Run& run : runs) cluster.agent(run.agent).send(signal);
}

void run_case(Scene& scene, const Case& one) {
  const auto cluster = scene.cluster(/*homes=*/1);
  const Replica replica = cluster->replicas().front();
  std::vector<Run> runs = open_links(*cluster, replica, one);
  if (one.loaded) load_links(*cluster, other_than(*cluster, replica.name), runs);
  scene.hold(*cluster, nullptr, milliseconds(2000));

  const WireTap::End living = one.stop_dialer ? WireTap::End::kListener : WireTap::End::kDialer;
  for (const Run& run : runs) run.tap->pin();
  signal_case(*cluster, replica, runs, one, SIGSTOP);
  std::string late;
  try {
    scene.wait(*cluster, nullptr, "the other end to declare death", one.bound + milliseconds(5000),
               [&] { return times_of_death(runs, living).size() == kRuns; });
  } catch (const Failure& failure) {
    if (interrupted()) throw;
    late = failure.what();
  }
  std::vector<double> times = times_of_death(runs, living);
  signal_case(*cluster, replica, runs, one, SIGCONT);

  const double bound = std::chrono::duration<double>(one.bound).count();
  std::sort(times.begin(), times.end());
  const bool within =
      times.size() == kRuns && times.front() >= bound - 0.05 && times.back() <= bound + 0.25;
  const auto ms = [](double s) { return std::to_string(std::lround(1000 * s)) + " ms"; };
  scene.row(one.name(),
            "death declared " + ms(bound - 0.05) + " to " + ms(bound + 0.25) +
                " after the last byte, 5 of 5",
            times.empty() ? "none declared"
                          : std::to_string(times.size()) + " of 5, " + ms(times.front()) + " to " +
                                ms(times.back()),
            within);
  const std::size_t named = named_causes(*cluster, replica, one);
  scene.row(one.name() + ": log", "names \"dead peer\", 5 of 5", std::to_string(named) + " of 5",
            named == kRuns);
  bool back = true;
  try {
    scene.wait(*cluster, nullptr, "the resumed one to rejoin", seconds(45),
               [&] { return rejoined(*cluster, replica, kRuns); });
  } catch (const Failure&) {
    if (interrupted()) throw;
    back = false;
  }
  scene.row(one.name() + ": after SIGCONT", "rejoins", back ? "rejoined" : "did not rejoin", back);
}

}  // namespace

void dead_peer(Scene& scene) {
  for (const auto& [keepalive, bound] :
       {std::pair{"fast", milliseconds(4500)}, std::pair{"default", milliseconds(15000)}}) {
    if (scene.quick() && std::string(keepalive) != "fast") continue;
    for (const bool stop_dialer : {true, false}) {
      for (const bool loaded : {false, true}) {
        if (scene.quick() && loaded != stop_dialer) continue;
        run_case(scene, {keepalive, bound, stop_dialer, loaded});
      }
    }
  }
}

}  // namespace fairlead::e2e
