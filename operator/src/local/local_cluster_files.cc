// The part of the local backend that keeps what belongs to the cluster and not to one replica:
// pinned revisions, membership, endpoints.
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "local/durable_file.h"
#include "local/json_time.h"
#include "local/local_backend.h"

namespace fairlead::op {
namespace {

using Kind = BackendError::Kind;
using nlohmann::json;

constexpr char kMembershipFile[] = "membership.json";
constexpr char kEndpointsFile[] = "endpoints.json";

BackendError failed(std::string text) {
  return {Kind::kFailed, std::move(text)};
}

std::filesystem::path revision_file(const std::filesystem::path& state, const std::string& name) {
  return state / "revisions" / (name + ".json");
}

// Reads a JSON file with `read`; a damaged one is an error that names it.
template <class T, class Read>
BackendResult<T> read_json_file(const std::filesystem::path& path, T when_missing, Read read) {
  std::string error;
  bool missing = false;
  const auto text = read_file(path, error, &missing);
  if (missing) return when_missing;
  if (!text) return failed(error);
  try {
    return read(json::parse(*text));
  } catch (const json::exception& e) {
    return failed(path.string() + " is not usable: " + e.what());
  }
}

json to_json(const Membership& membership) {
  json members = json::array();
  for (const Member& member : membership.members) {
    members.push_back({{"uid", member.uid},
                       {"name", member.name},
                       {"peer_address", member.peer_address},
                       {"state", static_cast<int>(member.state)}});
  }
  return {{"epoch", membership.epoch}, {"digest", membership.digest}, {"members", members}};
}

Backend::StoredMembership read_membership(const json& root) {
  Backend::StoredMembership stored;
  stored.version = std::to_string(root.at("version").get<std::uint64_t>());
  stored.written_at = from_millis(root.at("written_at"));
  const json& membership = root.at("membership");
  stored.membership.epoch = membership.at("epoch");
  stored.membership.digest = membership.at("digest");
  for (const json& member : membership.at("members")) {
    stored.membership.members.push_back({member.at("uid"), member.at("name"),
                                         member.at("peer_address"),
                                         static_cast<MemberState>(member.at("state").get<int>())});
  }
  return stored;
}

}  // namespace

BackendResult<std::vector<RevisionRecord>> LocalBackend::list_revisions() {
  std::vector<RevisionRecord> revisions;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(options_.state / "revisions", ec)) {
    if (entry.path().extension() != ".json") continue;
    const auto read =
        read_json_file(entry.path(), RevisionRecord{}, [](const json& root) -> RevisionRecord {
          return {root.at("revision"), root.at("intent"), from_millis(root.at("created_at"))};
        });
    if (!read.ok()) return read.error();
    if (!read.value().revision.empty()) revisions.push_back(read.value());
  }
  if (ec)
    return failed("cannot read the revisions in " + options_.state.string() + ": " + ec.message());
  return revisions;
}

BackendStatus LocalBackend::put_revision(const RevisionRecord& record) {
  const std::filesystem::path path = revision_file(options_.state, record.revision);
  std::error_code ec;
  if (std::filesystem::exists(path, ec)) return std::nullopt;
  const json root = {{"revision", record.revision},
                     {"intent", record.intent},
                     {"created_at", to_millis(record.created_at)}};
  if (auto wrong = replace_file(path, root.dump(2) + "\n", Durability::kSynced)) {
    return failed(*wrong);
  }
  return std::nullopt;
}

BackendStatus LocalBackend::remove_revision(const std::string& revision) {
  if (auto wrong = remove_file(revision_file(options_.state, revision))) return failed(*wrong);
  return std::nullopt;
}

BackendResult<Backend::StoredMembership> LocalBackend::membership() {
  return read_json_file(options_.state / kMembershipFile, StoredMembership{}, read_membership);
}

BackendStatus LocalBackend::put_membership(const Membership& membership,
                                           const std::string& version) {
  const auto stored = this->membership();
  if (!stored.ok()) return stored.error();
  if (stored.value().version != version) {
    return BackendError{Kind::kConflict, "the membership was written by somebody else: version " +
                                             stored.value().version + ", not " + version};
  }
  // Ours, so a number, or "" when there was none.
  const std::uint64_t next = version.empty() ? 1 : std::stoull(version) + 1;
  const json root = {
      {"version", next}, {"written_at", to_millis(now())}, {"membership", to_json(membership)}};
  if (auto wrong = replace_file(options_.state / kMembershipFile, root.dump(2) + "\n",
                                Durability::kSynced)) {
    return failed(*wrong);
  }
  return std::nullopt;
}

BackendResult<std::vector<std::string>> LocalBackend::endpoints() {
  std::vector<std::string> uids;
  for (const Endpoint& one : endpoints_.ready) uids.push_back(one.uid);
  return uids;
}

// A UID without a record has no address and is left out.
BackendStatus LocalBackend::put_endpoints(const std::vector<std::string>& uids) {
  Endpoints wanted{endpoints_.ports, {}};
  for (const std::string& uid : uids) {
    for (const auto& [name, record] : records_) {
      if (record.uid == uid) wanted.ready.push_back({uid, name, record.address});
    }
  }
  return write_endpoints(wanted);
}

BackendStatus LocalBackend::write_endpoints(const Endpoints& endpoints) {
  if (auto wrong = replace_file(options_.state / kEndpointsFile, fairlead::op::to_json(endpoints),
                                Durability::kSynced)) {
    return failed(*wrong);
  }
  endpoints_ = endpoints;
  return std::nullopt;
}

}  // namespace fairlead::op
