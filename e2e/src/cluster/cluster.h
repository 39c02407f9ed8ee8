// A whole relay cluster of real processes on one machine: the operator with its replicas and
// forwarder, upstreams, and agents that dial the forwarder. What is known about replicas comes from
// the operator's records and from the replicas' own pages.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../net.h"
#include "process.h"

namespace YAML {
class Node;
}

namespace fairlead::e2e {

// Something did not happen that the run needs; the text is for people.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Replica {
  std::string name;
  std::string uid;
  std::string image;
  std::string revision;
  std::string address;
  pid_t pid = 0;  // 0: no process is recorded, or it has ended
  bool draining = false;
};

// A page of a replica, "" fields when it did not answer.
struct ReplicaState {
  Replica replica;
  nlohmann::json status;  // GET /statusz?format=json; null when it did not answer
  bool active() const;
};

struct AgentOptions {
  std::string name;       // of the service; the agent's id too
  std::string kind;       // "tcp" or "http"
  std::string upstream;   // "PORT" or "HOST:PORT"
  std::string keepalive;  // "" is the agent's default
  int homes = 2;
  std::string relay;        // HOST:PORT; "" is the forwarder
  std::string server_name;  // expected in the certificate; "" is the relay's host
};

class Cluster {
 public:
  struct Options {
    std::filesystem::path programs;  // folder of fairlead-operator, fairlead-relay, fairlead, ...
    std::filesystem::path example;   // the RelayCluster to start from
    std::filesystem::path work;      // an empty folder for everything that is written
    int replicas = 3;
    int homes = 2;
    std::string liveness;  // of peer links; "" as in the example
  };

  // The images that exist: the same relay, reporting versions "1" and "2".
  static constexpr char kImage1[] = "fairlead:v1";
  static constexpr char kImage2[] = "fairlead:v2";
  static constexpr std::uint16_t kAgentPort = 7000;
  static constexpr std::uint16_t kHttpPort = 8080;
  static constexpr std::uint16_t kEchoPort = 20000;
  static constexpr std::uint16_t kFilePort = 20001;
  static constexpr std::uint16_t kHealthPort = 9090;
  static constexpr char kHost[] = "web.relay.localhost";

  // Writes files and picks a free 127.x.y.0/24; starts nothing. Throws Failure.
  explicit Cluster(Options options);
  ~Cluster();

  // The operator, and waits until all replicas are Active.
  void start();
  void start_operator();
  Process& operator_process() { return *operator_; }
  void start_upstream();
  Process& start_agent(const AgentOptions& agent);  // waits for its ready line
  void start_demo_agents();                         // echo, web, files on the upstream
  Process& agent(const std::string& name) { return *agents_.at(name); }

  // Changes the RelayCluster file in one step, as an editor would.
  void edit(const std::function<void(YAML::Node& spec)>& change);

  tcp::endpoint forwarder(std::uint16_t port) const;
  std::uint16_t upstream_port(const std::string& service) const;
  nlohmann::json upstream_connections() const;

  std::vector<Replica> replicas() const;
  std::vector<ReplicaState> states() const;
  std::string status_text() const;   // the operator's status file
  std::string operator_log() const;  // its lines so far
  std::size_t active(const std::string& image = "") const;

  // Polls until `reached`; throws Failure(what) after `limit`, at once on Ctrl-C or when the
  // operator ended on its own.
  void wait(const std::string& what, std::chrono::milliseconds limit,
            const std::function<bool()>& reached);

  const std::filesystem::path& work() const { return options_.work; }
  std::filesystem::path logs() const { return options_.work / "logs"; }
  // Log of a replica's process; it outlives the replica.
  std::filesystem::path replica_log(const Replica& replica) const;

  // Ends everything in order; what ends badly or too late is killed.
  void stop();

 private:
  void pick_subnet();
  void write_images();
  void write_secrets();
  std::filesystem::path program(const std::string& name) const;

  Options options_;
  std::string subnet_;  // "127.4.5"
  asio::io_context io_{1};
  std::optional<tcp::acceptor> claim_;  // holds the subnet against other runs
  std::unique_ptr<Process> operator_;
  std::unique_ptr<Process> upstream_;
  std::map<std::string, std::unique_ptr<Process>> agents_;
  nlohmann::json upstream_ports_;
  bool operator_expected_ = false;
};

// Copies the logs, records and RelayClusters of a work folder, no keys and no tokens.
void keep_logs(const std::filesystem::path& work, const std::filesystem::path& to);

// Counters of visits by service, summed over replicas: the newest sample of each replica counts,
// also of those that are gone.
class CrossShare {
 public:
  void sample(const std::vector<Replica>& replicas);
  // Share of the service's visits whose agent was homed elsewhere; nothing before the first visit.
  std::optional<double> share(const std::string& service) const;

 private:
  struct Paths {
    double local = 0;
    double forwarded = 0;
  };
  std::map<std::string, std::map<std::string, Paths>> by_replica_;  // uid -> service
};

// The value of each sample of a family: labels as written, `kind="tcp",path="local"`.
std::map<std::string, double> parse_metric(const std::string& text, const std::string& family);
// The value of one label in such a text.
std::string label(const std::string& labels, const std::string& name);

}  // namespace fairlead::e2e
