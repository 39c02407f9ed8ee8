#include "cluster.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <stdexcept>

#include "fairlead/admin.pb.h"
#include "visit/visit_id.h"

namespace fairlead::dataplane::testing {

namespace asio = boost::asio;

namespace {

constexpr std::uint16_t kAgents = 7000, kPeers = 7001, kHttp = 8080;

std::string sha256(std::string_view text) {
  unsigned char digest[32];
  unsigned size = sizeof digest;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  return to_hex({reinterpret_cast<const char*>(digest), size});
}

std::string tokens() {
  const std::string tcp = "tcp: [{name: echo, port: 20000}, {name: db, port: 20001}]";
  return "tokens:\n  - {tenant: acme, sha256: " + sha256("secret") + ", names: [\"*\"], " + tcp +
         "}\n  - {tenant: acme, sha256: " + sha256("secret2") + ", names: [\"*\"], " + tcp +
         "}\n  - {tenant: other, sha256: " + sha256("other-secret") + ", names: [shop]}\n";
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void must(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what);
}

// Claims 127.x.y.0/24 for this process by a listener at its last address.
int claim_subnet(std::string& subnet) {
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries) {
    subnet =
        "127." + std::to_string(200 + random() % 50) + "." + std::to_string(random() % 256) + ".";
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(20099);
    ::inet_pton(AF_INET, (subnet + "254").c_str(), &address.sin_addr);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::listen(fd, 1) == 0) {
      return fd;
    }
    ::close(fd);
  }
  throw std::runtime_error("no free loopback subnet");
}

SocketAddress socket_address(const std::string& ip, std::uint16_t port) {
  return {*IpAddress::parse(ip), port};
}

}  // namespace

bool eventually(const std::function<bool()>& ask) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ask()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// --- Loop ---

Loop::Loop() : work_(io_.get_executor()), thread_([this] { io_.run(); }) {}

Loop::~Loop() {
  stop();
}

void Loop::stop() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

// --- AgentNode ---

AgentNode::AgentNode(AgentOptions options) : loop_(std::make_unique<Loop>()) {
  loop_->run([&] {
    agent_ = std::make_unique<Agent>(
        loop_->io(), std::move(options),
        Agent::Callbacks{.homes = [this](std::uint32_t standing, std::uint32_t,
                                         const std::vector<std::string>&) { standing_ = standing; },
                         .exit =
                             [this](AgentExit code, std::string text) {
                               exit_ = Exit{code, std::move(text)};
                             }});
    agent_->start();
  });
}

AgentNode::~AgentNode() {
  crash();
}

std::uint32_t AgentNode::standing() {
  return loop_ ? loop_->run([&] { return standing_; }) : 0;
}

bool AgentNode::exited() {
  return loop_->run([&] { return exit_.has_value(); });
}

std::optional<AgentNode::Exit> AgentNode::wait_exit() {
  eventually([&] { return exited(); });
  return loop_->run([&] { return exit_; });
}

void AgentNode::stop() {
  loop_->run([&] { agent_->stop(); });
}

void AgentNode::crash() {
  if (!loop_) return;
  loop_->stop();
  agent_.reset();
  loop_.reset();
}

// --- Cluster ---

Cluster::Cluster() : authority_("fairlead test"), foreign_("somebody else") {
  spdlog::set_level(::getenv("FAIRLEAD_TEST_LOG") != nullptr ? spdlog::level::debug
                                                             : spdlog::level::off);
  std::string folder = (std::filesystem::temp_directory_path() / "fairlead-test-XXXXXX").string();
  must(::mkdtemp(folder.data()) != nullptr, "no temporary folder");
  folder_ = folder;
  claim_ = claim_subnet(subnet_);
  write(folder_ / "tokens.yaml", tokens());
}

Cluster::~Cluster() {
  agents_.clear();
  for (auto& [uid, replica] : relays_) crash(uid);
  ::close(claim_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

RelayConfig Cluster::config(const std::string& uid, const RelayOptions& options) {
  const std::string& address = relays_.at(uid).address;
  const std::string shown = options.certificate_uid.empty() ? uid : options.certificate_uid;
  const link::testing::TestLeaf leaf{
      .common_name = uid, .uris = {"fairlead://test/" + shown}, .ips = {address}};
  const link::TlsMaterial material =
      (options.foreign_authority ? foreign_ : authority_).issue(leaf);
  const auto folder = folder_ / uid;
  std::filesystem::create_directories(folder / "state");
  write(folder / "leaf.pem", material.certificate);
  write(folder / "leaf.key", material.key);
  write(folder / "ca.pem", material.ca);

  RelayConfig config;
  config.cluster = {"test", "test"};
  config.replica = {uid, uid};
  config.listen.address = *IpAddress::parse(address);
  config.listen.agents = socket_address(address, kAgents);
  config.listen.peers = socket_address(address, kPeers);
  config.listen.http = socket_address(address, kHttp);
  config.tls_cert = folder / "leaf.pem";
  config.tls_key = folder / "leaf.key";
  config.tls_ca = folder / "ca.pem";
  config.tokens_file = folder_ / "tokens.yaml";
  config.domain = "test";
  config.pool_size = 2;
  config.state_dir = folder / "state";
  if (!options.trusted_proxy.empty()) {
    std::string error;
    config.trusted_proxies = CidrSet({*Cidr::parse(options.trusted_proxy, error)});
  }
  return config;
}

void Cluster::start_relay(const std::string& uid, const RelayOptions& options) {
  Replica& replica = relays_[uid];
  replica.address = subnet_ + std::to_string(relays_.size());
  replica.ended = std::make_shared<bool>(false);
  replica.loop = std::make_unique<Loop>();
  std::string error;
  const bool started = replica.loop->run([&] {
    replica.relay = std::make_unique<Relay>(replica.loop->io(), config(uid, options), "1.0.0",
                                            [ended = replica.ended] { *ended = true; });
    return replica.relay->start(error);
  });
  must(started, error);
}

void Cluster::add_relays(const std::vector<std::string>& uids, const RelayOptions& options) {
  for (const std::string& uid : uids) {
    start_relay(uid, options);
    relays_.at(uid).member = true;
  }
  push_membership();
  const bool meshed = eventually([&] {
    return std::all_of(relays_.begin(), relays_.end(), [&](const auto& each) {
      if (!each.second.relay || !each.second.member) return true;
      const RelayStatus now = status(each.first);
      return now.ready && std::all_of(now.peers.begin(), now.peers.end(), [](const PeerRow& peer) {
               return peer.links_up == peer.links_expected;
             });
    });
  });
  must(meshed, "the replicas did not find each other");
}

void Cluster::crash(const std::string& uid) {
  Replica& replica = relays_.at(uid);
  if (!replica.relay) return;
  replica.loop->stop();
  replica.relay.reset();
  replica.loop.reset();
}

bool Cluster::ended(const std::string& uid) {
  Replica& replica = relays_.at(uid);
  return replica.loop->run([&] { return *replica.ended; });
}

std::vector<Member> Cluster::members() const {
  std::vector<Member> members;
  for (const auto& [uid, replica] : relays_) {
    if (!replica.member) continue;
    members.push_back({uid, uid, replica.address + ":7001", replica.state});
  }
  return members;
}

admin::v1::Membership Cluster::membership(std::uint64_t epoch) const {
  admin::v1::Membership list;
  list.set_cluster_uid("test");
  list.set_epoch(epoch);
  list.set_digest(membership_digest(members()));
  for (const Member& member : members()) {
    admin::v1::Member& each = *list.add_members();
    each.set_uid(member.uid);
    each.set_name(member.name);
    each.set_peer_address(member.peer_address);
    each.set_state(static_cast<admin::v1::MemberState>(member.state));
  }
  return list;
}

void Cluster::push_membership() {
  const auto list = membership(++epoch_);
  for (auto& [uid, replica] : relays_) {
    if (!replica.relay || !replica.member) continue;
    const auto answer = on(uid, [&](Relay& relay) { return relay.set_membership(list); });
    must(answer.verdict != Membership::Verdict::kRefused, answer.text);
  }
}

void Cluster::set_state(const std::string& uid, MemberState state) {
  relays_.at(uid).state = state;
  push_membership();
}

void Cluster::remove_member(const std::string& uid) {
  relays_.at(uid).member = false;
  push_membership();
}

AgentNode& Cluster::add_agent(const AgentSpec& spec) {
  AgentOptions options;
  for (const std::string& uid : spec.relays) {
    options.relays.push_back({address(uid), std::to_string(kAgents)});
  }
  options.identity = authority_.trusting();
  options.token = spec.token;
  options.agent_id = spec.id.empty() ? "agent-" + spec.name : spec.id;
  options.version = "1.0.0";
  options.services = {{spec.kind, spec.name, {"127.0.0.1", std::to_string(spec.port)}}};
  options.homes = spec.homes;
  return *agents_.emplace_back(std::make_unique<AgentNode>(std::move(options)));
}

AgentNode& Cluster::serve(const AgentSpec& spec) {
  AgentNode& agent = add_agent(spec);
  must(eventually([&] { return agent.standing() == spec.homes; }), "the agent has no home");
  must(known(spec.kind + "/" + spec.name, spec.homes), "the agent is not known everywhere");
  return agent;
}

bool Cluster::known(const std::string& service, std::size_t homes) {
  return eventually([&] {
    return std::all_of(relays_.begin(), relays_.end(), [&](const auto& each) {
      if (!each.second.relay || !each.second.member) return true;
      const RelayStatus now = status(each.first);
      return homes == static_cast<std::size_t>(std::count_if(
                          now.agents.begin(), now.agents.end(),
                          [&](const AgentRow& agent) { return agent.services == service; }));
    });
  });
}

Tcp::endpoint Cluster::endpoint(const std::string& uid, std::uint16_t port) const {
  return {asio::ip::make_address(address(uid)), port};
}

bool Cluster::quiet() {
  return eventually([&] {
    return std::all_of(relays_.begin(), relays_.end(), [&](const auto& each) {
      if (!each.second.relay) return true;
      const RelayStatus now = status(each.first);
      const bool live = std::any_of(now.counters.begin(), now.counters.end(),
                                    [](const auto& kind) { return kind.second.live > 0; });
      return !live && now.visits.empty() && now.forwarding == 0 && now.replay_held == 0 &&
             now.credit_lent == 0;
    });
  });
}

}  // namespace fairlead::dataplane::testing
