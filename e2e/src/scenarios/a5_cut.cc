// A5: a stream that is cut by a kill is never shown as an end, to neither side.
#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include "probe.h"
#include "scenario.h"

namespace fairlead::e2e {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr char kHostLine[] = "Host: web.relay.localhost\r\n";

// Words of the log that say why a visit was lost.
constexpr const char* kCauses[] = {"agent_lost", "home_lost", "peer_lost", "path_lost"};

struct Stream {
  std::string name;
  std::string marker;  // what the upstream's ledger knows its request by
  Probe* probe = nullptr;
};

std::vector<Stream> open_streams(Probes& probes, const Replica& edge, int round) {
  const tcp::endpoint raw = endpoint_of(edge, Cluster::kFilePort);
  const tcp::endpoint http = endpoint_of(edge, Cluster::kHttpPort);
  const std::string seed = std::to_string(5000 + round);
  const std::string chunked = "/chunked?size=1000000000&seed=" + seed;
  const std::string sink = "/sink?seed=" + seed;
  std::vector<Stream> streams = {
      {"chunked download", "GET " + chunked},
      {"raw download", "GET 1000000000 " + seed},
      {"chunked upload", "POST " + sink},
      {"raw upload", "PUT " + seed},
  };
  streams[0].probe = &probes.open({http, "GET " + chunked + " HTTP/1.1\r\n" + kHostLine + "\r\n"});
  streams[1].probe = &probes.open({raw, streams[1].marker + "\n"});
  streams[2].probe = &probes.open(
      {http, "POST " + sink + " HTTP/1.1\r\n" + kHostLine + "Transfer-Encoding: chunked\r\n\r\n",
       true, true});
  streams[3].probe = &probes.open({raw, streams[3].marker + "\n", true});
  return streams;
}

// The upstream's view of the connection that carried the request.
json upstream_view(const Cluster& cluster, const std::string& marker) {
  for (const json& connection : cluster.upstream_connections()) {
    if (connection.at("request") == marker) return connection;
  }
  return nullptr;
}

std::map<std::string, std::string> logs_of(const Cluster& cluster) {
  std::map<std::string, std::string> logs;
  for (const Replica& replica : cluster.replicas()) {
    logs[replica.name] = read_file(cluster.replica_log(replica));
  }
  for (const char* agent : {"web", "files"}) {
    logs[agent] = read_file(cluster.logs() / ("agent-" + std::string(agent) + ".log"));
  }
  return logs;
}

// The causes that logs name now and did not before.
std::string new_causes(const Cluster& cluster, const std::map<std::string, std::string>& before) {
  std::string found;
  for (const auto& [name, log] : logs_of(cluster)) {
    const auto it = before.find(name);
    const std::size_t from = it == before.end() ? 0 : std::min(it->second.size(), log.size());
    for (const char* cause : kCauses) {
      if (log.find(cause, from) != std::string::npos && found.find(cause) == std::string::npos) {
        found += (found.empty() ? "" : ", ") + std::string(cause);
      }
    }
  }
  return found;
}

// A cut is RST, or, to an HTTP visitor that had no answer yet, an answer that says so.
void judge_visitor(Scene& scene, const std::string& victim, const Stream& stream) {
  const ProbeEnd seen = stream.probe->ended() ? stream.probe->end() : ProbeEnd{};
  const bool answerable = stream.name == "chunked upload";
  const bool told = answerable && (seen.head == "HTTP/1.1 502" || seen.head == "HTTP/1.1 503");
  std::string measured = seen.how.empty() ? "still open" : seen.how;
  if (seen.last_chunk) measured += " after a final chunk";
  if (answerable && !seen.head.empty()) measured = seen.head + ", then " + measured;
  scene.row(victim + " killed, " + stream.name + ": visitor",
            answerable ? "RST or 502/503" : "RST, no final chunk", measured,
            (seen.how == "reset" || told) && !seen.last_chunk);
}

void judge(Scene& scene, Cluster& cluster, const std::string& victim, const Stream& stream) {
  judge_visitor(scene, victim, stream);
  const json view = upstream_view(cluster, stream.marker);
  const bool upload = stream.name.ends_with("upload");
  const std::string in = view.is_object() ? view.at("in").get<std::string>() : "never seen";
  const bool whole = view.is_object() && upload && view.at("requests_complete") != 0;
  scene.row(victim + " killed, " + stream.name + ": upstream",
            upload ? "RST, no whole request" : "RST", in + (whole ? " after a whole request" : ""),
            in == "rst" && !whole);
}

void start_agents(Cluster& cluster) {
  cluster.start_agent(
      {"web", "http", std::to_string(cluster.upstream_port("http")), "fast", 1, "", ""});
  cluster.start_agent({"files", "tcp", std::to_string(cluster.upstream_port("file")), "fast", 1,
                       to_text(endpoint_of(home_of(cluster, "web"), Cluster::kAgentPort)), ""});
}

void run_kill(Scene& scene, const std::string& victim, int round) {
  const auto cluster = scene.cluster(/*homes=*/1);
  start_agents(*cluster);
  const Replica home = home_of(*cluster, "web");
  const Replica edge = other_than(*cluster, home.name);
  Probes probes;
  const std::vector<Stream> streams = open_streams(probes, edge, round);
  scene.wait(*cluster, nullptr, "all four streams to move", seconds(15),
             [&] { return probes.all_moved(500'000); });
  const auto logs = logs_of(*cluster);
  if (victim == "agent") {
    cluster->agent("web").send(SIGKILL);
    cluster->agent("files").send(SIGKILL);
  } else {
    ::kill(victim == "home" ? home.pid : edge.pid, SIGKILL);
  }
  // A hold may keep both ends waiting for a path that does not come back.
  try {
    scene.wait(*cluster, nullptr, "both sides to see the cut", seconds(60), [&] {
      return probes.all_ended() &&
             std::none_of(streams.begin(), streams.end(), [&](const Stream& stream) {
               const json view = upstream_view(*cluster, stream.marker);
               return view.is_object() && view.at("in") == "live";
             });
    });
  } catch (const Failure&) {
    if (interrupted()) throw;
  }
  for (const Stream& stream : streams) judge(scene, *cluster, victim, stream);
  const std::string causes = new_causes(*cluster, logs);
  scene.row(victim + " killed: log", "a survivor names the cause",
            causes.empty() ? "no cause named" : causes, !causes.empty());
}

}  // namespace

void cut_streams(Scene& scene) {
  int round = 0;
  for (const char* victim : {"agent", "home", "edge"}) {
    if (scene.quick() && std::string(victim) != "home") continue;
    run_kill(scene, victim, ++round);
  }
}

}  // namespace fairlead::e2e
