#include "mesh/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fairlead/admin.pb.h"
#include "mesh/peers.h"

namespace fairlead::dataplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Verdict = Membership::Verdict;

std::vector<Member> three() {
  return {{"u3", "main-2", "127.0.0.3:7001", MemberState::kActive},
          {"u1", "main-0", "127.0.0.1:7001", MemberState::kActive},
          {"u2", "main-1", "127.0.0.2:7001", MemberState::kJoining}};
}

admin::v1::Membership list(std::uint64_t epoch, const std::vector<Member>& members = three()) {
  admin::v1::Membership message;
  message.set_cluster_uid("c");
  message.set_epoch(epoch);
  message.set_digest(membership_digest(members));
  for (const Member& member : members) {
    auto& added = *message.add_members();
    added.set_uid(member.uid);
    added.set_name(member.name);
    added.set_peer_address(member.peer_address);
    added.set_state(static_cast<admin::v1::MemberState>(member.state));
  }
  return message;
}

TEST(Membership, DigestIsThatOfTheMembersSortedByUid) {
  // SHA-256 of `22 1c 0a 02 75 31 12 06 6d 61 69 6e 2d 30 1a 0c 31 2e 32 2e 33 2e 34 3a 37 30 30 31
  // 20 02`, written by hand from admin.proto.
  EXPECT_EQ(membership_digest({{"u1", "main-0", "1.2.3.4:7001", MemberState::kActive}}),
            "dbd0ea52d0fda46fb63259849ae47a44cd7484b0c1b05fd30e4b99d590a08c33");
  std::vector<Member> sorted = three();
  std::swap(sorted[0], sorted[1]);
  std::swap(sorted[1], sorted[2]);
  EXPECT_EQ(membership_digest(three()), membership_digest(sorted));
  sorted[0].state = MemberState::kDraining;
  EXPECT_NE(membership_digest(three()), membership_digest(sorted));
}

TEST(Membership, EpochAndDigestDecide) {
  Membership membership("c");
  EXPECT_EQ(membership.epoch(), 0u);
  EXPECT_EQ(membership.offer(list(5)).verdict, Verdict::kAdopted);
  EXPECT_EQ(membership.members().front().uid, "u1") << "sorted";
  EXPECT_EQ(membership.offer(list(5)).verdict, Verdict::kUnchanged);

  const auto lower = membership.offer(list(4, {}));
  EXPECT_EQ(lower.verdict, Verdict::kRefused);
  EXPECT_EQ(lower.text, "epoch 4 is lower; this replica has epoch 5 digest " + membership.digest());

  const auto other = membership.offer(list(5, {}));
  EXPECT_EQ(other.verdict, Verdict::kRefused);
  EXPECT_THAT(other.text, HasSubstr("two writers use one epoch"));
  EXPECT_THAT(other.text, HasSubstr("this replica has epoch 5 digest " + membership.digest()));
  EXPECT_EQ(membership.members().size(), 3u);

  EXPECT_EQ(membership.offer(list(6, {})).verdict, Verdict::kAdopted);
  EXPECT_THAT(membership.members(), IsEmpty());
}

TEST(Membership, RefusesWhatIsNoList) {
  struct Row {
    void (*spoil)(admin::v1::Membership&);
    const char* text;
  };
  const Row rows[] = {
      {[](auto& m) { m.set_epoch(0); }, "epoch 0 is no list"},
      {[](auto& m) { m.set_cluster_uid("other"); }, "is of cluster other, not c"},
      {[](auto& m) { m.set_digest("00"); }, "the list says digest 00"},
      {[](auto& m) { m.mutable_members(1)->set_uid(""); }, "members[1]: uid is empty"},
      {[](auto& m) { m.mutable_members(1)->set_uid("u3"); }, "uid u3 is there twice"},
      {[](auto& m) { m.mutable_members(2)->set_name("a\nb"); }, "members[2]: name has a control"},
      {[](auto& m) { m.mutable_members(0)->set_peer_address(std::string(254, 'a')); },
       "members[0]: peer_address has 254 bytes"},
      {[](auto& m) { m.mutable_members(0)->clear_state(); }, "members[0]: state 0 is unknown"},
      {[](auto& m) {
         for (int i = 0; i < 254; ++i) *m.add_members() = m.members(0);
       },
       "257 members; at most 256"},
  };
  for (const Row& row : rows) {
    Membership membership("c");
    admin::v1::Membership message = list(5);
    row.spoil(message);
    const auto answer = membership.offer(message);
    EXPECT_EQ(answer.verdict, Verdict::kRefused) << row.text;
    EXPECT_THAT(answer.text, HasSubstr(row.text));
    EXPECT_EQ(membership.epoch(), 0u);
  }
}

TEST(Membership, TheStateFileIsReadBack) {
  Membership before("");
  EXPECT_EQ(before.save(), "");
  before.offer(list(7));
  Membership after("c");
  EXPECT_EQ(after.load(before.save()).verdict, Verdict::kAdopted);
  EXPECT_EQ(after.epoch(), 7u);
  EXPECT_EQ(after.members(), before.members());
  EXPECT_EQ(after.digest(), before.digest());
  EXPECT_EQ(after.to_wire().SerializeAsString(), before.to_wire().SerializeAsString());

  Membership newer("c");
  newer.offer(list(8, {}));
  EXPECT_EQ(newer.load(before.save()).verdict, Verdict::kRefused) << "an old file does no harm";
}

TEST(Membership, ADamagedStateFileIsRefused) {
  Membership before("c");
  before.offer(list(7));
  const std::string file = before.save();
  for (std::size_t size = 0; size < file.size(); ++size) {
    Membership after("c");
    EXPECT_EQ(after.load(file.substr(0, size)).verdict, Verdict::kRefused) << size;
    EXPECT_EQ(after.epoch(), 0u);
  }
}

TEST(Peers, TheSmallerUidDials) {
  std::vector<std::string> dialled;
  for (const Peer& peer : desired_peers(three(), "u2")) {
    dialled.push_back(peer.member.uid + (peer.dial ? " dial" : " wait"));
  }
  EXPECT_THAT(dialled, ElementsAre("u1 wait", "u3 dial"));
  EXPECT_THAT(desired_peers(three(), "stranger"), IsEmpty());
  std::vector<Member> members = three();
  members[0].peer_address.clear();
  EXPECT_FALSE(desired_peers(members, "u2").back().dial) << "no address yet";
}

TEST(Peers, ReadyWhenEveryJoiningOrActivePeerIsLinked) {
  EXPECT_THAT(mesh_readiness(three(), "u1", {}).missing, ElementsAre("main-1", "main-2"));
  EXPECT_THAT(mesh_readiness(three(), "u1", {{"u2", {1, 0}}}).missing, ElementsAre("main-2"));
  EXPECT_TRUE(mesh_readiness(three(), "u1", {{"u2", {1, 0}}, {"u3", {4, 0}}}).ready);
  EXPECT_FALSE(mesh_readiness(three(), "u1", {{"u2", {1, 0}}, {"u3", {0, 4}}}).ready)
      << "a link that drains takes no new visits";
  std::vector<Member> members = three();
  members[0].state = MemberState::kDraining;
  members[2].state = MemberState::kLeaving;
  EXPECT_TRUE(mesh_readiness(members, "u1", {}).ready);
  EXPECT_TRUE(mesh_readiness({members[1]}, "u1", {}).ready) << "no peers: at once";
  EXPECT_FALSE(mesh_readiness(members, "stranger", {}).ready) << "not a member yet";
}

}  // namespace
}  // namespace fairlead::dataplane
