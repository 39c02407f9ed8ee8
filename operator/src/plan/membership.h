// The membership list: which replicas form the mesh, numbered by an epoch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fairlead::op {

enum class MemberState { kJoining = 1, kActive = 2, kDraining = 3, kLeaving = 4 };  // admin.proto

struct Member {
  std::string uid;
  std::string name;
  std::string peer_address;  // host:port
  MemberState state = MemberState::kJoining;
  bool operator==(const Member&) const = default;
};

struct Membership {
  std::uint64_t epoch = 0;      // 0: there was never one
  std::string digest;           // membership_digest(members)
  std::vector<Member> members;  // sorted by uid
  bool operator==(const Membership&) const = default;
};

// SHA-256, lower-case hex, of the members sorted by uid as protobuf writes them: a Membership
// message (admin.proto) that holds `members` and nothing else.
std::string membership_digest(const std::vector<Member>& members);

}  // namespace fairlead::op
