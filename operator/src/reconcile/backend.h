// The only seam between the operator's decisions and what runs replicas: child processes on one
// machine, or Kubernetes. Everything above it (plan, reconcile) is the same code for both.
//
// Contract of every call
//  - Called from one thread, the one that runs passes. No call may block for longer than about 2 s,
//    and none may throw: a failure is a BackendError.
//  - What a write returned success for is durable and visible to the reads that follow it, also to
//    those of a new operator process after SIGKILL at any moment. A write that fails part-way
//    leaves the old or the new state, never a mix.
//  - An error says nothing about whether a write happened: the next pass observes again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/relay_cluster.h"
#include "api/status.h"
#include "plan/actions.h"
#include "plan/membership.h"
#include "plan/replica.h"

namespace fairlead::op {

struct BackendError {
  enum class Kind {
    kConflict,     // exists already, another UID, another version: observe again at once
    kNotFound,     // the replica is gone: observe again at once
    kRefused,      // a replica refused an Admin call (a lower epoch, another digest)
    kUnreachable,  // no answer in time; nothing is known about the outcome
    kFailed,       // anything else; retried with backoff
  };
  Kind kind = Kind::kFailed;
  std::string text;  // what failed, with name and cause
};

// nullopt: success.
using BackendStatus = std::optional<BackendError>;

template <typename T>
class BackendResult {
 public:
  BackendResult(T value) : value_(std::move(value)) {}             // NOLINT: a value is a result
  BackendResult(BackendError error) : error_(std::move(error)) {}  // NOLINT: so is an error
  bool ok() const { return value_.has_value(); }
  const T& value() const { return *value_; }            // only when ok()
  const BackendError& error() const { return error_; }  // only when !ok()

 private:
  std::optional<T> value_;
  BackendError error_;
};

struct NewReplica {
  std::string name;  // <cluster>-<rev8>-<slot>-<attempt>
  std::string revision;
  int slot = 0;
  int attempt = 1;
  RelayClusterSpec spec;  // spec_at_revision(): what to render the relay's configuration from
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual WallTime now() = 0;

  // --- replicas: the records, and what their processes do ---

  // Every record, also of replicas that drain, ended or are being deleted, each with the last
  // Admin.Status answer of its process. A record is gone from here only when its process is. A
  // backend that was just made says of a replica in the endpoints that it is ready until its health
  // endpoint said otherwise: "not ready" takes a replica out of the endpoints, so it must be known,
  // not merely not known yet.
  virtual BackendResult<std::vector<ObservedReplica>> list_replicas() = 0;

  // Writes a record (with a new random UID) and starts its process. kConflict when a record or a
  // process of that name exists. A missing image or a process that ends at once is no error here:
  // the record says so when listed.
  virtual BackendStatus create(const NewReplica& replica) = 0;

  // The three writes to a record carry its UID: kNotFound when no such record is there, kConflict
  // when the record of that name has another UID.
  // annotate_drain: replaces the intent. Written before the first drain() of a replica.
  virtual BackendStatus annotate_drain(const std::string& name, const std::string& uid,
                                       const DrainIntent& intent) = 0;
  virtual BackendStatus set_mesh_gate(const std::string& name, const std::string& uid,
                                      bool open) = 0;
  // Asks the process to end (SIGTERM, 30 s later SIGKILL) and returns; the record carries
  // deletion_requested until the process is gone and then disappears. Idempotent.
  virtual BackendStatus remove(const std::string& name, const std::string& uid) = 0;

  // --- pinned configurations ---
  virtual BackendResult<std::vector<RevisionRecord>> list_revisions() = 0;
  // Storing a revision that is there already changes nothing and succeeds.
  virtual BackendStatus put_revision(const RevisionRecord& record) = 0;
  virtual BackendStatus remove_revision(const std::string& revision) = 0;  // gone already: success

  // --- membership, stored with a version that every write changes ---
  struct StoredMembership {
    Membership membership;  // epoch 0 when none was ever stored
    std::string version;    // opaque
    WallTime written_at{};
  };
  virtual BackendResult<StoredMembership> membership() = 0;
  // kConflict when the stored version is not `version`.
  virtual BackendStatus put_membership(const Membership& membership,
                                       const std::string& version) = 0;

  // --- who takes new visitors and agents: UIDs, sorted ---
  virtual BackendResult<std::vector<std::string>> endpoints() = 0;
  virtual BackendStatus put_endpoints(const std::vector<std::string>& uids) = 0;

  // --- Admin calls to one replica, by UID. An unreachable replica is kUnreachable within 2 s ---
  virtual BackendStatus set_membership(const std::string& uid, const std::string& cluster_uid,
                                       const Membership& membership) = 0;
  // Starts the drain, or shortens its deadline; does not wait for it: its progress is in the
  // samples.
  virtual BackendStatus drain(const std::string& uid, const DrainOrder& order) = 0;

  // --- the rest ---
  // False when the Secret is certainly missing; an error when that is not known.
  virtual BackendResult<bool> has_secret(const std::string& name) = 0;
  // The status as it was last written; nullopt when there is none or it does not parse.
  virtual std::optional<ClusterStatus> read_status() = 0;
  virtual BackendStatus write_status(const ClusterStatus& status) = 0;
  virtual void emit(const Event& event) = 0;
};

}  // namespace fairlead::op
