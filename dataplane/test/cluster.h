// Replicas and agents of one cluster in one process, over real sockets, for tests.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "agent/agent.h"
#include "client.h"
#include "link/asio/testing_certificates.h"
#include "relay/relay.h"

namespace fairlead::dataplane::testing {

// An io_context and the one thread that runs it: what a process has.
class Loop {
 public:
  Loop();
  ~Loop();

  boost::asio::io_context& io() { return io_; }
  // Runs `ask` on the thread and returns what it returned.
  template <typename Ask>
  auto run(Ask ask) -> decltype(ask()) {
    std::promise<decltype(ask())> promise;
    boost::asio::post(io_, [&] {
      if constexpr (std::is_void_v<decltype(ask())>) {
        ask();
        promise.set_value();
      } else {
        promise.set_value(ask());
      }
    });
    return promise.get_future().get();
  }
  // Nothing runs any more once this returned.
  void stop();

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

// One agent process.
class AgentNode {
 public:
  AgentNode(AgentOptions options);
  ~AgentNode();

  std::uint32_t standing();
  struct Exit {
    AgentExit code;
    std::string text;
  };
  // How it ended; waits for that for ten seconds.
  std::optional<Exit> wait_exit();
  bool exited();
  void stop();   // as SIGTERM
  void crash();  // as SIGKILL

 private:
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Agent> agent_;
  std::uint32_t standing_ = 0;  // on the loop
  std::optional<Exit> exit_;    // on the loop
};

class Cluster {
 public:
  // Tenant acme has two tokens, "secret" and "secret2", both for every name of one label, tcp
  // "echo" on 20000 and "db" on 20001. Tenant other has "other-secret" for the name "shop" only.
  static constexpr std::uint16_t kEchoPort = 20000;
  static constexpr std::uint16_t kDbPort = 20001;

  Cluster();
  ~Cluster();

  struct RelayOptions {
    std::string trusted_proxy;       // a CIDR
    std::string certificate_uid;     // whose certificate it shows; its own when empty
    bool foreign_authority = false;  // whose certificate nobody here trusts
  };
  // Replicas with these uids, each at its own loopback address, in one membership; returns when
  // every link between them stands.
  void add_relays(const std::vector<std::string>& uids) { add_relays(uids, RelayOptions()); }
  void add_relays(const std::vector<std::string>& uids, const RelayOptions& options);
  // One that is told of nobody and of which nobody is told: see push_membership().
  void start_relay(const std::string& uid, const RelayOptions& options);
  // As SIGKILL: its sockets close, nothing is said, and it is gone.
  void crash(const std::string& uid);
  // As SIGTERM, with these times; ended() says when the process would exit.
  bool ended(const std::string& uid);

  // Tells each replica the list of those that are members and were not removed.
  void push_membership();
  void set_state(const std::string& uid, MemberState state);
  void remove_member(const std::string& uid);
  admin::v1::Membership membership(std::uint64_t epoch) const;
  std::uint64_t epoch() const { return epoch_; }

  struct AgentSpec {
    std::string kind = "tcp", name = "echo";
    std::uint16_t port = 0;
    std::vector<std::string> relays;  // uids
    std::uint32_t homes = 1;
    std::string token = "secret";
    std::string id;  // "agent-<name>" when empty
  };
  // Does not wait; see serve().
  AgentNode& add_agent(const AgentSpec& spec);
  // Adds it and waits until it stands on `homes` replicas and every replica knows of all of them.
  AgentNode& serve(const AgentSpec& spec);
  // Every live replica knows of this many homes of the service.
  bool known(const std::string& service, std::size_t homes);

  std::string address(const std::string& uid) const { return relays_.at(uid).address; }
  Tcp::endpoint endpoint(const std::string& uid, std::uint16_t port) const;
  Tcp::endpoint tcp(const std::string& uid) const { return endpoint(uid, kEchoPort); }
  Tcp::endpoint http(const std::string& uid) const { return endpoint(uid, 8080); }

  // On the replica's thread.
  template <typename Ask>
  auto on(const std::string& uid, Ask ask) {
    Replica& replica = relays_.at(uid);
    return replica.loop->run([&] { return ask(*replica.relay); });
  }
  RelayStatus status(const std::string& uid) {
    return on(uid, [](Relay& relay) { return relay.status(); });
  }
  VisitCounters counters(const std::string& uid, const std::string& kind) {
    return status(uid).counters[kind];
  }
  // No visit lives and nothing of one is held, anywhere; waits for it.
  bool quiet();

 private:
  struct Replica {
    std::string address;
    MemberState state = MemberState::kActive;
    bool member = false;
    std::shared_ptr<bool> ended;
    std::unique_ptr<Loop> loop;
    std::unique_ptr<Relay> relay;  // null after a crash
  };
  RelayConfig config(const std::string& uid, const RelayOptions& options);
  std::vector<Member> members() const;

  std::filesystem::path folder_;
  std::string subnet_;  // "127.201.7."
  int claim_ = -1;      // a socket that holds the subnet
  std::uint64_t epoch_ = 0;
  link::testing::TestAuthority authority_, foreign_;
  std::map<std::string, Replica> relays_;
  std::vector<std::unique_ptr<AgentNode>> agents_;
};

// Asks until the answer is yes; false after ten seconds.
bool eventually(const std::function<bool()>& ask);

}  // namespace fairlead::dataplane::testing
