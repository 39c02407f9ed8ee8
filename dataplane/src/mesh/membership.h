// Which replicas form the mesh, as the operator last said: one list, numbered by an epoch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::admin::v1 {
class Membership;
}

namespace fairlead::dataplane {

enum class MemberState : std::uint8_t { kJoining = 1, kActive = 2, kDraining = 3, kLeaving = 4 };
std::string_view member_state_name(MemberState state);  // "joining", "active", ...

struct Member {
  std::string uid;           // random, one per replica process record; compared as text
  std::string name;          // for people
  std::string peer_address;  // host:port of the peer link listener; empty while it has none
  MemberState state = MemberState::kJoining;

  bool operator==(const Member&) const = default;
};

// SHA-256 in lower-case hex of the members sorted by uid, as protobuf writes an admin.v1.Membership
// with `members` set and nothing else.
std::string membership_digest(std::vector<Member> members);

// The newest list this replica was given. Rules: a lower epoch is refused; the same epoch with the
// same digest changes nothing, with another digest it is refused (two lists claim one number: the
// answer's text says so and the caller should report it); a higher epoch replaces the list. The
// list is replaced whole or not at all.
//
// Lists come from the operator's Admin call, from a peer, or from the state file: each goes through
// offer(), so an old file or a slow peer can do no harm. Not thread-safe.
class Membership {
 public:
  static constexpr std::size_t kMaxMembers = 256;
  static constexpr std::size_t kMaxText = 253;  // bytes of a uid, name or address

  enum class Verdict : std::uint8_t {
    kAdopted,
    kUnchanged,  // the very list that is held
    kRefused,    // `text` names what is wrong and what is held
  };
  struct Answer {
    Verdict verdict = Verdict::kAdopted;
    std::string text;  // empty unless refused; for FAILED_PRECONDITION and the log
  };

  // With a cluster's uid only lists of that cluster are taken; empty: the first list decides.
  explicit Membership(std::string cluster_uid) : cluster_uid_(std::move(cluster_uid)) {}

  // Refused as well, with epoch and digest untouched: epoch 0, a digest that is not that of the
  // members, more than kMaxMembers, a missing or repeated uid, a text that is too long or has
  // control characters, an unknown state.
  Answer offer(const admin::v1::Membership& list);

  // The bytes of a state file, which load() takes back. load() is offer() with what they hold;
  // refused too when they are no such file. Nothing is saved while epoch() is 0: "" then.
  std::string save() const;
  Answer load(std::string_view file);

  admin::v1::Membership to_wire() const;

  const std::string& cluster_uid() const { return cluster_uid_; }
  std::uint64_t epoch() const { return epoch_; }  // 0: there was none yet
  const std::string& digest() const { return digest_; }
  const std::vector<Member>& members() const { return members_; }  // sorted by uid
  const Member* find(std::string_view uid) const;                  // until the next change

 private:
  std::string cluster_uid_;
  std::uint64_t epoch_ = 0;
  std::string digest_;
  std::vector<Member> members_;
};

}  // namespace fairlead::dataplane
