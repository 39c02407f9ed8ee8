#include "cluster.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "../pattern.h"

namespace fairlead::e2e {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
namespace fs = std::filesystem;

namespace {

constexpr char kToken[] = "a token that only this run's agents know";

void write_file(const fs::path& path, const std::string& text) {
  const fs::path fresh = path.string() + ".new";
  std::ofstream out(fresh, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw Failure("cannot write " + fresh.string());
  fs::rename(fresh, path);
}

bool can_listen(asio::io_context& io, const std::string& address, std::uint16_t port) {
  try {
    listen_on(io.get_executor(), {asio::ip::make_address(address), port});
    return true;
  } catch (const boost::system::system_error&) {
    return false;
  }
}

}  // namespace

bool ReplicaState::active() const {
  return status.is_object() && status.value("state", "") == "active" &&
         status.value("ready", false);
}

Cluster::Cluster(Options options) : options_(std::move(options)) {
  for (const char* name : {"fairlead-operator", "fairlead-relay", "fairlead", "e2e-upstream"}) {
    if (!fs::exists(program(name))) {
      throw Failure(program(name).string() + " does not exist; run `make build` first");
    }
  }
  fs::create_directories(logs());
  fs::create_directories(options_.work / "state");
  pick_subnet();
  write_images();
  write_secrets();
  fs::copy_file(options_.example, options_.work / "relaycluster.yaml");
  edit([this](YAML::Node& spec) {
    spec["replicas"] = options_.replicas;
    spec["image"] = kImage1;
    spec["agents"]["homes"] = options_.homes;
    spec["visitors"]["tcpPortRange"] = "20000-20009";
    spec["rollout"]["minReadySeconds"] = 1;
    spec["drain"]["timeoutSeconds"] = 600;
    spec["drain"]["endpointDelaySeconds"] = 1;
    if (!options_.liveness.empty()) spec["peerLink"]["liveness"] = options_.liveness;
  });
}

Cluster::~Cluster() {
  stop();
}

fs::path Cluster::program(const std::string& name) const {
  return options_.programs / name;
}

// Two runs may look at the same moment, so a subnet is claimed by a listener on its last address.
void Cluster::pick_subnet() {
  std::random_device device;
  std::mt19937 random(device());
  for (int tries = 0; tries < 100; ++tries) {
    const std::string subnet =
        "127." + std::to_string(1 + random() % 250) + "." + std::to_string(1 + random() % 250);
    try {
      claim_.emplace(
          listen_on(io_.get_executor(), {asio::ip::make_address(subnet + ".254"), kAgentPort}));
    } catch (const boost::system::system_error&) {
      continue;
    }
    if (can_listen(io_, subnet + ".1", kAgentPort) && can_listen(io_, subnet + ".1", kHttpPort)) {
      subnet_ = subnet;
      return;
    }
  }
  throw Failure(
      "no free 127.x.y.0/24 was found: is something listening on port 7000 or 8080 of "
      "every address?");
}

void Cluster::write_images() {
  for (const auto& [image, version] : {std::pair{kImage1, "1"}, std::pair{kImage2, "2"}}) {
    const fs::path folder = options_.work / "images" / image;
    fs::create_directories(folder);
    std::error_code linked;
    fs::create_hard_link(program("fairlead-relay"), folder / "fairlead-relay", linked);
    if (linked) fs::copy_file(program("fairlead-relay"), folder / "fairlead-relay");
    write_file(folder / "VERSION", std::string(version) + "\n");
  }
}

void Cluster::write_secrets() {
  const fs::path folder = options_.work / "secrets" / "agents";
  fs::create_directories(folder);
  write_file(
      folder / "tokens.yaml",
      "tokens:\n  - tenant: demo\n    sha256: " + sha256_hex(kToken) +
          "\n    names: [web, \"*\"]\n    tcp: [{name: echo, port: " + std::to_string(kEchoPort) +
          "}, {name: files, port: " + std::to_string(kFilePort) + "}]\n");
  write_file(options_.work / "token", kToken);
}

void Cluster::edit(const std::function<void(YAML::Node& spec)>& change) {
  const fs::path path = options_.work / "relaycluster.yaml";
  YAML::Node root = YAML::LoadFile(path.string());
  YAML::Node spec = root["spec"];
  change(spec);
  YAML::Emitter out;
  out << root;
  write_file(path, std::string(out.c_str()) + "\n");
}

void Cluster::start_operator() {
  operator_ = std::make_unique<Process>(Process::Options{
      "operator",
      {program("fairlead-operator"), "local", "-f", options_.work / "relaycluster.yaml", "--images",
       options_.work / "images", "--secrets", options_.work / "secrets", "--state",
       options_.work / "state", "--listen", subnet_ + ".1", "--subnet", subnet_ + ".0/24"},
      logs() / "operator.log"});
  operator_expected_ = true;
}

void Cluster::start() {
  start_operator();
  const auto wanted = static_cast<std::size_t>(options_.replicas);
  wait(std::to_string(wanted) + " replicas Active", seconds(60),
       [&] { return active() == wanted; });
  // Before the forwarder knows them, a visitor would be refused.
  wait("the forwarder to listen", seconds(10), [&] {
    tcp::socket probe(io_);
    boost::system::error_code error;
    probe.connect(forwarder(kAgentPort), error);
    return !error;
  });
}

void Cluster::start_upstream() {
  const fs::path log = logs() / "upstream.log";
  upstream_ =
      std::make_unique<Process>(Process::Options{"upstream", {program("e2e-upstream")}, log});
  wait("the upstream services", seconds(5), [&] { return read_file(log).ends_with("}\n"); });
  upstream_ports_ = json::parse(read_file(log));
}

Process& Cluster::start_agent(const AgentOptions& agent) {
  std::vector<std::string> argv = {
      program("fairlead"),
      agent.kind,
      agent.upstream,
      "--name",
      agent.name,
      "--id",
      agent.name,
      "--relay",
      agent.relay.empty() ? to_text(forwarder(kAgentPort)) : agent.relay,
      "--ca",
      options_.work / "state" / "ca.pem",
      "--token-file",
      options_.work / "token",
      "--homes",
      std::to_string(agent.homes)};
  if (!agent.keepalive.empty()) {
    argv.emplace_back("--keepalive");
    argv.push_back(agent.keepalive);
  }
  if (!agent.server_name.empty()) {
    argv.emplace_back("--server-name");
    argv.push_back(agent.server_name);
  }
  const fs::path log = logs() / ("agent-" + agent.name + ".log");
  const std::size_t before = read_file(log).size();
  agents_[agent.name] =
      std::make_unique<Process>(Process::Options{"agent " + agent.name, argv, log});
  Process& process = *agents_.at(agent.name);
  wait("agent " + agent.name + " to be ready", seconds(15), [&] {
    if (const auto ended = process.poll()) {
      throw Failure("agent " + agent.name + " ended (" + to_text(*ended) + "); its log is " +
                    log.string());
    }
    return read_file(log).find("ready", before) != std::string::npos;
  });
  return process;
}

void Cluster::start_demo_agents() {
  const auto port = [&](const char* service) { return std::to_string(upstream_port(service)); };
  start_agent({"echo", "tcp", port("echo"), "", options_.homes, "", ""});
  start_agent({"web", "http", port("http"), "", options_.homes, "", ""});
  start_agent({"files", "tcp", port("file"), "", options_.homes, "", ""});
}

tcp::endpoint Cluster::forwarder(std::uint16_t port) const {
  return {asio::ip::make_address(subnet_ + ".1"), port};
}

std::uint16_t Cluster::upstream_port(const std::string& service) const {
  return upstream_ports_.at(service).get<std::uint16_t>();
}

json Cluster::upstream_connections() const {
  const auto page = http_get({asio::ip::make_address("127.0.0.1"), upstream_port("control")},
                             "/connections", seconds(5));
  if (page.status != 200) throw Failure("the upstream's control port: " + page.error);
  return json::parse(page.body);
}

std::vector<Replica> Cluster::replicas() const {
  std::vector<Replica> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(options_.work / "state" / "replicas", none)) {
    const json record =
        json::parse(read_file(entry.path() / "record.json"), nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) continue;
    Replica replica;
    replica.name = record.value("name", "");
    replica.uid = record.value("uid", "");
    replica.image = record.value("image", "");
    replica.revision = record.value("revision", "");
    replica.address = record.value("address", "");
    const json process = record.value("process", json());
    if (process.is_object() && record.value("ended_at", json()).is_null()) {
      replica.pid = process.value("pid", 0);
    }
    replica.draining = !record.value("drain", json()).is_null();
    // A second name for the log, so that it outlives the replica's folder.
    std::error_code there_already;
    fs::create_hard_link(entry.path() / "relay.log", replica_log(replica), there_already);
    found.push_back(std::move(replica));
  }
  std::sort(found.begin(), found.end(),
            [](const Replica& a, const Replica& b) { return a.name < b.name; });
  return found;
}

std::vector<ReplicaState> Cluster::states() const {
  std::vector<ReplicaState> all;
  for (Replica& replica : replicas()) {
    ReplicaState state{std::move(replica), nullptr};
    if (state.replica.pid != 0 && !state.replica.address.empty()) {
      const auto page = http_get({asio::ip::make_address(state.replica.address), kHealthPort},
                                 "/statusz?format=json", milliseconds(1000));
      if (page.status == 200) {
        state.status = json::parse(page.body, nullptr, /*allow_exceptions=*/false);
      }
    }
    all.push_back(std::move(state));
  }
  return all;
}

std::size_t Cluster::active(const std::string& image) const {
  const auto all = states();
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& state) {
    return state.active() && !state.replica.draining &&
           (image.empty() || state.replica.image == image);
  }));
}

std::string Cluster::status_text() const {
  return read_file(options_.work / "relaycluster.yaml.status.yaml");
}

std::string Cluster::operator_log() const {
  return read_file(logs() / "operator.log");
}

// Names come back when a revision does, UIDs never.
fs::path Cluster::replica_log(const Replica& replica) const {
  return logs() / (replica.name + "." + replica.uid.substr(0, 8) + ".log");
}

void Cluster::wait(const std::string& what, milliseconds limit,
                   const std::function<bool()>& reached) {
  const auto end = Clock::now() + limit;
  while (!reached()) {
    if (interrupted()) throw Failure("interrupted");
    if (operator_expected_ && operator_) {
      if (const auto ended = operator_->poll()) {
        throw Failure("the operator ended (" + to_text(*ended) + ") while waiting for " + what);
      }
    }
    if (Clock::now() > end) {
      throw Failure("waited " + std::to_string(limit.count() / 1000) + " s for " + what +
                    " in vain");
    }
    std::this_thread::sleep_for(milliseconds(100));
  }
}

void Cluster::stop() {
  operator_expected_ = false;
  for (auto& [name, agent] : agents_) agent->send(SIGTERM);
  for (auto& [name, agent] : agents_) agent->stop(milliseconds(1000));
  agents_.clear();
  if (operator_) operator_->stop(milliseconds(3000));
  if (upstream_) upstream_->stop(milliseconds(1000));
  kill_descendants();
}

void keep_logs(const fs::path& work, const fs::path& to) {
  std::error_code ignored;
  fs::remove_all(to, ignored);
  fs::create_directories(to, ignored);
  for (fs::recursive_directory_iterator it(work, ignored), end; it != end; it.increment(ignored)) {
    const fs::path name = it->path().filename();
    const bool text =
        name.extension() == ".log" || name.extension() == ".yaml" || name.extension() == ".json";
    if (!it->is_regular_file(ignored) || !text || name == "tokens.yaml") continue;
    const fs::path target = to / fs::relative(it->path(), work, ignored);
    fs::create_directories(target.parent_path(), ignored);
    fs::copy_file(it->path(), target, ignored);
  }
}

}  // namespace fairlead::e2e
