#include "reconcile/fake_cluster.h"

#include <algorithm>
#include <utility>

namespace fairlead::op::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTick{100};
constexpr milliseconds kStartTime{400};  // of a process until its health endpoint says 200
constexpr milliseconds kEndTime{200};    // of a process after SIGTERM
constexpr milliseconds kFirstPoll{150};  // of a new operator, until it has asked every replica
constexpr milliseconds kRestartTime{300};
constexpr std::size_t kVisits = 12;  // as many are kept alive
constexpr milliseconds kShortestVisit{500};
constexpr milliseconds kLongestVisit{5000};

BackendError failure(BackendError::Kind kind, std::string text) {
  return {kind, std::move(text)};
}

}  // namespace

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::kKillBefore:
      return "killed before";
    case Fault::kKillMidway:
      return "killed midway";
    case Fault::kKillAfter:
      return "killed after";
    case Fault::kErrorBefore:
      return "error instead of";
    case Fault::kErrorAfter:
      return "error after";
  }
  return "?";
}

FakeCluster::FakeCluster(std::uint64_t seed, Lies lies)
    : lies_(lies), random_(seed), now_(seconds(1700000000)), operator_since_(now_) {
  membership_.version = "0";
}

void FakeCluster::inject(int call, Fault fault) {
  calls_ = 0;
  fault_at_ = call;
  fault_ = fault;
}

void FakeCluster::operator_restarted() {
  operator_since_ = now_;
  for (auto& [name, replica] : replicas_) {
    ObservedReplica& facts = replica.facts;
    if (replica.process || facts.process != ProcessState::kPending) {
      // The next one signals again what its predecessor recorded.
      if (replica.process && facts.deletion_requested) replica.process->told_to_end_at = now_;
      continue;
    }
    if (broken_images_.contains(replica.image)) continue;
    facts.process = ProcessState::kEnded;
    facts.process_reason = kNotStarted;
    facts.process_since = now_;
  }
}

BackendStatus FakeCluster::call(const std::function<BackendStatus()>& effect,
                                const std::function<void()>& record) {
  ++calls_;
  if (calls_ != fault_at_) return effect();
  switch (fault_) {
    case Fault::kKillBefore:
      throw OperatorKilled{};
    case Fault::kKillMidway:
      record();
      throw OperatorKilled{};
    case Fault::kKillAfter:
      effect();
      throw OperatorKilled{};
    case Fault::kErrorBefore:
      return failure(BackendError::Kind::kFailed, "injected: not done");
    case Fault::kErrorAfter:
      effect();
      return failure(BackendError::Kind::kUnreachable, "injected: no answer in time");
  }
  return std::nullopt;
}

// --- time ---

void FakeCluster::advance(milliseconds step) {
  now_ += step;
  for (auto it = replicas_.begin(); it != replicas_.end();) {
    advance_process(it->second);
    const bool gone = it->second.facts.deletion_requested && !it->second.process;
    it = gone ? replicas_.erase(it) : std::next(it);
  }
  visitors_come();
}

void FakeCluster::advance_process(Replica& replica) {
  if (!replica.process) return;
  Process& process = *replica.process;
  std::erase_if(process.visits, [&](WallTime end) { return end <= now_; });
  advance_drain(process);
  if (process.told_to_end_at && now_ - *process.told_to_end_at >= kEndTime) {
    lost_ += process.visits.size();
    replica.process.reset();
    replica.facts.process = ProcessState::kEnded;
    replica.facts.process_since = now_;
  }
}

void FakeCluster::advance_drain(Process& process) {
  if (process.phase == DrainPhase::kDelay && now_ - process.drain_began >= process.endpoint_delay) {
    process.phase = DrainPhase::kDraining;
  }
  if (process.phase == DrainPhase::kDraining) {
    if (process.visits.empty() || lies_.drained_at_once) {
      process.phase = DrainPhase::kDrained;
    } else if (now_ >= process.drain_deadline) {
      process.phase = DrainPhase::kForced;
      process.drain_lost = process.visits.size();
      lost_ += process.visits.size();
      process.visits.clear();
    }
  }
}

void FakeCluster::visitors_come() {
  std::size_t live = 0;
  for (const auto& [name, replica] : replicas_) {
    if (replica.process) live += replica.process->visits.size();
  }
  if (opened_ == 0 && endpoints_.empty()) return;  // nobody comes before the service exists
  for (; live < kVisits; ++live) {
    Replica* replica =
        endpoints_.empty() ? nullptr : find_running(endpoints_[random_() % endpoints_.size()]);
    const bool takes = replica != nullptr && (replica->process->phase == DrainPhase::kNone ||
                                              replica->process->phase == DrainPhase::kDelay);
    if (!takes) {
      ++refused_;
      continue;
    }
    const milliseconds length(random_() %
                              static_cast<std::uint64_t>((kLongestVisit - kShortestVisit).count()));
    replica->process->visits.push_back(now_ + kShortestVisit + length);
    ++opened_;
  }
}

void FakeCluster::crash(const std::string& name) {
  const auto found = replicas_.find(name);
  if (found == replicas_.end() || !found->second.process) return;
  Replica& replica = found->second;
  crashed_ += replica.process->visits.size();
  replica.process.reset();
  replica.facts.process = ProcessState::kEnded;
  replica.facts.process_reason = kContainerCrashing;
  replica.facts.process_message = "killed by signal 9";
  replica.facts.process_since = now_;
}

// --- what is seen ---

bool FakeCluster::ready(const Replica& replica) const {
  return replica.process && now_ - replica.process->started_at >= kStartTime &&
         (replica.process->phase == DrainPhase::kNone ||
          replica.process->phase == DrainPhase::kDelay);
}

bool FakeCluster::linked(const Replica& a, const Replica& b) const {
  const auto knows = [](const Replica& one, const Replica& other) {
    const auto& members = one.process->held.members;
    return std::any_of(members.begin(), members.end(),
                       [&](const Member& m) { return m.uid == other.facts.uid; });
  };
  return a.process && b.process && knows(a, b) && knows(b, a);
}

AdminSample FakeCluster::sample(const Replica& replica, const Process& process) const {
  AdminSample sample;
  sample.process_id = replica.facts.uid;
  sample.version = replica.image;
  sample.epoch = process.held.epoch;
  sample.digest = process.held.digest;
  for (const Member& member : process.held.members) {
    if (member.uid == replica.facts.uid) continue;
    std::uint32_t up = 0;
    for (const auto& [name, peer] : replicas_) {
      if (peer.facts.uid == member.uid && linked(replica, peer)) up = 4;
    }
    sample.peers.push_back({member.uid, up, 4});
  }
  sample.visits = process.visits.size();
  sample.drain.phase = process.phase;
  if (process.phase != DrainPhase::kNone) {
    sample.drain.reason = process.drain_reason;
    sample.drain.visits = process.visits.size();
    sample.drain.elapsed = std::chrono::duration_cast<milliseconds>(now_ - process.drain_began);
    sample.drain.deadline =
        std::chrono::duration_cast<milliseconds>(process.drain_deadline - process.drain_began);
    sample.drain.lost = process.drain_lost;
  }
  return sample;
}

ObservedReplica FakeCluster::observed(const Replica& replica) const {
  ObservedReplica seen = replica.facts;
  if (!replica.process) return seen;
  const bool polled = now_ - operator_since_ >= kFirstPoll;
  const WallTime ready_at = replica.process->started_at + kStartTime;
  seen.ready_since = std::max(ready_at, operator_since_);
  if (polled) {
    seen.ready = ready(replica);
    if (now_ >= ready_at) seen.sample = sample(replica, *replica.process);
  } else {
    seen.ready = !lies_.starts_as_unready &&
                 std::find(endpoints_.begin(), endpoints_.end(), seen.uid) != endpoints_.end();
  }
  return seen;
}

BackendResult<std::vector<ObservedReplica>> FakeCluster::list_replicas() {
  std::vector<ObservedReplica> seen;
  for (const auto& [name, replica] : replicas_) seen.push_back(observed(replica));
  return seen;
}

std::vector<std::string> FakeCluster::running() const {
  std::vector<std::string> names;
  for (const auto& [name, replica] : replicas_) {
    if (replica.process) names.push_back(name);
  }
  return names;
}

std::string FakeCluster::unrest(const RelayCluster& cluster) const {
  const std::string revision = revision_of(render_intent(cluster.spec));
  std::vector<std::string> uids;
  for (const auto& [name, replica] : replicas_) {
    if (!replica.process) return name + " is a record without a process";
    if (replica.facts.deletion_requested) return name + " is being deleted";
    if (replica.facts.drain) return name + " is asked to drain";
    if (replica.facts.revision != revision) return name + " is of another revision";
    if (replica.facts.mesh_gate != true) return name + " is not in the mesh";
    if (replica.process->held.epoch != membership_.membership.epoch) {
      return name + " does not hold the stored membership";
    }
    uids.push_back(replica.facts.uid);
  }
  std::sort(uids.begin(), uids.end());
  const auto wanted = static_cast<std::size_t>(cluster.spec.replicas);
  if (uids.size() != wanted) return std::to_string(uids.size()) + " replicas";
  if (endpoints_ != uids) return "the endpoints are not the replicas";
  std::vector<std::string> members;
  for (const Member& member : membership_.membership.members) members.push_back(member.uid);
  if (members != uids) return "the members are not the replicas";
  if (revisions_.size() != 1) return std::to_string(revisions_.size()) + " revisions are stored";
  return "";
}

// --- writes ---

FakeCluster::Replica* FakeCluster::find_uid(const std::string& uid) {
  for (auto& [name, replica] : replicas_) {
    if (replica.facts.uid == uid) return &replica;
  }
  return nullptr;
}

FakeCluster::Replica* FakeCluster::find_running(const std::string& uid) {
  Replica* replica = find_uid(uid);
  return replica != nullptr && replica->process ? replica : nullptr;
}

BackendStatus FakeCluster::find_record(const std::string& name, const std::string& uid,
                                       Replica*& found) {
  const auto it = replicas_.find(name);
  if (it == replicas_.end()) return failure(BackendError::Kind::kNotFound, "no record " + name);
  if (it->second.facts.uid != uid) {
    return failure(BackendError::Kind::kConflict, name + " has another UID");
  }
  found = &it->second;
  return std::nullopt;
}

BackendStatus FakeCluster::create(const NewReplica& wanted) {
  const auto record = [&] {
    if (replicas_.contains(wanted.name)) return false;
    Replica& replica = replicas_[wanted.name];
    replica.image = wanted.spec.image;
    ObservedReplica& facts = replica.facts;
    const int number = next_uid_++;
    facts.name = wanted.name;
    facts.uid = "uid-" + std::to_string(1000 + number);
    facts.revision = wanted.revision;
    facts.slot = wanted.slot;
    facts.attempt = wanted.attempt;
    facts.peer_address = "127.0.0." + std::to_string(number) + ":7001";
    facts.created_at = now_;
    facts.process_since = now_;
    if (broken_images_.contains(replica.image)) {
      facts.process_reason = kImagePullFailed;
      facts.process_message = "no such image: " + replica.image;
    }
    return true;
  };
  const auto effect = [&]() -> BackendStatus {
    if (!record()) return failure(BackendError::Kind::kConflict, wanted.name + " exists");
    Replica& replica = replicas_[wanted.name];
    if (broken_images_.contains(replica.image)) return std::nullopt;
    replica.process.emplace();
    replica.process->started_at = now_;
    replica.facts.process = ProcessState::kRunning;
    return std::nullopt;
  };
  return call(effect, record);
}

BackendStatus FakeCluster::annotate_drain(const std::string& name, const std::string& uid,
                                          const DrainIntent& intent) {
  return call([&]() -> BackendStatus {
    Replica* replica = nullptr;
    if (auto missing = find_record(name, uid, replica)) return missing;
    replica->facts.drain = intent;
    return std::nullopt;
  });
}

BackendStatus FakeCluster::set_mesh_gate(const std::string& name, const std::string& uid,
                                         bool open) {
  return call([&]() -> BackendStatus {
    Replica* replica = nullptr;
    if (auto missing = find_record(name, uid, replica)) return missing;
    replica->facts.mesh_gate = open;
    replica->facts.mesh_gate_since = now_;
    return std::nullopt;
  });
}

BackendStatus FakeCluster::remove(const std::string& name, const std::string& uid) {
  const auto record = [&] {
    Replica* replica = nullptr;
    if (!find_record(name, uid, replica) && !replica->facts.deletion_requested) {
      replica->facts.deletion_requested = now_;
    }
  };
  const auto effect = [&]() -> BackendStatus {
    Replica* replica = nullptr;
    if (auto missing = find_record(name, uid, replica)) return missing;
    record();
    if (replica->process && !replica->process->told_to_end_at) {
      replica->process->told_to_end_at = now_;
    }
    return std::nullopt;
  };
  return call(effect, record);
}

BackendStatus FakeCluster::put_revision(const RevisionRecord& record) {
  return call([&]() -> BackendStatus {
    const bool there = std::any_of(revisions_.begin(), revisions_.end(), [&](const auto& stored) {
      return stored.revision == record.revision;
    });
    if (!there) revisions_.push_back(record);
    return std::nullopt;
  });
}

BackendStatus FakeCluster::remove_revision(const std::string& revision) {
  return call([&]() -> BackendStatus {
    std::erase_if(revisions_, [&](const auto& stored) { return stored.revision == revision; });
    return std::nullopt;
  });
}

BackendResult<Backend::StoredMembership> FakeCluster::membership() {
  return membership_;
}

BackendStatus FakeCluster::put_membership(const Membership& membership,
                                          const std::string& version) {
  return call([&]() -> BackendStatus {
    if (version != membership_.version) {
      return failure(BackendError::Kind::kConflict, "the membership has another version");
    }
    membership_ = {membership, std::to_string(std::stoi(version) + 1), now_};
    return std::nullopt;
  });
}

BackendStatus FakeCluster::put_endpoints(const std::vector<std::string>& uids) {
  return call([&]() -> BackendStatus {
    endpoints_ = uids;
    return std::nullopt;
  });
}

BackendStatus FakeCluster::set_membership(const std::string& uid, const std::string&,
                                          const Membership& membership) {
  return call([&]() -> BackendStatus {
    Replica* replica = find_running(uid);
    if (replica == nullptr) return failure(BackendError::Kind::kUnreachable, uid + " is gone");
    Membership& held = replica->process->held;
    const bool stale = membership.epoch < held.epoch ||
                       (membership.epoch == held.epoch && membership.digest != held.digest);
    if (stale) return failure(BackendError::Kind::kRefused, "holds a newer membership");
    held = membership;
    return std::nullopt;
  });
}

BackendStatus FakeCluster::drain(const std::string& uid, const DrainOrder& order) {
  return call([&]() -> BackendStatus {
    Replica* replica = find_running(uid);
    if (replica == nullptr) return failure(BackendError::Kind::kUnreachable, uid + " is gone");
    Process& process = *replica->process;
    const WallTime deadline = now_ + order.deadline;
    if (process.phase == DrainPhase::kNone) {
      process.phase = DrainPhase::kDelay;
      process.drain_reason = order.reason;
      process.drain_began = now_;
      process.drain_deadline = deadline;
      process.endpoint_delay = order.endpoint_delay;
    } else {
      process.drain_deadline = std::min(process.drain_deadline, deadline);
    }
    return std::nullopt;
  });
}

BackendStatus FakeCluster::write_status(const ClusterStatus& status) {
  return call([&]() -> BackendStatus {
    status_ = status;
    return std::nullopt;
  });
}

void FakeCluster::emit(const Event& event) {
  events_.push_back(event.reason + (event.about.empty() ? "" : " " + event.about) + ": " +
                    event.text);
}

// --- the operator ---

FakeOperator::FakeOperator(FakeCluster& cluster)
    : cluster_(cluster),
      reconciler_(std::make_unique<Reconciler>(cluster)),
      next_pass_(cluster.now()) {}

void FakeOperator::pass(const RelayCluster& wanted) {
  try {
    last_ = reconciler_->run(wanted);
    // A backend that sees something happen asks for a pass; half a second is the latest.
    next_pass_ = cluster_.now() + std::clamp(last_.after, kTick, milliseconds(500));
  } catch (const OperatorKilled&) {
    ++kills_;
    for (milliseconds down{0}; down < kRestartTime; down += kTick) cluster_.advance(kTick);
    cluster_.operator_restarted();
    reconciler_ = std::make_unique<Reconciler>(cluster_);
    last_ = {PassResult::Kind::kAfter, milliseconds(0), ""};
    next_pass_ = cluster_.now();
  }
}

bool FakeOperator::run_until(const RelayCluster& wanted, const std::function<bool()>& condition,
                             seconds limit) {
  const WallTime end = cluster_.now() + limit;
  while (!condition()) {
    if (cluster_.now() >= end) return false;
    if (cluster_.now() >= next_pass_) pass(wanted);
    cluster_.advance(kTick);
  }
  return true;
}

std::string FakeOperator::settle(const RelayCluster& wanted, seconds limit) {
  const bool rests = run_until(
      wanted,
      [&] { return last_.kind == PassResult::Kind::kDone && cluster_.unrest(wanted).empty(); },
      limit);
  if (rests) return "";
  std::string trouble = "still after " + std::to_string(limit.count()) + " s: ";
  const std::string unrest = cluster_.unrest(wanted);
  trouble += unrest.empty() ? "no pass says done" : unrest;
  return last_.error.empty() ? trouble : trouble + "; the last pass: " + last_.error;
}

}  // namespace fairlead::op::testing
