// Several replicas whose directories exchange messages over links that break, while agents
// register, move, restart and collide and replicas restart, leave and join. Everything is drawn
// from a seed.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "fairlead/control.pb.h"
#include "mesh/directory.h"

namespace fairlead::dataplane {
namespace {

using Message = std::variant<DirectorySnapshot, DirectoryDelta>;

// One agent process and where its links are.
struct Process {
  Registration registration;
  std::map<std::string, AgentLinkId> homes;  // by replica uid
  bool over = false;                         // superseded, evicted or refused for good
};

class Cluster {
 public:
  explicit Cluster(unsigned seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) start("r" + std::to_string(i));
    publish();
  }

  void step() {
    switch (pick(12)) {
      case 0:
        return spawn();
      case 1:
      case 2:
        return connect();
      case 3:
        return disconnect();
      case 4:
        return cut(pick(2) == 0);
      case 5:
        if (pick(6) == 0) restart();
        return;
      case 6:
        if (pick(6) == 0) replace();
        return;
      case 7:
        if (pick(8) == 0) node(any_uid()).directory->leave();
        return;
      default:
        for (std::size_t n = pick(6); n > 0; --n) deliver_one();
    }
  }

  // All links stand, every message arrives.
  void quiet() {
    cut_.clear();
    for (const std::string& a : uids()) {
      for (const std::string& b : uids()) {
        if (a < b) heal(a, b);
      }
    }
    for (int round = 0; round < 10'000 && deliver_one(); ++round) {
    }
  }

  void check_lookups() {
    for (auto& [uid, each] : nodes_) {
      for (const ServiceName& service : services()) {
        std::set<std::string> agents;
        for (const std::string tenant : {"t0", "t1"}) {
          for (const Home& home : each.directory->lookup(tenant, service)) {
            agents.insert(tenant + home.agent_id);
            if (home.local) continue;
            ASSERT_TRUE(nodes_.contains(home.replica_uid)) << "has left";
            ASSERT_TRUE(linked(uid, home.replica_uid)) << "cannot be reached";
          }
        }
        ASSERT_LE(agents.size(), 1u) << "a name leads to two agents";
      }
    }
  }

  void check_converged() {
    const std::vector<Directory::Row> first = nodes_.begin()->second.directory->rows();
    for (auto& [uid, each] : nodes_) ASSERT_EQ(each.directory->rows(), first) << uid;
    std::map<std::string, std::string> instances, holders;
    for (const Directory::Row& row : first) {
      ASSERT_TRUE(row.used) << row.owner_uid << ' ' << row.entry.agent_id;
      const std::string agent = row.entry.tenant + '/' + row.entry.agent_id;
      ASSERT_EQ(instances.emplace(agent, row.entry.instance).first->second, row.entry.instance)
          << "two instances of " << agent;
      for (const ServiceName& service : row.entry.services) {
        ASSERT_EQ(holders.emplace(service.name, agent).first->second, agent) << service.name;
      }
    }
    // What the directory says is what the processes have, and nobody lost a link without a word.
    std::set<std::pair<std::string, std::string>> in_directory, in_fact;
    for (const Directory::Row& row : first) {
      in_directory.emplace(row.owner_uid, row.entry.instance);
    }
    for (const auto& process : processes_) {
      for (const auto& [uid, link] : process->homes) {
        in_fact.emplace(uid, process->registration.instance);
      }
    }
    ASSERT_EQ(in_directory, in_fact);
  }

  std::size_t live_entries() { return nodes_.begin()->second.directory->rows().size(); }

 private:
  struct Node {
    std::unique_ptr<Directory> directory;
    std::map<AgentLinkId, Process*> links;
  };

  std::size_t pick(std::size_t n) { return random_() % n; }
  static const std::vector<ServiceName>& services() {
    static const std::vector<ServiceName> all{{"http", "s0"}, {"http", "s1"}, {"tcp", "s2"}};
    return all;
  }
  std::vector<std::string> uids() const {
    std::vector<std::string> uids;
    for (const auto& [uid, each] : nodes_) uids.push_back(uid);
    return uids;
  }
  std::string any_uid() { return uids()[pick(nodes_.size())]; }
  Node& node(const std::string& uid) { return nodes_.at(uid); }
  static std::pair<std::string, std::string> pair_of(const std::string& a, const std::string& b) {
    return {std::min(a, b), std::max(a, b)};
  }
  bool linked(const std::string& a, const std::string& b) const {
    return up_.contains(pair_of(a, b));
  }

  void start(const std::string& uid) {
    nodes_[uid].directory = std::make_unique<Directory>(uid, "boot" + std::to_string(++boots_));
  }
  void stop(const std::string& uid) {
    for (const std::string& other : uids()) {
      if (other != uid) fall(uid, other);
    }
    for (auto& [link, process] : node(uid).links) process->homes.erase(uid);
    nodes_.erase(uid);
  }
  void restart() {
    const std::string uid = any_uid();
    stop(uid);
    start(uid);
    publish();
  }
  void replace() {
    stop(any_uid());
    start("r" + std::to_string(4 + boots_));
    publish();
  }
  void publish() {
    for (auto& [uid, each] : nodes_) each.directory->set_members(uids());
  }

  // --- links between replicas ---

  void heal(const std::string& a, const std::string& b) {
    if (linked(a, b) || cut_.contains(pair_of(a, b))) return;
    up_.insert(pair_of(a, b));
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      node(x).directory->peer_up(y);
      pump(x);
      wires_[{x, y}].emplace_back(node(x).directory->snapshot());
    }
  }
  void fall(const std::string& a, const std::string& b) {
    if (up_.erase(pair_of(a, b)) == 0) return;
    wires_.erase({a, b});
    wires_.erase({b, a});
    node(a).directory->peer_down(b);
    node(b).directory->peer_down(a);
  }
  void cut(bool cut) {
    const std::string a = any_uid(), b = any_uid();
    if (a == b) return;
    if (cut) {
      cut_.insert(pair_of(a, b));
      fall(a, b);
    } else {
      cut_.erase(pair_of(a, b));
      heal(a, b);
    }
  }
  bool deliver_one() {
    std::vector<std::pair<std::string, std::string>> busy;
    for (const auto& [ends, queue] : wires_) {
      if (!queue.empty()) busy.push_back(ends);
    }
    if (busy.empty()) return false;
    const auto [from, to] = busy[pick(busy.size())];
    auto& queue = wires_.at({from, to});
    const Message message = std::move(queue.front());
    queue.pop_front();
    Directory& directory = *node(to).directory;
    std::string error;
    const auto applied = std::visit(
        [&](const auto& each) { return directory.apply(from, *from_wire(to_wire(each), error)); },
        message);
    EXPECT_NE(applied, Directory::Applied::kForged);
    if (applied != Directory::Applied::kDone) {
      fall(from, to);  // the control session is opened anew
      heal(from, to);
    }
    pump(to);
    return true;
  }
  void pump(const std::string& uid) {
    Node& each = node(uid);
    while (auto event = each.directory->poll_event()) {
      if (const auto* announce = std::get_if<directory_event::Announce>(&*event)) {
        for (const std::string& other : uids()) {
          if (other != uid && linked(uid, other))
            wires_[{uid, other}].emplace_back(announce->delta);
        }
      } else if (const auto* old = std::get_if<directory_event::Superseded>(&*event)) {
        end(uid, old->link);
      } else if (const auto* evicted = std::get_if<directory_event::Evicted>(&*event)) {
        end(uid, evicted->link);
      }
    }
  }

  // --- agents ---

  void end(const std::string& uid, AgentLinkId link) {
    const auto found = node(uid).links.find(link);
    if (found == node(uid).links.end()) return;  // it ended by itself a moment ago
    Process* process = found->second;
    node(uid).links.erase(found);
    process->homes.erase(uid);
    process->over = true;  // exits: its other links end too
    while (!process->homes.empty()) drop(*process, process->homes.begin()->first);
  }
  void drop(Process& process, std::string uid) {
    const AgentLinkId link = process.homes.at(uid);
    process.homes.erase(uid);
    node(uid).links.erase(link);
    node(uid).directory->remove(link);
    pump(uid);
  }
  void spawn() {
    auto process = std::make_unique<Process>();
    std::string instance(16, 'i');
    for (char& c : instance) c = static_cast<char>(random_());
    process->registration = {"t" + std::to_string(pick(2)),
                             "a" + std::to_string(pick(3)),
                             instance,
                             0,
                             {services()[pick(3)]}};
    if (pick(4) == 0) process->registration.services.push_back(services()[pick(3)]);
    processes_.push_back(std::move(process));
    connect();
  }
  Process* any_live() {
    std::vector<Process*> live;
    for (const auto& process : processes_) {
      if (!process->over) live.push_back(process.get());
    }
    return live.empty() ? nullptr : live[pick(live.size())];
  }
  void connect() {
    Process* process = any_live();
    const std::string uid = any_uid();
    if (process == nullptr || process->homes.contains(uid)) return;
    const AgentLinkId link = ++links_;
    const RegistrationResult result = node(uid).directory->add(link, process->registration);
    if (const auto* accepted = std::get_if<RegistrationAccepted>(&result)) {
      process->registration.generation =
          std::max(process->registration.generation, accepted->generation);
      process->homes[uid] = link;
      node(uid).links[link] = process;
    } else if (!std::get<RegistrationRefused>(result).retry) {
      process->over = true;
      while (!process->homes.empty()) drop(*process, process->homes.begin()->first);
    }
    pump(uid);
  }
  void disconnect() {
    Process* process = any_live();
    if (process == nullptr || process->homes.empty()) return;
    drop(*process, process->homes.begin()->first);
  }

  std::mt19937_64 random_;
  std::map<std::string, Node> nodes_;
  std::set<std::pair<std::string, std::string>> up_, cut_;
  std::map<std::pair<std::string, std::string>, std::deque<Message>> wires_;
  std::vector<std::unique_ptr<Process>> processes_;
  unsigned boots_ = 0;
  AgentLinkId links_ = 0;
};

TEST(DirectorySim, AllAgreeWhenQuietAndNoLookupLeadsNowhere) {
  std::size_t entries = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cluster cluster(seed);
    for (int step = 0; step < 300; ++step) {
      cluster.step();
      cluster.check_lookups();
      if (HasFatalFailure()) return;
    }
    cluster.quiet();
    cluster.check_lookups();
    cluster.check_converged();
    if (HasFatalFailure()) return;
    entries += cluster.live_entries();
  }
  EXPECT_GT(entries, 150u) << "the runs ended with agents in the directory";
}

}  // namespace
}  // namespace fairlead::dataplane
