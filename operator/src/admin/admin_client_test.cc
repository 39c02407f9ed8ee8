#include "admin/admin_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "admin/fake_relay.h"
#include "local/test_sockets.h"
#include "pki/certificate.h"

namespace fairlead::op {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr char kCluster[] = "c1";
constexpr char kReplica[] = "r1";

class AdminClientTest : public testing::Test {
 protected:
  AdminClientTest() : net_(TestNet::pick()), port_(net_.free_port(1)), ca_(new_ca(1)) {
    config_.cluster_uid = kCluster;
    config_.uid = kReplica;
    config_.name = "demo-1f2e3d4c-0-1";
    config_.address = net_.address(1);
    config_.admin = port_;
    config_.health = net_.free_port(1);
    const Credential leaf = issue(ca_, replica_uri(kCluster, kReplica));
    config_.certificate = leaf.certificate;
    config_.key = leaf.key;
    config_.ca = ca_.certificate;
  }

  static Credential new_ca(std::uint8_t n) {
    std::string error;
    Serial serial{};
    serial.fill(n);
    return make_ca("demo", std::chrono::system_clock::now(), serial, error).value();
  }

  static Credential issue(const Credential& ca, const std::string& uri) {
    LeafRequest request;
    request.common_name = "x";
    request.uri = uri;
    request.lifetime = 24h;
    std::string error;
    Serial serial{};
    serial.fill(7);
    return issue_leaf(ca, request, std::chrono::system_clock::now(), serial, error).value();
  }

  AdminIdentity identity(const Credential& ca, const std::string& uri) {
    const Credential leaf = issue(ca, uri);
    return {ca_.certificate, leaf.certificate, leaf.key};
  }

  std::unique_ptr<AdminClient> client() {
    return std::make_unique<AdminClient>(net_.address(1) + ":" + std::to_string(port_),
                                         replica_uri(kCluster, kReplica),
                                         identity(ca_, operator_uri(kCluster)));
  }

  TestNet net_;
  std::uint16_t port_;
  Credential ca_;
  FakeRelayConfig config_;
};

TEST_F(AdminClientTest, StatusOfTheReplicaThatWasDialled) {
  FakeRelay relay(config_);
  relay.set_visits(3);
  relay.set_epoch(5, "d");
  const auto status = client()->status(0);
  ASSERT_TRUE(status.ok()) << status.text;
  EXPECT_EQ(status.value.uid, kReplica);
  EXPECT_EQ(status.value.name, "demo-1f2e3d4c-0-1");
  EXPECT_EQ(status.value.sample.epoch, 5u);
  EXPECT_EQ(status.value.sample.visits, 3u);
  EXPECT_EQ(status.value.sample.version, "fake");
  EXPECT_EQ(status.value.sample.drain.phase, DrainPhase::kNone);
}

TEST_F(AdminClientTest, AReplicaWithAnotherIdentityIsNotTalkedTo) {
  const Credential other = issue(ca_, replica_uri(kCluster, "r2"));
  config_.certificate = other.certificate;
  config_.key = other.key;
  FakeRelay relay(config_);
  const auto status = client()->status(0, 500ms);
  EXPECT_EQ(status.code, AdminCode::kUnavailable);
  EXPECT_FALSE(status.text.empty());
}

TEST_F(AdminClientTest, AReplicaOfAnotherAuthorityIsNotTalkedTo) {
  const Credential other_ca = new_ca(2);
  const Credential leaf = issue(other_ca, replica_uri(kCluster, kReplica));
  config_.certificate = leaf.certificate;
  config_.key = leaf.key;
  FakeRelay relay(config_);
  EXPECT_EQ(client()->status(0, 500ms).code, AdminCode::kUnavailable);
}

TEST_F(AdminClientTest, AnotherRoleThanTheOperatorsIsRefusedAsAFault) {
  FakeRelay relay(config_);
  AdminClient peer(net_.address(1) + ":" + std::to_string(port_), replica_uri(kCluster, kReplica),
                   identity(ca_, replica_uri(kCluster, "r2")));
  const auto status = peer.status(0);
  EXPECT_EQ(status.code, AdminCode::kFailed);
  EXPECT_THAT(status.text, HasSubstr("PERMISSION_DENIED"));
}

TEST_F(AdminClientTest, NobodyThereIsUnavailableAndIsFoundOnceItComes) {
  const auto dialled = client();
  const auto before = Clock::now();
  EXPECT_EQ(dialled->status(0, 300ms).code, AdminCode::kUnavailable);
  EXPECT_LT(Clock::now() - before, 1500ms);
  FakeRelay relay(config_);
  EXPECT_TRUE(eventually(5s, [&] { return dialled->status(0).ok(); }));
}

TEST_F(AdminClientTest, AHungReplicaCostsTheDeadline) {
  FakeRelay relay(config_);
  const auto dialled = client();
  ASSERT_TRUE(dialled->status(0).ok());
  relay.hang(true);
  const auto before = Clock::now();
  const auto status = dialled->status(0, 300ms);
  EXPECT_EQ(status.code, AdminCode::kUnavailable);
  EXPECT_GE(Clock::now() - before, 290ms);
  EXPECT_LT(Clock::now() - before, 1500ms);
  relay.hang(false);
  EXPECT_TRUE(eventually(5s, [&] { return dialled->status(0).ok(); }));
}

TEST_F(AdminClientTest, MembershipIsTakenAndOldOrOtherOnesAreRefused) {
  FakeRelay relay(config_);
  const auto dialled = client();
  Membership membership{4, "", {{kReplica, "a", "127.0.0.1:7001", MemberState::kActive}}};
  membership.digest = membership_digest(membership.members);
  const auto taken = dialled->set_membership(kCluster, membership);
  ASSERT_TRUE(taken.ok()) << taken.text;
  EXPECT_EQ(relay.epoch(), 4u);

  membership.epoch = 3;
  const auto lower = dialled->set_membership(kCluster, membership);
  EXPECT_EQ(lower.code, AdminCode::kRefused);
  EXPECT_THAT(lower.text, HasSubstr("epoch 4"));
  membership.epoch = 4;
  membership.digest = "other";
  EXPECT_EQ(dialled->set_membership(kCluster, membership).code, AdminCode::kRefused);
}

TEST_F(AdminClientTest, DrainAnswersAtOnceAndGoesOnByItself) {
  FakeRelay relay(config_);
  relay.set_visits(2);
  const auto dialled = client();
  const auto before = Clock::now();
  const auto order = dialled->drain({1, "rollout", 60s, 0ms, false});
  ASSERT_TRUE(order.ok()) << order.text;
  EXPECT_LT(Clock::now() - before, 900ms);
  EXPECT_EQ(order.value.phase, DrainPhase::kDelay);
  EXPECT_EQ(order.value.visits, 2u);
  EXPECT_TRUE(eventually(
      5s, [&] { return dialled->status(0).value.sample.drain.phase == DrainPhase::kDraining; }));
  EXPECT_EQ(dialled->status(0).value.sample.drain.reason, "rollout");
  relay.set_visits(0);
  EXPECT_TRUE(eventually(
      5s, [&] { return dialled->status(0).value.sample.drain.phase == DrainPhase::kDrained; }));
}

TEST_F(AdminClientTest, DrainWithALowerEpochIsRefused) {
  FakeRelay relay(config_);
  relay.set_epoch(9, "d");
  const auto order = client()->drain({8, "rollout", 60s, 0ms, false});
  EXPECT_EQ(order.code, AdminCode::kRefused);
  EXPECT_EQ(client()->status(0).value.sample.drain.phase, DrainPhase::kNone);
}

// What the digest is defined as, computed with protobuf itself.
TEST_F(AdminClientTest, TheReplicaComputesTheSameDigest) {
  FakeRelay relay(config_);
  const std::vector<Member> members = {
      {"u1", "demo-1f2e3d4c-0-1", "127.0.0.1:7001", MemberState::kJoining},
      {"u2", "demo-1f2e3d4c-1-1", "127.0.0.2:7001", MemberState::kDraining},
      {"u3", std::string(200, 'n'), "", MemberState::kActive}};
  const Membership membership{2, membership_digest(members), members};
  ASSERT_TRUE(client()->set_membership(kCluster, membership).ok());
  EXPECT_EQ(relay.computed_digest(), membership.digest);
}

}  // namespace
}  // namespace fairlead::op
