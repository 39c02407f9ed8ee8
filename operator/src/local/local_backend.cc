#include "local/local_backend.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "local/cluster_state.h"
#include "local/durable_file.h"

namespace fairlead::op {
namespace {

using Kind = BackendError::Kind;
using std::chrono::milliseconds;

constexpr int kLogLines = 5;
constexpr std::size_t kLogBytes = 1000;
// The forwarder dials loopback addresses, so this is where its connections come from.
constexpr char kForwarderSource[] = "127.0.0.1/32";
// Why a record without a process is not started: its lock is held.
constexpr char kNotVisible[] = "NotVisible";
constexpr char kNoTokensFile[] = "no-tokens.yaml";

BackendError failed(std::string text) {
  return {Kind::kFailed, std::move(text)};
}

// The result of a file operation, which is nullopt or a text, as a BackendStatus.
BackendStatus as_status(std::optional<std::string> outcome) {
  if (!outcome) return std::nullopt;
  return failed(std::move(*outcome));
}

BackendStatus as_status(AdminCode code, const std::string& name, const std::string& text) {
  switch (code) {
    case AdminCode::kOk:
      return std::nullopt;
    case AdminCode::kUnavailable:
      return BackendError{Kind::kUnreachable, name + " does not answer: " + text};
    case AdminCode::kRefused:
      return BackendError{Kind::kRefused, name + " refuses: " + text};
    case AdminCode::kFailed:
      break;
  }
  return failed(name + ": " + text);
}

// A name becomes a folder and an image name part of a path: neither may lead out of its place.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

bool leads_out(const std::filesystem::path& path) {
  return path.empty() || path.is_absolute() ||
         std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
}

}  // namespace

LocalBackend::LocalBackend(LocalOptions options, Subnet subnet)
    : options_(std::move(options)),
      subnet_(subnet),
      store_(options_.state / "replicas"),
      random_(options_.seed) {}

LocalBackend::~LocalBackend() = default;

std::unique_ptr<LocalBackend> LocalBackend::open(LocalOptions options, std::string& error) {
  const std::optional<Subnet> subnet = Subnet::parse(options.subnet, error);
  if (!subnet) return nullptr;
  std::unique_ptr<LocalBackend> backend(new LocalBackend(std::move(options), *subnet));
  if (auto wrong = backend->load()) {
    error = *wrong;
    return nullptr;
  }
  return backend;
}

std::optional<std::string> LocalBackend::load() {
  std::error_code ec;
  std::filesystem::create_directories(options_.state / "revisions", ec);
  if (auto wrong = store_.load(records_)) return wrong;
  std::string error;
  bool missing = false;
  const auto text = read_file(options_.state / "endpoints.json", error, &missing);
  if (text) {
    const auto read = parse_endpoints(*text, error);
    // Written again with the first change; until then the forwarder keeps what it has.
    if (read) endpoints_ = *read;
  }
  renew_identity();
  if (!identity_info_)
    return "cannot make the operator's certificate from the CA of the state folder";
  return std::nullopt;
}

void LocalBackend::set_spec(const RelayClusterSpec& spec) {
  spec_ = spec;
  Endpoints wanted = endpoints_;
  wanted.ports = service_ports(spec, options_.ports);
  if (wanted.ports == endpoints_.ports) return;
  if (const auto wrong = write_endpoints(wanted)) {
    emit({Event::Type::kWarning, "StateNotWritten", "", wrong->text});
  }
}

WallTime LocalBackend::now() {
  return std::chrono::system_clock::now();
}

BackendResult<std::vector<ObservedReplica>> LocalBackend::list_replicas() {
  renew_identity();
  std::vector<ObservedReplica> observed;
  for (auto it = records_.begin(); it != records_.end();) {
    const BackendResult<bool> kept = advance(it->second);
    if (!kept.ok()) return kept.error();
    if (kept.value()) {
      observed.push_back(observe(it->second));
      ++it;
    } else {
      live_.erase(it->first);
      it = records_.erase(it);
    }
  }
  return observed;
}

BackendResult<bool> LocalBackend::advance(ReplicaRecord& record) {
  if (!record.process && !record.ended_at) {
    if (const auto wrong = start_or_find(record)) return *wrong;
  }
  if (record.process && !record.ended_at) {
    if (const auto wrong = note_end(record)) return *wrong;
  }
  const bool runs = record.process && !record.ended_at;
  if (runs) {
    if (const auto wrong = watch(record)) return *wrong;
  } else {
    live_[record.name].poller.reset();
  }
  if (!record.deletion_requested) return true;
  if (runs) {
    Live& live = live_[record.name];
    if (now() - *record.deletion_requested >= options_.termination_grace) {
      send_signal(*record.process, SIGKILL);
      if (!std::exchange(live.kill_reported, true)) {
        emit({Event::Type::kWarning, "Killed", record.name,
              "it did not end within " + std::to_string(options_.termination_grace.count()) +
                  " ms of SIGTERM; its connections were reset"});
      }
    }
    return true;
  }
  if (live_[record.name].pending_reason == kNotVisible) return true;
  if (auto wrong = store_.remove(record.name)) return failed(*wrong);
  const std::string how = record.ended_at ? ", " + record.ended_how : "";
  emit({Event::Type::kNormal, "Removed", record.name, "process and record are gone" + how});
  return false;
}

// For a record that knows no process: starts it, or finds the one that an operator started which
// died before it could write down the number.
BackendStatus LocalBackend::start_or_find(ReplicaRecord& record) {
  std::string error;
  const std::optional<LockFile> lock = LockFile::take(store_.lock(record.name), error);
  if (!lock && !error.empty()) return failed(error);
  Live& live = live_[record.name];
  live.pending_reason.clear();
  live.pending_message.clear();
  if (lock) return record.deletion_requested ? std::nullopt : start_process(record, *lock);
  const std::optional<ProcessId> holder = find_holder(store_.lock(record.name));
  if (!holder) {
    live.pending_reason = kNotVisible;
    live.pending_message =
        "a process holds " + store_.lock(record.name).string() + ", but this user cannot see which";
    return std::nullopt;
  }
  ReplicaRecord changed = record;
  changed.process = *holder;
  changed.started_at = now();
  return save(record, changed);
}

BackendStatus LocalBackend::start_process(ReplicaRecord& record, const LockFile& lock) {
  Live& live = live_[record.name];
  std::string why;
  const std::optional<std::filesystem::path> binary = binary_of(record.image, why);
  std::optional<ProcessId> process;
  if (binary) {
    const SpawnRequest request{
        {binary->string(), "-c", store_.file(record.name, kRelayConfigFile).string()},
        store_.folder(record.name),
        store_.file(record.name, "relay.log")};
    process = spawn(request, lock, why);
  }
  if (!process) {
    live.pending_reason = kImagePullFailed;
    live.pending_message = why;
    return std::nullopt;
  }
  ReplicaRecord changed = record;
  changed.process = *process;
  changed.started_at = now();
  return save(record, changed);
}

BackendStatus LocalBackend::note_end(ReplicaRecord& record) {
  const std::optional<std::string> how = reap(record.process->pid);
  if (!how && (is_own_child(record.process->pid) || is_alive(*record.process))) return std::nullopt;
  ReplicaRecord changed = record;
  changed.ended_at = now();
  // Only the one who started a process is told how it ended.
  changed.ended_how = how.value_or("it ended while no operator watched");
  return save(record, changed);
}

// Keeps a poller on a running process and takes over what it found.
BackendStatus LocalBackend::watch(ReplicaRecord& record) {
  Live& live = live_[record.name];
  if (!live.poller) {
    // A replica that takes visitors does so until it is known not to be ready. "Not known yet"
    // would take all of them out at once whenever an operator starts.
    const auto serving = endpoints();
    if (!serving.ok()) return serving.error();
    const bool serves = std::find(serving.value().begin(), serving.value().end(), record.uid) !=
                        serving.value().end();
    live.poller = std::make_unique<ReplicaPoller>(
        ReplicaPoller::Target{record.address, options_.ports.health, options_.ports.admin,
                              record.uid, replica_uri(options_.cluster_uid, record.uid),
                              *record.process, serves},
        identity_, options_.on_news);
  }
  if (const auto wrong = renew_leaf(record, live)) return wrong;
  if (record.was_ready || !live.poller->view().ready) return std::nullopt;
  ReplicaRecord changed = record;
  changed.was_ready = true;
  return save(record, changed);
}

BackendStatus LocalBackend::renew_leaf(const ReplicaRecord& record, Live& live) {
  if (live.leaf && !needs_renewal(*live.leaf, now(), jitter(record.uid))) return std::nullopt;
  std::string error;
  const auto pem = read_file(store_.file(record.name, kLeafFile), error);
  const std::string uri = replica_uri(options_.cluster_uid, record.uid);
  live.leaf = pem ? inspect(*pem, error) : std::nullopt;
  if (live.leaf && !refuse_leaf(*pem, options_.ca.certificate, uri, now()) &&
      !needs_renewal(*live.leaf, now(), jitter(record.uid))) {
    return std::nullopt;
  }
  if (const auto wrong = write_leaf(record)) return wrong;
  emit({Event::Type::kNormal, "CertificateRenewed", record.name, "a new leaf was written"});
  live.leaf.reset();
  return std::nullopt;
}

// Our own leaf lives in memory only: every operator process makes its own.
void LocalBackend::renew_identity() {
  if (identity_info_ && !needs_renewal(*identity_info_, now(), 0)) return;
  LeafRequest request;
  request.common_name = "operator of " + options_.cluster_name;
  request.uri = operator_uri(options_.cluster_uid);
  request.lifetime = std::chrono::hours(24) * spec_.certificates.leaf_days;
  std::string error;
  const auto leaf = issue_leaf(options_.ca, request, now(), random_serial(), error);
  if (!leaf) {
    emit({Event::Type::kWarning, "CertificateNotRenewed", "", error});
    return;
  }
  identity_ = {options_.ca.certificate, leaf->certificate, leaf->key};
  identity_info_ = inspect(leaf->certificate, error);
  // The next pass makes new ones with the new identity.
  for (auto& [name, live] : live_) live.poller.reset();
}

ObservedReplica LocalBackend::observe(const ReplicaRecord& record) const {
  ObservedReplica seen;
  seen.name = record.name;
  seen.uid = record.uid;
  seen.revision = record.revision;
  seen.slot = record.slot;
  seen.attempt = record.attempt;
  seen.peer_address = record.address + ":" + std::to_string(options_.ports.peers);
  seen.created_at = record.created_at;
  seen.mesh_gate = record.mesh_gate;
  seen.mesh_gate_since = record.mesh_gate_since;
  seen.drain = record.drain;
  seen.deletion_requested = record.deletion_requested;
  std::error_code ec;
  seen.drain_now = std::filesystem::exists(store_.file(record.name, "drain-now"), ec);

  const auto live = live_.find(record.name);
  if (record.ended_at) {
    seen.process = ProcessState::kEnded;
    seen.process_since = *record.ended_at;
    seen.process_reason = record.was_ready ? "Exited" : kContainerCrashing;
    seen.process_message = record.ended_how;
    const std::string tail = log_tail(store_.file(record.name, "relay.log"), kLogLines, kLogBytes);
    if (!tail.empty()) seen.process_message += ": " + tail;
  } else if (record.process) {
    seen.process = ProcessState::kRunning;
    seen.process_since = record.started_at;
  } else {
    seen.process = ProcessState::kPending;
    seen.process_since = record.created_at;
    if (live != live_.end()) {
      seen.process_reason = live->second.pending_reason;
      seen.process_message = live->second.pending_message;
    }
  }
  if (live == live_.end() || live->second.poller == nullptr) return seen;
  const ReplicaView view = live->second.poller->view();
  seen.ready = view.ready;
  const auto age = std::chrono::steady_clock::now() - view.ready_since;
  seen.ready_since =
      std::chrono::system_clock::now() - std::chrono::duration_cast<milliseconds>(age);
  seen.sample = view.sample;
  return seen;
}

std::optional<std::filesystem::path> LocalBackend::binary_of(const std::string& image,
                                                             std::string& why) const {
  std::filesystem::path binary = options_.relay;
  if (options_.images) {
    if (leads_out(image)) {
      why = "image \"" + image + "\" is not a name below " + options_.images->string();
      return std::nullopt;
    }
    binary = *options_.images / image / "fairlead-relay";
  }
  if (::access(binary.c_str(), X_OK) == 0) return binary;
  why = "image " + image + ": there is no program " + binary.string();
  return std::nullopt;
}

double LocalBackend::jitter(const std::string& uid) const {
  return static_cast<double>(std::hash<std::string>{}(uid) % 1000) / 1000.0;
}

// --- writes to records ---

BackendStatus LocalBackend::create(const NewReplica& replica) {
  if (!is_plain_name(replica.name)) return failed("not a name for a replica: " + replica.name);
  const auto exists = [&] {
    return BackendError{Kind::kConflict, replica.name + " exists already"};
  };
  if (records_.contains(replica.name)) return exists();
  std::error_code ec;
  std::filesystem::create_directories(store_.folder(replica.name) / "state", ec);
  if (ec)
    return failed("cannot make " + store_.folder(replica.name).string() + ": " + ec.message());
  std::string error;
  const std::optional<LockFile> lock = LockFile::take(store_.lock(replica.name), error);
  if (!lock) return error.empty() ? exists() : failed(error);

  std::set<std::string> taken;
  for (const auto& [name, record] : records_) taken.insert(record.address);
  const auto address =
      pick_address(subnet_, taken, replica_ports(replica.spec, options_.ports), random_);
  if (!address) return failed("no address with free ports is left in " + subnet_.to_string());

  ReplicaRecord record;
  record.name = replica.name;
  record.uid = random_uid();
  record.revision = replica.revision;
  record.slot = replica.slot;
  record.attempt = replica.attempt;
  record.image = replica.spec.image;
  record.address = *address;
  record.created_at = now();
  if (auto wrong = write_files(record, replica.spec)) return wrong;
  if (auto wrong = store_.save(record)) return failed(*wrong);
  ReplicaRecord& stored = records_[record.name] = record;
  live_[record.name] = Live{};
  return start_process(stored, *lock);
}

BackendStatus LocalBackend::write_files(const ReplicaRecord& record, const RelayClusterSpec& spec) {
  if (auto wrong = write_leaf(record)) return wrong;
  RelayFiles files{store_.folder(record.name), {}};
  if (spec.agents.auth_secret_name.empty()) {
    files.tokens_file = files.folder / kNoTokensFile;
    if (auto wrong = replace_file(files.tokens_file, "tokens: []\n", Durability::kSynced)) {
      return failed(*wrong);
    }
  } else {
    files.tokens_file = options_.secrets / spec.agents.auth_secret_name / "tokens.yaml";
  }
  const std::string text = render_relay_config(
      {options_.cluster_uid, options_.cluster_name, record.uid, record.name, record.address}, spec,
      options_.ports, files, {kForwarderSource});
  return as_status(
      replace_file(store_.file(record.name, kRelayConfigFile), text, Durability::kSynced));
}

BackendStatus LocalBackend::write_leaf(const ReplicaRecord& record) {
  LeafRequest request;
  request.common_name = record.name;
  request.uri = replica_uri(options_.cluster_uid, record.uid);
  request.dns = {options_.cluster_name, "localhost", spec_.visitors.domain,
                 "*." + spec_.visitors.domain};
  request.ips = {record.address, options_.listen};
  request.lifetime = std::chrono::hours(24) * spec_.certificates.leaf_days;
  std::string error;
  const auto leaf = issue_leaf(options_.ca, request, now(), random_serial(), error);
  if (!leaf) return failed("cannot issue a certificate for " + record.name + ": " + error);
  const auto put = [&](const char* name, const std::string& text, unsigned mode) {
    return replace_file(store_.file(record.name, name), text, Durability::kSynced, mode);
  };
  if (auto wrong = put(kKeyFile, leaf->key, 0600)) return failed(*wrong);
  if (auto wrong = put(kLeafFile, leaf->certificate, 0644)) return failed(*wrong);
  return as_status(put(kCaFile, options_.ca.certificate, 0644));
}

BackendStatus LocalBackend::save(ReplicaRecord& stored, const ReplicaRecord& changed) {
  if (auto wrong = store_.save(changed)) return failed(*wrong);
  stored = changed;
  return std::nullopt;
}

BackendResult<ReplicaRecord*> LocalBackend::find(const std::string& name, const std::string& uid) {
  const auto it = records_.find(name);
  if (it == records_.end()) return BackendError{Kind::kNotFound, "there is no replica " + name};
  if (it->second.uid != uid) {
    return BackendError{Kind::kConflict, name + " has UID " + it->second.uid + ", not " + uid};
  }
  return &it->second;
}

BackendStatus LocalBackend::annotate_drain(const std::string& name, const std::string& uid,
                                           const DrainIntent& intent) {
  const auto record = find(name, uid);
  if (!record.ok()) return record.error();
  ReplicaRecord changed = *record.value();
  changed.drain = intent;
  return save(*record.value(), changed);
}

BackendStatus LocalBackend::set_mesh_gate(const std::string& name, const std::string& uid,
                                          bool open) {
  const auto record = find(name, uid);
  if (!record.ok()) return record.error();
  if (record.value()->mesh_gate == open) return std::nullopt;
  ReplicaRecord changed = *record.value();
  changed.mesh_gate = open;
  changed.mesh_gate_since = now();
  return save(*record.value(), changed);
}

BackendStatus LocalBackend::remove(const std::string& name, const std::string& uid) {
  const auto found = find(name, uid);
  if (!found.ok()) return found.error();
  ReplicaRecord& record = *found.value();
  if (!record.deletion_requested) {
    ReplicaRecord changed = record;
    changed.deletion_requested = now();
    if (auto wrong = save(record, changed)) return wrong;
  }
  if (record.process && !record.ended_at) send_signal(*record.process, SIGTERM);
  return std::nullopt;
}

// --- Admin ---

template <class Call>
BackendStatus LocalBackend::order(const std::string& uid, Call call) {
  const auto record = std::find_if(records_.begin(), records_.end(),
                                   [&](const auto& entry) { return entry.second.uid == uid; });
  if (record == records_.end()) {
    return BackendError{Kind::kNotFound, "there is no replica with UID " + uid};
  }
  const auto live = live_.find(record->first);
  ReplicaPoller* const poller = live == live_.end() ? nullptr : live->second.poller.get();
  AdminClient* const admin = poller == nullptr ? nullptr : poller->admin();
  if (admin == nullptr) {
    return BackendError{Kind::kUnreachable, record->first + " does not answer"};
  }
  const auto answer = call(*admin);
  poller->hurry();
  return as_status(answer.code, record->first, answer.text);
}

BackendStatus LocalBackend::set_membership(const std::string& uid, const std::string& cluster_uid,
                                           const Membership& membership) {
  return order(uid,
               [&](AdminClient& admin) { return admin.set_membership(cluster_uid, membership); });
}

BackendStatus LocalBackend::drain(const std::string& uid, const DrainOrder& wanted) {
  return order(uid, [&](AdminClient& admin) { return admin.drain(wanted); });
}

// --- the rest ---

BackendResult<bool> LocalBackend::has_secret(const std::string& name) {
  if (!is_plain_name(name)) return false;
  std::error_code ec;
  const std::filesystem::path folder = options_.secrets / name;
  const bool tokens_wanted = name == spec_.agents.auth_secret_name;
  const bool there = tokens_wanted ? std::filesystem::exists(folder / "tokens.yaml", ec)
                                   : std::filesystem::is_directory(folder, ec);
  if (ec && ec != std::errc::no_such_file_or_directory && ec != std::errc::not_a_directory) {
    return failed("cannot look at " + folder.string() + ": " + ec.message());
  }
  return there;
}

std::optional<ClusterStatus> LocalBackend::read_status() {
  std::string ignored;
  const auto text = read_file(options_.status_file, ignored);
  return text ? parse_status(*text) : std::nullopt;
}

BackendStatus LocalBackend::write_status(const ClusterStatus& status) {
  const std::string text = render_status_yaml(status);
  if (text == written_status_) return std::nullopt;
  if (auto wrong = replace_file(options_.status_file, text, Durability::kVisible)) {
    return failed(*wrong);
  }
  written_status_ = text;
  return std::nullopt;
}

void LocalBackend::emit(const Event& event) {
  options_.on_event(event);
}

}  // namespace fairlead::op
