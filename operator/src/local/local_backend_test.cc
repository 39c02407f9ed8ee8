// The backend over real processes: the fake relay as its image.
#include "local/local_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "local/cluster_state.h"
#include "local/durable_file.h"
#include "local/test_sockets.h"

namespace fairlead::op {
namespace {

using namespace std::chrono_literals;
using Kind = BackendError::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kName[] = "demo-1f2e3d4c-0-1";

class LocalBackendTest : public testing::Test {
 protected:
  LocalBackendTest() : folder_(make_test_folder("backend")), net_(TestNet::pick()) {
    std::filesystem::create_directories(folder_ / "state");
    add_image("fairlead:dev", std::string("exec ") + FAIRLEAD_FAKE_RELAY + " \"$@\"");
    std::string error;
    options_.state = folder_ / "state";
    options_.status_file = folder_ / "status.yaml";
    options_.images = folder_ / "images";
    options_.secrets = folder_ / "secrets";
    options_.cluster_uid = "c1";
    options_.cluster_name = "demo";
    options_.listen = net_.address(254);
    options_.subnet = net_.cidr();
    options_.ca = make_ca("demo", std::chrono::system_clock::now(), random_serial(), error).value();
    options_.on_news = [this] { ++news_; };
    options_.on_event = [this](const Event& event) {
      events_ += event.reason + " " + event.about + " " + event.text + "\n";
    };
    reopen();
  }

  ~LocalBackendTest() override {
    backend_.reset();
    for (const ProcessId& process : seen_) send_signal(process, SIGKILL);
    std::filesystem::remove_all(folder_);
  }

  void add_image(const std::string& name, const std::string& script) {
    const std::filesystem::path image = folder_ / "images" / name;
    std::filesystem::create_directories(image);
    ASSERT_FALSE(replace_file(image / "fairlead-relay", "#!/bin/sh\n" + script + "\n",
                              Durability::kVisible, 0755));
  }

  // As another operator process would: only what is on the disk counts.
  void reopen() {
    backend_.reset();
    std::string error;
    backend_ = LocalBackend::open(options_, error);
    ASSERT_TRUE(backend_) << error;
  }

  static NewReplica replica(const std::string& name = kName,
                            const std::string& image = "fairlead:dev") {
    NewReplica wanted;
    wanted.name = name;
    wanted.revision = "1f2e3d4c";
    wanted.spec.image = image;
    return wanted;
  }

  // What the list says of one replica; a default one when it is not there.
  ObservedReplica look(const std::string& name = kName) {
    const auto list = backend_->list_replicas();
    EXPECT_TRUE(list.ok()) << list.error().text;
    if (!list.ok()) return {};
    for (const ObservedReplica& one : list.value()) {
      remember(one.name);
      if (one.name == name) return one;
    }
    return {};
  }

  // So that a failed test leaves no process.
  void remember(const std::string& name) {
    if (const auto record = record_of(name); record && record->process) {
      seen_.push_back(*record->process);
    }
  }

  std::optional<ReplicaRecord> record_of(const std::string& name) {
    std::string error;
    const auto text = read_file(options_.state / "replicas" / name / "record.json", error);
    return text ? parse_replica_record(*text, error) : std::nullopt;
  }

  bool until(const std::function<bool(const ObservedReplica&)>& condition,
             const std::string& name = kName) {
    return eventually(10s, [&] { return condition(look(name)); });
  }

  ObservedReplica bring_up(const std::string& name = kName) {
    const auto created = backend_->create(replica(name));
    EXPECT_FALSE(created) << created->text;
    EXPECT_TRUE(until([](const auto& one) { return one.ready && one.sample; }, name));
    return look(name);
  }

  std::filesystem::path folder_;
  TestNet net_;
  LocalOptions options_;
  std::atomic<int> news_{0};
  std::string events_;
  std::unique_ptr<LocalBackend> backend_;
  std::vector<ProcessId> seen_;
};

TEST_F(LocalBackendTest, AReplicaFromCreateToRemove) {
  const ObservedReplica up = bring_up();
  EXPECT_EQ(up.process, ProcessState::kRunning);
  EXPECT_EQ(up.uid.size(), 32u);
  EXPECT_EQ(up.sample->version, "fake");
  EXPECT_EQ(up.mesh_gate, std::nullopt);
  EXPECT_GT(news_, 0);
  const auto record = record_of(kName);
  ASSERT_TRUE(record);
  EXPECT_EQ(up.peer_address, record->address + ":7001");
  EXPECT_EQ(record->address.substr(0, record->address.rfind('.') + 1) + "0/24", net_.cidr());

  EXPECT_FALSE(backend_->set_mesh_gate(kName, up.uid, true));
  EXPECT_FALSE(backend_->annotate_drain(kName, up.uid, {"rollout", {}, {}, false}));
  EXPECT_FALSE(backend_->drain(up.uid, {1, "rollout", 60s, 0ms, false}));
  EXPECT_TRUE(until([](const auto& one) {
    return one.sample && one.sample->drain.phase == DrainPhase::kDrained;
  }));
  EXPECT_EQ(look().mesh_gate, true);
  EXPECT_EQ(look().drain->reason, "rollout");

  EXPECT_FALSE(backend_->remove(kName, up.uid));
  EXPECT_TRUE(until([](const auto& one) { return one.name.empty(); }));
  EXPECT_THAT(events_,
              HasSubstr("Removed demo-1f2e3d4c-0-1 process and record are gone, exit code 0"));
  EXPECT_FALSE(is_alive(*record->process));
  EXPECT_TRUE(backend_->empty());
  EXPECT_TRUE(std::filesystem::is_empty(options_.state / "replicas"));
}

TEST_F(LocalBackendTest, ANewOperatorTakesOverWhatRuns) {
  const ObservedReplica before = bring_up();
  EXPECT_FALSE(backend_->set_mesh_gate(kName, before.uid, true));
  reopen();
  EXPECT_TRUE(until([](const auto& one) { return one.ready && one.sample; }));
  const ObservedReplica after = look();
  EXPECT_EQ(after.uid, before.uid);
  EXPECT_EQ(after.sample->process_id, before.sample->process_id);
  EXPECT_EQ(after.mesh_gate, true);
  EXPECT_EQ(backend_->create(replica())->kind, Kind::kConflict);
}

TEST_F(LocalBackendTest, ANewOperatorBelievesTheEndpointsUntilItKnowsBetter) {
  const ObservedReplica before = bring_up();
  ASSERT_FALSE(backend_->put_endpoints({before.uid}));
  reopen();
  EXPECT_TRUE(look().ready) << "before anybody was asked";
  const ProcessId process = *record_of(kName)->process;
  send_signal(process, SIGSTOP);
  reopen();
  EXPECT_TRUE(look().ready);
  EXPECT_TRUE(until([](const auto& one) { return !one.ready; })) << "it does not answer";
}

TEST_F(LocalBackendTest, WhatANewOperatorDoesNotKnowToBeReadyIsUnreadySinceNow) {
  bring_up();
  backend_.reset();
  const WallTime then = std::chrono::system_clock::now();
  reopen();
  const ObservedReplica after = look();
  EXPECT_TRUE(after.ready || after.ready_since >= then) << "not since the epoch";
  EXPECT_TRUE(until([](const auto& one) { return one.ready; }));
}

TEST_F(LocalBackendTest, DeathBetweenSpawnAndRecordIsFoundByTheLock) {
  const ObservedReplica before = bring_up();
  ReplicaRecord record = *record_of(kName);
  const auto process = record.process;
  record.process.reset();
  ReplicaStore store(options_.state / "replicas");
  backend_.reset();
  ASSERT_EQ(store.save(record), std::nullopt);
  reopen();
  EXPECT_EQ(look().process, ProcessState::kRunning);
  EXPECT_EQ(record_of(kName)->process, process);
  EXPECT_TRUE(until([&](const auto& one) {
    return one.sample && one.sample->process_id == before.sample->process_id;
  }));
}

TEST_F(LocalBackendTest, DeathBetweenRecordAndSpawnIsMadeUpFor) {
  options_.images = folder_ / "nowhere";
  reopen();
  ASSERT_FALSE(backend_->create(replica()));
  EXPECT_FALSE(record_of(kName)->process);
  options_.images = folder_ / "images";
  reopen();
  EXPECT_TRUE(until([](const auto& one) { return one.ready; }));
}

TEST_F(LocalBackendTest, AProcessWithoutARecordIsAConflict) {
  bring_up();
  const auto process = *record_of(kName)->process;
  backend_.reset();
  std::filesystem::remove_all(options_.state / "replicas" / kName);
  reopen();
  EXPECT_EQ(look().name, "");
  EXPECT_EQ(backend_->create(replica())->kind, Kind::kConflict);
  EXPECT_TRUE(is_alive(process));
}

TEST_F(LocalBackendTest, AMissingImageIsWaitedFor) {
  ASSERT_FALSE(backend_->create(replica(kName, "fairlead:v2")));
  ObservedReplica seen = look();
  EXPECT_EQ(seen.process, ProcessState::kPending);
  EXPECT_EQ(seen.process_reason, kImagePullFailed);
  EXPECT_THAT(seen.process_message, HasSubstr("images/fairlead:v2/fairlead-relay"));
  add_image("fairlead:v2", std::string("FAKE_VERSION=v2 exec ") + FAIRLEAD_FAKE_RELAY + " \"$@\"");
  EXPECT_TRUE(until([](const auto& one) { return one.sample && one.sample->version == "v2"; }));
  EXPECT_EQ(look().process_reason, "");
}

TEST_F(LocalBackendTest, AnImageThatIsNeverThereCanBeRemoved) {
  ASSERT_FALSE(backend_->create(replica(kName, "../../../bin/sh")));
  EXPECT_EQ(look().process_reason, kImagePullFailed);
  EXPECT_FALSE(backend_->remove(kName, look().uid));
  EXPECT_EQ(look().name, "");
  EXPECT_TRUE(backend_->empty());
}

TEST_F(LocalBackendTest, ACrashBeforeReadyNamesTheLastLines) {
  add_image("bad", "echo starting; echo 'relay.yaml:3: no such key' >&2; exit 2");
  ASSERT_FALSE(backend_->create(replica(kName, "bad")));
  EXPECT_TRUE(until([](const auto& one) { return one.process == ProcessState::kEnded; }));
  const ObservedReplica seen = look();
  EXPECT_EQ(seen.process_reason, kContainerCrashing);
  EXPECT_EQ(seen.process_message, "exit code 2: starting\nrelay.yaml:3: no such key");
  reopen();
  EXPECT_EQ(look().process_message, seen.process_message);
  EXPECT_EQ(look().process, ProcessState::kEnded);
}

TEST_F(LocalBackendTest, ADeathAfterReadyIsAnExitAndIsNotStartedAgain) {
  bring_up();
  ASSERT_TRUE(send_signal(*record_of(kName)->process, SIGKILL));
  EXPECT_TRUE(until([](const auto& one) { return one.process == ProcessState::kEnded; }));
  EXPECT_EQ(look().process_reason, "Exited");
  EXPECT_THAT(look().process_message, HasSubstr("killed by signal 9"));
  EXPECT_FALSE(look().ready);
  EXPECT_FALSE(look().sample);
}

TEST_F(LocalBackendTest, OneThatIgnoresSigtermIsKilledAfterTheGrace) {
  add_image("stubborn", "trap '' TERM; while :; do sleep 0.05; done");
  options_.termination_grace = 300ms;
  reopen();
  ASSERT_FALSE(backend_->create(replica(kName, "stubborn")));
  std::this_thread::sleep_for(100ms);  // the trap
  ASSERT_FALSE(backend_->remove(kName, look().uid));
  EXPECT_TRUE(look().deletion_requested);
  EXPECT_TRUE(until([](const auto& one) { return one.name.empty(); }));
  EXPECT_THAT(events_, HasSubstr("Killed demo-1f2e3d4c-0-1"));
  EXPECT_THAT(events_, HasSubstr("killed by signal 9"));
}

TEST_F(LocalBackendTest, AHungReplicaStallsNobodyAndItsSampleAges) {
  bring_up();
  const ObservedReplica other = bring_up("demo-1f2e3d4c-1-1");
  ASSERT_TRUE(send_signal(*record_of(kName)->process, SIGSTOP));
  std::this_thread::sleep_for(600ms);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_GE(look().sample->age, 500ms);
  EXPECT_LT(look("demo-1f2e3d4c-1-1").sample->age, 1000ms);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 500ms);
  const auto pushed = backend_->set_membership(look().uid, "c1", {1, "d", {}});
  ASSERT_TRUE(pushed);
  EXPECT_EQ(pushed->kind, Kind::kUnreachable);
  EXPECT_FALSE(backend_->set_membership(other.uid, "c1", {1, "d", {}}));
  EXPECT_TRUE(until([](const auto& one) { return !one.ready; }));
  ASSERT_TRUE(send_signal(*record_of(kName)->process, SIGCONT));
  EXPECT_TRUE(until([](const auto& one) { return one.ready && one.sample->age < 500ms; }));
}

TEST_F(LocalBackendTest, WritesCarryTheUid) {
  const ObservedReplica up = bring_up();
  EXPECT_EQ(backend_->set_mesh_gate(kName, "other", true)->kind, Kind::kConflict);
  EXPECT_EQ(backend_->annotate_drain(kName, "other", {})->kind, Kind::kConflict);
  EXPECT_EQ(backend_->remove(kName, "other")->kind, Kind::kConflict);
  EXPECT_EQ(backend_->remove("demo-1f2e3d4c-9-9", up.uid)->kind, Kind::kNotFound);
  EXPECT_EQ(backend_->drain("other", {})->kind, Kind::kNotFound);
  EXPECT_FALSE(look().deletion_requested);
  EXPECT_FALSE(backend_->set_membership(up.uid, "c1", {5, "d", {}}));
  const auto refused = backend_->set_membership(up.uid, "c1", {4, "d", {}});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, Kind::kRefused);
}

TEST_F(LocalBackendTest, AWrongOrOldLeafIsReplaced) {
  const ObservedReplica up = bring_up();
  const std::filesystem::path leaf = options_.state / "replicas" / kName / kLeafFile;
  std::string error;
  const auto uri = replica_uri("c1", up.uid);
  const auto fine = read_file(leaf, error);
  EXPECT_FALSE(refuse_leaf(*fine, options_.ca.certificate, uri, backend_->now()));
  reopen();
  look();
  EXPECT_EQ(read_file(leaf, error), fine);
  ASSERT_FALSE(replace_file(leaf, "garbage", Durability::kVisible));
  reopen();
  look();
  EXPECT_FALSE(
      refuse_leaf(read_file(leaf, error).value(), options_.ca.certificate, uri, backend_->now()));
  EXPECT_THAT(events_, HasSubstr("CertificateRenewed"));
}

TEST_F(LocalBackendTest, ClusterFilesAreKept) {
  EXPECT_EQ(backend_->membership().value().membership.epoch, 0u);
  const Membership membership{7, "d", {{"u", "n", "127.0.0.1:7001", MemberState::kDraining}}};
  EXPECT_EQ(backend_->put_membership(membership, "x")->kind, Kind::kConflict);
  ASSERT_FALSE(backend_->put_membership(membership, ""));
  EXPECT_EQ(backend_->put_membership(membership, "")->kind, Kind::kConflict);
  ASSERT_FALSE(backend_->put_revision({"1f2e3d4c", "{}", {}}));
  ASSERT_FALSE(backend_->put_revision({"1f2e3d4c", "other", {}}));
  const ObservedReplica up = bring_up();
  ASSERT_FALSE(backend_->put_endpoints({up.uid}));
  RelayClusterSpec spec;
  backend_->set_spec(spec);
  ClusterStatus status;
  status.replicas = 3;
  EXPECT_FALSE(backend_->read_status());
  ASSERT_FALSE(backend_->write_status(status));

  reopen();
  const auto stored = backend_->membership();
  EXPECT_EQ(stored.value().membership, membership);
  EXPECT_FALSE(backend_->put_membership(membership, stored.value().version));
  EXPECT_EQ(backend_->list_revisions().value().at(0).intent, "{}");
  EXPECT_THAT(backend_->endpoints().value(), ElementsAre(up.uid));
  std::string error;
  const auto endpoints =
      parse_endpoints(read_file(options_.state / "endpoints.json", error).value(), error);
  ASSERT_TRUE(endpoints) << error;
  EXPECT_THAT(endpoints->ports, ElementsAre(7000, 8080));
  EXPECT_EQ(endpoints->ready.at(0).name, kName);
  EXPECT_EQ(backend_->read_status()->replicas, 3);
  ASSERT_FALSE(backend_->remove_revision("1f2e3d4c"));
  ASSERT_FALSE(backend_->remove_revision("1f2e3d4c"));
  EXPECT_TRUE(backend_->list_revisions().value().empty());
}

TEST_F(LocalBackendTest, SecretsAreFolders) {
  RelayClusterSpec spec;
  spec.agents.auth_secret_name = "agents";
  backend_->set_spec(spec);
  EXPECT_FALSE(backend_->has_secret("agents").value());
  std::filesystem::create_directories(folder_ / "secrets" / "agents");
  EXPECT_FALSE(backend_->has_secret("agents").value());
  ASSERT_FALSE(replace_file(folder_ / "secrets" / "agents" / "tokens.yaml", "tokens: []\n",
                            Durability::kVisible));
  EXPECT_TRUE(backend_->has_secret("agents").value());
  EXPECT_FALSE(backend_->has_secret("../state").value());
}

}  // namespace
}  // namespace fairlead::op
