#include "local/cluster_state.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>

#include "local/durable_file.h"

namespace fairlead::op {
namespace {

using nlohmann::json;

constexpr char kClusterFile[] = "cluster.json";
constexpr char kCaCertificateFile[] = "ca.pem";
constexpr char kCaKeyFile[] = "ca.key";
constexpr char kLastGoodFile[] = "last-good.yaml";

std::array<std::uint8_t, 16> random_bytes() {
  std::array<std::uint8_t, 16> bytes{};
  // Never short for so few bytes, and never fails once the system has started.
  [[maybe_unused]] const ssize_t size = ::getrandom(bytes.data(), bytes.size(), 0);
  return bytes;
}

}  // namespace

std::string random_uid() {
  constexpr char kHex[] = "0123456789abcdef";
  std::string uid;
  for (const std::uint8_t byte : random_bytes()) {
    uid += kHex[byte >> 4];
    uid += kHex[byte & 15];
  }
  return uid;
}

Serial random_serial() {
  return random_bytes();
}

std::unique_ptr<ClusterState> ClusterState::open(const std::filesystem::path& folder,
                                                 std::string& error) {
  std::error_code ec;
  const bool existed = std::filesystem::exists(folder, ec);
  std::filesystem::create_directories(folder, ec);
  if (ec) {
    error = "cannot make the state folder " + folder.string() + ": " + ec.message();
    return nullptr;
  }
  if (!existed) ::chmod(folder.c_str(), 0700);
  std::optional<LockFile> lock = LockFile::take(folder / "operator.lock", error);
  if (!lock) {
    if (error.empty()) {
      std::string ignored;
      const std::string owner = read_file(folder / "operator.lock", ignored).value_or("");
      error = "another operator" + (owner.empty() ? owner : " (process " + owner + ")") +
              " already runs this cluster from " + folder.string() +
              "; stop it first, or give another --state";
    }
    return nullptr;
  }
  lock->write_owner(std::to_string(::getpid()));
  std::unique_ptr<ClusterState> state(new ClusterState(folder, std::move(*lock)));
  if (auto failed = state->load()) {
    error = *failed;
    return nullptr;
  }
  return state;
}

std::optional<std::string> ClusterState::load() {
  std::string error;
  bool missing = false;
  const auto text = read_file(folder_ / kClusterFile, error, &missing);
  if (missing) return std::nullopt;
  const auto certificate = read_file(folder_ / kCaCertificateFile, error);
  const auto key = read_file(folder_ / kCaKeyFile, error);
  if (!text || !certificate || !key) return error;
  ca_ = {*certificate, *key};
  if (!key_fits(ca_)) {
    return "ca.key in " + folder_.string() + " does not belong to ca.pem; restore both from a copy";
  }
  try {
    const json root = json::parse(*text);
    record_ = ClusterRecord{root.at("uid"), root.at("name"), root.at("generation"),
                            root.at("subnet"), root.at("listen")};
  } catch (const json::exception& e) {
    return (folder_ / kClusterFile).string() + " is not usable: " + e.what();
  }
  return std::nullopt;
}

std::optional<std::string> ClusterState::save() const {
  const json root = {{"uid", record_->uid},
                     {"name", record_->name},
                     {"generation", record_->generation},
                     {"subnet", record_->subnet},
                     {"listen", record_->listen}};
  return replace_file(folder_ / kClusterFile, root.dump(2) + "\n", Durability::kSynced);
}

std::optional<std::string> ClusterState::found(const std::string& name, const std::string& subnet,
                                               const std::string& listen) {
  std::string error;
  const auto ca = make_ca(name, std::chrono::system_clock::now(), random_serial(), error);
  if (!ca) return error;
  // cluster.json is last: what was written before it does not count without it.
  if (auto failed = replace_file(folder_ / kCaKeyFile, ca->key, Durability::kSynced, 0600)) {
    return failed;
  }
  if (auto failed =
          replace_file(folder_ / kCaCertificateFile, ca->certificate, Durability::kSynced)) {
    return failed;
  }
  ca_ = *ca;
  record_ = ClusterRecord{random_uid(), name, 0, subnet, listen};
  return save();
}

std::optional<std::string> ClusterState::accept(const std::string& text,
                                                const RelayCluster& cluster) {
  const std::optional<std::string> before = last_good();
  if (before == text && record_->generation > 0) return std::nullopt;
  const ParsedCluster parsed = parse_relay_cluster_yaml(before.value_or(""));
  const bool same =
      record_->generation > 0 && parsed.cluster && parsed.cluster->spec == cluster.spec;
  if (!same) {
    // First, so that a crash in between skips a number instead of using one twice.
    ++record_->generation;
    if (auto failed = save()) return failed;
  }
  return replace_file(folder_ / kLastGoodFile, text, Durability::kSynced);
}

std::optional<std::string> ClusterState::last_good() const {
  std::string ignored;
  return read_file(folder_ / kLastGoodFile, ignored);
}

}  // namespace fairlead::op
