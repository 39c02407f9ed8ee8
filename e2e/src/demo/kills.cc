#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include "demo.h"

namespace fairlead::e2e {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// A visit as its edge replica tells it.
struct Seen {
  std::string visitor;
  std::string edge;
  std::string home;
};

std::vector<Seen> visits_of(const std::vector<ReplicaState>& states) {
  std::vector<Seen> seen;
  for (const ReplicaState& state : states) {
    if (!state.status.is_object()) continue;
    for (const json& visit : state.status.value("visits", json::array())) {
      if (visit.value("kind", "") != "tcp") continue;
      seen.push_back(
          {visit.value("visitor", ""), visit.value("edge", ""), visit.value("home", "")});
    }
  }
  return seen;
}

struct Kill {
  std::string replica;
  Clock::time_point at;
};

// Every long visit must be told of by exactly one edge: else nothing can be expected of it.
std::string missing(const std::vector<Seen>& seen, const std::vector<std::string>& live) {
  for (const std::string& visitor : live) {
    const auto n = std::count_if(seen.begin(), seen.end(),
                                 [&](const Seen& s) { return s.visitor == visitor; });
    if (n != 1) return visitor + " is listed by " + std::to_string(n) + " replicas";
  }
  return "";
}

std::vector<std::string> live_long_visits(Load& load) {
  auto live = load.live_visitors(Kind::kTcp);
  const auto downloads = load.live_visitors(Kind::kDownload);
  live.insert(live.end(), downloads.begin(), downloads.end());
  return live;
}

bool agents_have_homes(const Cluster& cluster, std::size_t homes) {
  std::map<std::string, std::size_t> links;
  for (const ReplicaState& state : cluster.states()) {
    if (!state.status.is_object()) continue;
    for (const json& agent : state.status.value("agents", json::array())) {
      if (agent.value("here", false)) ++links[agent.value("id", "")];
    }
  }
  return links.size() == 3 &&
         std::all_of(links.begin(), links.end(), [&](const auto& l) { return l.second >= homes; });
}

// A request that failed must have been under way when a replica was killed.
bool in_flight_at_a_kill(const LostVisit& lost, const std::vector<Kill>& kills) {
  return std::any_of(kills.begin(), kills.end(), [&](const Kill& kill) {
    return lost.opened <= kill.at + milliseconds(250) && lost.ended >= kill.at;
  });
}

void compare(const std::set<std::string>& expected, const std::vector<Kill>& kills,
             const std::vector<LostVisit>& lost, DemoResult& result) {
  std::set<std::string> lost_long;
  std::size_t lost_http = 0;
  for (const LostVisit& visit : lost) {
    if (visit.kind != Kind::kHttp) {
      lost_long.insert(visit.visitor);
      if (!expected.contains(visit.visitor)) {
        result.faults.push_back("visit " + visit.visitor + " was lost (" + visit.cause +
                                ") although neither its edge nor its home was killed");
      }
    } else if (in_flight_at_a_kill(visit, kills)) {
      ++lost_http;
    } else {
      result.faults.push_back("an HTTP request was lost (" + visit.cause + ") away from any kill");
    }
  }
  for (const std::string& visitor : expected) {
    if (!lost_long.contains(visitor)) {
      result.faults.push_back("visit " + visitor +
                              " was not counted as lost although its edge or home was killed");
    }
  }
  result.extra["kills"] = kills.size();
  result.extra["lost_as_expected"] = {{"long", lost_long.size()}, {"http", lost_http}};
  if (expected.empty()) result.faults.push_back("no visit was held by a killed replica");
}

Kill kill_one(Stage& stage, const Replica& victim, std::set<std::string>& expected) {
  // The list is a moment's; it is taken again until it is the same as the generator's own.
  std::vector<Seen> seen;
  std::string gap = "not looked at";
  stage.wait("every visit to be listed by its edge", seconds(20), [&] {
    seen = visits_of(stage.cluster().states());
    gap = missing(seen, live_long_visits(stage.load()));
    return gap.empty();
  });
  std::size_t held = 0;
  for (const Seen& visit : seen) {
    if (visit.edge != victim.name && visit.home != victim.name) continue;
    expected.insert(visit.visitor);
    ++held;
  }
  const Kill kill{victim.name, Clock::now()};
  ::kill(victim.pid, SIGKILL);
  stage.screen().step("SIGKILL of " + victim.name + ", edge or home of " + std::to_string(held) +
                      " long visits");
  return kill;
}

}  // namespace

DemoResult run_kills(Stage& stage) {
  DemoResult result;
  stage.open_visits();
  stage.hold(seconds(3));
  std::set<std::string> expected;
  std::vector<Kill> kills;
  for (const Replica& victim : stage.cluster().replicas()) {
    stage.top_up_visits();
    kills.push_back(kill_one(stage, victim, expected));
    stage.wait("the operator to heal", seconds(60), [&] {
      const auto now = stage.cluster().replicas();
      const bool gone = std::none_of(now.begin(), now.end(),
                                     [&](const Replica& r) { return r.uid == victim.uid; });
      return gone && stage.cluster().active() == 3 && agents_have_homes(stage.cluster(), 2);
    });
    ++result.replaced;
    stage.screen().step("  three replicas are Active again, every agent has its homes");
    stage.hold(seconds(2));
  }
  stage.close_visits();
  stage.load().stop_http();
  stage.wait("the last visits to end", seconds(60),
             [&] { return live_in(stage.load().snapshot()) == 0; });
  result.visits = stage.load().snapshot();
  compare(expected, kills, stage.load().lost(), result);
  for (const auto& [kind, service] : {std::pair{"tcp", "echo"}, std::pair{"download", "files"}}) {
    result.shares[kind] = stage.shares().share(service).value_or(0);
  }
  return result;
}

}  // namespace fairlead::e2e
