// A cluster in memory and in virtual time, behind the operator's seam: replicas that start, join,
// drain and end, and visitors on them, so that what an operator does to visits can be counted.
// Everything that must outlive an operator process lives here; the operator itself (a Reconciler)
// can be killed around any call and a new one put in its place.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "reconcile/backend.h"
#include "reconcile/reconciler.h"

namespace fairlead::op::testing {

// Thrown out of a call that the operator does not survive.
struct OperatorKilled {};

// What befalls the operator at one of its calls.
enum class Fault {
  kKillBefore,   // killed; the call has no effect
  kKillMidway,   // killed after the record of the call, before its process is started or signalled
  kKillAfter,    // killed; the call has taken effect
  kErrorBefore,  // kFailed; no effect
  kErrorAfter,   // kUnreachable; the call has taken effect all the same
};
inline constexpr Fault kFaults[] = {Fault::kKillBefore, Fault::kKillMidway, Fault::kKillAfter,
                                    Fault::kErrorBefore, Fault::kErrorAfter};
const char* to_string(Fault fault);

// How the fake may lie, for tests that must see visits lost.
struct Lies {
  bool drained_at_once = false;  // Drained is reported while visits live
  bool starts_as_unready =
      false;  // a new operator is told that nothing is ready until it is polled
};

// Not thread-safe. A call that changes something counts, as does each Admin call; reads do not: a
// kill after a read is the kill before the next write.
class FakeCluster final : public Backend {
 public:
  explicit FakeCluster(std::uint64_t seed, Lies lies = {});

  // --- what a test does ---
  // Image whose processes never start; the backend says so as kImagePullFailed.
  void break_image(const std::string& image) { broken_images_.insert(image); }
  // SIGKILL of a replica's process by someone else. What it held is counted as crashed, not lost.
  void crash(const std::string& name);
  // `fault` befalls the call numbered `call` from now, counted from 1.
  void inject(int call, Fault fault);
  // Moves time on by `step`: processes, drains and visits advance, visitors come.
  void advance(std::chrono::milliseconds step);
  // The process behind the Backend was replaced: what only its memory held is forgotten.
  void operator_restarted();

  // --- what a test looks at ---
  int calls() const { return calls_; }  // since inject() or the beginning
  std::uint64_t lost() const { return lost_; }
  std::uint64_t refused() const { return refused_; }  // visitors that found no one to take them
  std::uint64_t crashed() const { return crashed_; }
  std::uint64_t opened() const { return opened_; }
  std::vector<std::string> running() const;  // names of replicas with a process
  std::vector<std::string> events() const { return events_; }
  // What is wrong with the cluster as a resting state for `cluster`; "" when nothing is.
  std::string unrest(const RelayCluster& cluster) const;

  // --- Backend ---
  WallTime now() override { return now_; }
  BackendResult<std::vector<ObservedReplica>> list_replicas() override;
  BackendStatus create(const NewReplica& replica) override;
  BackendStatus annotate_drain(const std::string& name, const std::string& uid,
                               const DrainIntent& intent) override;
  BackendStatus set_mesh_gate(const std::string& name, const std::string& uid, bool open) override;
  BackendStatus remove(const std::string& name, const std::string& uid) override;
  BackendResult<std::vector<RevisionRecord>> list_revisions() override { return revisions_; }
  BackendStatus put_revision(const RevisionRecord& record) override;
  BackendStatus remove_revision(const std::string& revision) override;
  BackendResult<StoredMembership> membership() override;
  BackendStatus put_membership(const Membership& membership, const std::string& version) override;
  BackendResult<std::vector<std::string>> endpoints() override { return endpoints_; }
  BackendStatus put_endpoints(const std::vector<std::string>& uids) override;
  BackendStatus set_membership(const std::string& uid, const std::string& cluster_uid,
                               const Membership& membership) override;
  BackendStatus drain(const std::string& uid, const DrainOrder& order) override;
  BackendResult<bool> has_secret(const std::string&) override { return true; }
  std::optional<ClusterStatus> read_status() override { return status_; }
  BackendStatus write_status(const ClusterStatus& status) override;
  void emit(const Event& event) override;

 private:
  // The relay process of a replica.
  struct Process {
    WallTime started_at{};
    std::optional<WallTime> told_to_end_at;
    Membership held;
    DrainPhase phase = DrainPhase::kNone;
    std::string drain_reason;
    WallTime drain_began{};
    WallTime drain_deadline{};
    std::chrono::milliseconds endpoint_delay{0};
    std::uint64_t drain_lost = 0;
    std::vector<WallTime> visits;  // when each ends by itself
  };
  struct Replica {
    ObservedReplica facts;
    std::string image;
    std::optional<Process> process;
  };

  bool runs(const Replica& replica) const;
  bool ready(const Replica& replica) const;
  Replica* find_uid(const std::string& uid);
  Replica* find_running(const std::string& uid);
  BackendStatus find_record(const std::string& name, const std::string& uid, Replica*& found);
  ObservedReplica observed(const Replica& replica) const;
  AdminSample sample(const Replica& replica, const Process& process) const;
  bool linked(const Replica& a, const Replica& b) const;
  void advance_process(Replica& replica);
  void advance_drain(Process& process);
  void visitors_come();
  // Carries out `effect` of one counted call, with the fault that befalls it. `record` is the part
  // that an operator killed midway has done.
  BackendStatus call(
      const std::function<BackendStatus()>& effect, const std::function<void()>& record = [] {});

  Lies lies_;
  std::mt19937_64 random_;
  WallTime now_;
  WallTime operator_since_;
  std::set<std::string> broken_images_;
  std::map<std::string, Replica> replicas_;  // by name
  std::vector<RevisionRecord> revisions_;
  StoredMembership membership_;
  std::vector<std::string> endpoints_;
  std::optional<ClusterStatus> status_;
  std::vector<std::string> events_;
  int next_uid_ = 1;
  int calls_ = 0;
  int fault_at_ = 0;
  Fault fault_ = Fault::kKillAfter;
  std::uint64_t opened_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t crashed_ = 0;
};

// An operator on a FakeCluster: runs passes when they are due and is started again after a kill.
class FakeOperator {
 public:
  explicit FakeOperator(FakeCluster& cluster);

  // Passes and virtual time until `condition` holds, for at most `limit`; whether it came to hold.
  bool run_until(const RelayCluster& wanted, const std::function<bool()>& condition,
                 std::chrono::seconds limit);
  // Until the cluster rests as `wanted`; "" or what is still wrong after `limit`.
  std::string settle(const RelayCluster& wanted,
                     std::chrono::seconds limit = std::chrono::seconds(400));
  int kills() const { return kills_; }

 private:
  void pass(const RelayCluster& wanted);

  FakeCluster& cluster_;
  std::unique_ptr<Reconciler> reconciler_;
  WallTime next_pass_;
  PassResult last_;
  int kills_ = 0;
};

}  // namespace fairlead::op::testing
