#include "mesh/membership.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <optional>

#include "fairlead/admin.pb.h"

namespace fairlead::dataplane {
namespace {

namespace wire = admin::v1;

constexpr std::string_view kFileHead = "fairlead membership 1\n";

std::string deterministic_bytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

void add_members(const std::vector<Member>& members, wire::Membership& list) {
  for (const Member& member : members) {
    wire::Member& added = *list.add_members();
    added.set_uid(member.uid);
    added.set_name(member.name);
    added.set_peer_address(member.peer_address);
    added.set_state(static_cast<wire::MemberState>(member.state));
  }
}

void sort_by_uid(std::vector<Member>& members) {
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.uid < b.uid; });
}

// Empty when the text is fit to be kept.
std::string text_error(const char* field, const std::string& text) {
  if (text.size() > Membership::kMaxText) {
    return std::string(field) + " has " + std::to_string(text.size()) + " bytes; at most " +
           std::to_string(Membership::kMaxText) + " are allowed";
  }
  const bool control =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return control ? std::string(field) + " has a control character" : "";
}

// The members, sorted, or nothing and what is wrong.
std::optional<std::vector<Member>> read_members(const wire::Membership& list, std::string& error) {
  if (static_cast<std::size_t>(list.members_size()) > Membership::kMaxMembers) {
    error = std::to_string(list.members_size()) + " members; at most " +
            std::to_string(Membership::kMaxMembers) + " are allowed";
    return std::nullopt;
  }
  std::vector<Member> members;
  for (int i = 0; i < list.members_size(); ++i) {
    const wire::Member& member = list.members(i);
    error = member.uid().empty() ? "uid is empty" : text_error("uid", member.uid());
    if (error.empty()) error = text_error("name", member.name());
    if (error.empty()) error = text_error("peer_address", member.peer_address());
    if (error.empty() && (member.state() < wire::JOINING || member.state() > wire::LEAVING)) {
      error = "state " + std::to_string(member.state()) + " is unknown";
    }
    if (!error.empty()) {
      error = "members[" + std::to_string(i) + "]: " + error;
      return std::nullopt;
    }
    members.push_back({member.uid(), member.name(), member.peer_address(),
                       static_cast<MemberState>(member.state())});
  }
  sort_by_uid(members);
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (members[i].uid != members[i - 1].uid) continue;
    error = "uid " + members[i].uid + " is there twice";
    return std::nullopt;
  }
  return members;
}

}  // namespace

std::string_view member_state_name(MemberState state) {
  switch (state) {
    case MemberState::kJoining:
      return "joining";
    case MemberState::kActive:
      return "active";
    case MemberState::kDraining:
      return "draining";
    case MemberState::kLeaving:
      return "leaving";
  }
  return "unknown";
}

std::string membership_digest(std::vector<Member> members) {
  sort_by_uid(members);
  wire::Membership list;
  add_members(members, list);
  return sha256_hex(deterministic_bytes(list));
}

Membership::Answer Membership::offer(const wire::Membership& list) {
  const auto refused = [this](const std::string& why) {
    return Answer{Verdict::kRefused, why + "; this replica has epoch " + std::to_string(epoch_) +
                                         " digest " + (digest_.empty() ? "none" : digest_)};
  };
  if (!cluster_uid_.empty() && list.cluster_uid() != cluster_uid_) {
    return refused("the list is of cluster " + list.cluster_uid() + ", not " + cluster_uid_);
  }
  if (list.epoch() == 0) return refused("epoch 0 is no list");
  if (list.epoch() < epoch_) {
    return refused("epoch " + std::to_string(list.epoch()) + " is lower");
  }
  std::string error;
  std::optional<std::vector<Member>> members = read_members(list, error);
  if (!members) return refused(error);
  if (const std::string digest = membership_digest(*members); digest != list.digest()) {
    return refused("the list says digest " + list.digest() + ", but its members have " + digest);
  }
  if (list.epoch() == epoch_) {
    if (list.digest() == digest_) return {Verdict::kUnchanged, ""};
    return refused("the same epoch with digest " + list.digest() +
                   ": two writers use one epoch, publish a higher one");
  }
  cluster_uid_ = list.cluster_uid();
  epoch_ = list.epoch();
  digest_ = list.digest();
  members_ = std::move(*members);
  return {Verdict::kAdopted, ""};
}

std::string Membership::save() const {
  if (epoch_ == 0) return "";
  return std::string(kFileHead) + deterministic_bytes(to_wire());
}

Membership::Answer Membership::load(std::string_view file) {
  wire::Membership list;
  if (!file.starts_with(kFileHead) ||
      !list.ParseFromArray(file.data() + kFileHead.size(),
                           static_cast<int>(file.size() - kFileHead.size()))) {
    return {Verdict::kRefused, "not a membership file of this version, or cut short"};
  }
  return offer(list);
}

wire::Membership Membership::to_wire() const {
  wire::Membership list;
  list.set_cluster_uid(cluster_uid_);
  list.set_epoch(epoch_);
  list.set_digest(digest_);
  add_members(members_, list);
  return list;
}

const Member* Membership::find(std::string_view uid) const {
  const auto at = std::lower_bound(
      members_.begin(), members_.end(), uid,
      [](const Member& member, std::string_view wanted) { return member.uid < wanted; });
  return at != members_.end() && at->uid == uid ? &*at : nullptr;
}

}  // namespace fairlead::dataplane
