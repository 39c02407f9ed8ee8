// The files of a state folder: cluster, records, addresses, and the relay's configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>

#include "local/address_pool.h"
#include "local/cluster_state.h"
#include "local/durable_file.h"
#include "local/relay_config.h"
#include "local/replica_record.h"
#include "local/test_sockets.h"

namespace fairlead::op {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class StateTest : public testing::Test {
 protected:
  StateTest() : folder_(make_test_folder("state")) {}
  ~StateTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::string error_;
};

RelayCluster cluster_of(const std::string& text) {
  const ParsedCluster parsed = parse_relay_cluster_yaml(text);
  EXPECT_TRUE(parsed.cluster) << (parsed.errors.empty() ? "" : to_string(parsed.errors[0]));
  return parsed.cluster.value_or(RelayCluster{});
}

std::string text_of(int replicas, const std::string& comment = "") {
  return comment +
         "apiVersion: fairlead.dev/v1alpha1\nkind: RelayCluster\nmetadata: {name: demo}\n"
         "spec: {replicas: " +
         std::to_string(replicas) + "}\n";
}

TEST_F(StateTest, OneOperatorPerFolder) {
  auto first = ClusterState::open(folder_ / "s", error_);
  ASSERT_TRUE(first) << error_;
  EXPECT_FALSE(ClusterState::open(folder_ / "s", error_));
  EXPECT_THAT(error_, HasSubstr("already runs this cluster"));
  EXPECT_THAT(error_, HasSubstr("process " + std::to_string(::getpid())));
  first.reset();
  EXPECT_TRUE(ClusterState::open(folder_ / "s", error_)) << error_;
}

TEST_F(StateTest, AClusterIsFoundedOnceAndReadBack) {
  std::string uid;
  std::string ca;
  {
    auto state = ClusterState::open(folder_ / "s", error_);
    ASSERT_TRUE(state);
    EXPECT_FALSE(state->record());
    ASSERT_EQ(state->found("demo", "127.9.9.0/24", "127.0.0.1"), std::nullopt);
    uid = state->record()->uid;
    ca = state->ca().certificate;
    EXPECT_EQ(uid.size(), 32u);
  }
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "s" / "ca.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((folder_ / "s").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  auto again = ClusterState::open(folder_ / "s", error_);
  ASSERT_TRUE(again) << error_;
  ASSERT_TRUE(again->record());
  EXPECT_EQ(again->record()->uid, uid);
  EXPECT_EQ(again->record()->subnet, "127.9.9.0/24");
  EXPECT_EQ(again->ca().certificate, ca);
}

TEST_F(StateTest, DamageIsNamedAndNothingIsMadeAnew) {
  {
    auto state = ClusterState::open(folder_, error_);
    ASSERT_EQ(state->found("demo", "127.9.9.0/24", "127.0.0.1"), std::nullopt);
  }
  ASSERT_FALSE(replace_file(folder_ / "cluster.json", "{", Durability::kVisible));
  EXPECT_FALSE(ClusterState::open(folder_, error_));
  EXPECT_THAT(error_, HasSubstr("cluster.json is not usable"));
  ASSERT_FALSE(replace_file(folder_ / "ca.key", "x", Durability::kVisible));
  EXPECT_FALSE(ClusterState::open(folder_, error_));
  EXPECT_THAT(error_, HasSubstr("does not belong to ca.pem"));
}

TEST_F(StateTest, GenerationCountsSpecsAndNotTexts) {
  auto state = ClusterState::open(folder_, error_);
  ASSERT_EQ(state->found("demo", "127.9.9.0/24", "127.0.0.1"), std::nullopt);
  const auto accept = [&](const std::string& text) {
    EXPECT_EQ(state->accept(text, cluster_of(text)), std::nullopt);
    EXPECT_EQ(state->last_good(), text);
    return state->record()->generation;
  };
  EXPECT_EQ(accept(text_of(3)), 1);
  EXPECT_EQ(accept(text_of(3)), 1);
  EXPECT_EQ(accept(text_of(3, "# a comment\n")), 1);
  EXPECT_EQ(accept(text_of(4)), 2);
  state.reset();
  state = ClusterState::open(folder_, error_);
  EXPECT_EQ(accept(text_of(4)), 2);
  EXPECT_EQ(accept(text_of(3)), 3);
}

TEST_F(StateTest, RecordsAreReadBackAsTheyWere) {
  ReplicaRecord record;
  record.name = "demo-1f2e3d4c-0-1";
  record.uid = "u";
  record.revision = "1f2e3d4c";
  record.slot = 2;
  record.attempt = 3;
  record.image = "fairlead:dev";
  record.address = "127.1.2.3";
  record.created_at = WallTime(std::chrono::milliseconds(1'800'000'000'123));
  std::string error;
  const auto first = parse_replica_record(to_json(record), error);
  ASSERT_TRUE(first) << error;
  EXPECT_EQ(to_json(*first), to_json(record));
  EXPECT_FALSE(first->process);
  EXPECT_FALSE(first->mesh_gate);
  EXPECT_EQ(first->created_at, record.created_at);

  record.process = ProcessId{7, 8, "b"};
  record.was_ready = true;
  record.ended_at = record.created_at;
  record.ended_how = "exit code 1 \xff";
  record.mesh_gate = false;
  record.drain = DrainIntent{"rollout", record.created_at, record.created_at, true};
  record.deletion_requested = record.created_at;
  const auto second = parse_replica_record(to_json(record), error);
  ASSERT_TRUE(second) << error;
  EXPECT_EQ(second->process, record.process);
  EXPECT_EQ(second->mesh_gate, false);
  EXPECT_EQ(second->drain, record.drain);
  EXPECT_TRUE(second->deletion_requested);
  EXPECT_TRUE(second->ended_at);
  EXPECT_FALSE(parse_replica_record("{}", error));
}

TEST_F(StateTest, AFolderWithoutARecordIsALeftOverAndADamagedRecordIsNot) {
  ReplicaStore store(folder_ / "replicas");
  std::filesystem::create_directories(store.folder("demo-1f2e3d4c-0-1") / "state");
  ReplicaRecord record;
  record.name = "demo-1f2e3d4c-1-1";
  std::filesystem::create_directories(store.folder(record.name));
  ASSERT_EQ(store.save(record), std::nullopt);
  std::map<std::string, ReplicaRecord> records;
  ASSERT_EQ(store.load(records), std::nullopt);
  EXPECT_EQ(records.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(store.folder("demo-1f2e3d4c-0-1")));

  ASSERT_FALSE(replace_file(store.file(record.name, "record.json"), "{", Durability::kVisible));
  EXPECT_THAT(store.load(records).value_or(""), HasSubstr("record.json is not usable"));
  EXPECT_TRUE(std::filesystem::exists(store.folder(record.name)));
  EXPECT_EQ(store.remove(record.name), std::nullopt);
  EXPECT_EQ(store.remove(record.name), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(store.folder(record.name)));
}

TEST(Subnet, HostsWithoutNetworkAndBroadcast) {
  std::string error;
  const auto subnet = Subnet::parse("127.4.5.8/29", error);
  ASSERT_TRUE(subnet) << error;
  EXPECT_EQ(subnet->hosts(), 6u);
  EXPECT_EQ(subnet->host(1), "127.4.5.9");
  EXPECT_EQ(subnet->host(6), "127.4.5.14");
  EXPECT_EQ(subnet->to_string(), "127.4.5.8/29");
  for (const char* bad : {"", "127.4.5.0", "127.4.5.1/24", "127.4.5.0/30", "127.0.0.0/8",
                          "127.4.5.0/24x", "127.4.5.0/", "a/24", "::1/24"}) {
    EXPECT_FALSE(Subnet::parse(bad, error)) << bad;
    EXPECT_THAT(error, HasSubstr("127.4.5.0/24")) << bad;
  }
}

TEST(AddressPool, PicksOnlyFreeAddresses) {
  const TestNet net = TestNet::pick();
  std::string error;
  const auto subnet = Subnet::parse(net.address(0) + "/29", error);
  ASSERT_TRUE(subnet) << error;
  const std::uint16_t port = net.free_port(6);
  std::mt19937_64 random(7);
  std::set<std::string> taken = {net.address(2)};
  const TestListener busy(net.address(3), port);
  for (int i = 0; i < 4; ++i) {
    const auto address = pick_address(*subnet, taken, {port}, random);
    ASSERT_TRUE(address);
    EXPECT_NE(*address, net.address(3));
    EXPECT_TRUE(taken.insert(*address).second);
  }
  EXPECT_FALSE(pick_address(*subnet, taken, {port}, random));
}

TEST(AddressPool, FindsASubnet) {
  std::mt19937_64 random(7);
  const auto subnet = find_free_subnet({7000, 7001}, random);
  ASSERT_TRUE(subnet);
  EXPECT_TRUE(ports_are_free(subnet->host(1), {7000, 7001}));
  EXPECT_NE(find_free_subnet({7000, 7001}, random), subnet);
}

TEST(RelayConfig, SaysWhatTheRevisionSays) {
  RelayClusterSpec spec;
  spec.visitors.domain = "a \"b\": c";  // nothing in a text may become YAML
  spec.visitors.trusted_proxies = {"10.0.0.0/8"};
  spec.drain.timeout = std::chrono::seconds(60);
  const std::string text =
      render_relay_config({"c1", "demo", "1e3", "demo-1f2e3d4c-0-1", "127.1.2.3"}, spec, {},
                          {"/state/demo", "/secrets/agents/tokens.yaml"}, {"127.0.0.1/32"});
  const YAML::Node root = YAML::Load(text);
  EXPECT_EQ(root["replica"]["uid"].as<std::string>(), "1e3");
  EXPECT_THAT(text, HasSubstr("uid: \"1e3\""));
  EXPECT_EQ(root["listen"]["address"].as<std::string>(), "127.1.2.3");
  EXPECT_EQ(root["listen"]["http"].as<int>(), 8080);
  EXPECT_EQ(root["visitors"]["domain"].as<std::string>(), "a \"b\": c");
  EXPECT_THAT(root["visitors"]["trusted_proxies"].as<std::vector<std::string>>(),
              ElementsAre("127.0.0.1/32", "10.0.0.0/8"));
  EXPECT_EQ(root["tls"]["key"].as<std::string>(), "/state/demo/leaf.key");
  EXPECT_EQ(root["agents"]["tokens_file"].as<std::string>(), "/secrets/agents/tokens.yaml");
  EXPECT_EQ(root["drain"]["timeout_seconds"].as<int>(), 60);
  spec.visitors.http = false;
  EXPECT_THAT(render_relay_config({}, spec, {}, {}, {}), HasSubstr("http: 0"));
}

TEST(RelayConfig, PortsOfTheServiceAndOfAReplica) {
  RelayClusterSpec spec;
  spec.visitors.tcp_port_range = {20000, 20002};
  EXPECT_THAT(service_ports(spec, {}), ElementsAre(7000, 8080, 20000, 20001, 20002));
  EXPECT_THAT(replica_ports(spec, {}),
              ElementsAre(7000, 8080, 20000, 20001, 20002, 7001, 9443, 9090));
  spec.visitors = {};
  spec.visitors.http = false;
  EXPECT_THAT(service_ports(spec, {}), ElementsAre(7000));
}

}  // namespace
}  // namespace fairlead::op
