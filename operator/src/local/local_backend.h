// The backend that runs replicas as child processes of one machine, each on a loopback address of
// its own, behind one forwarder. Contract: reconcile/backend.h.
//
// What survives what: records, membership and endpoints are on the disk before a call returns; the
// processes are detached. A new operator reads the records and goes on. A record whose process was
// never started, because the image is missing or the operator died, is started by list_replicas();
// whether a process exists that no record knows the number of is told by the record's lock file.
//
// Not shown by this backend, compared with Kubernetes: probes by a kubelet, restarts of a container
// under the same pod, delays of Secrets and caches, garbage collection, nodes, disruption budgets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "local/address_pool.h"
#include "local/endpoints.h"
#include "local/relay_config.h"
#include "local/replica_poller.h"
#include "local/replica_record.h"
#include "pki/certificate.h"
#include "reconcile/backend.h"

namespace fairlead::op {

struct LocalOptions {
  std::filesystem::path state;        // exists; held by this process (ClusterState)
  std::filesystem::path status_file;  // written by write_status()
  // Image NAME is the binary <images>/NAME/fairlead-relay. Without it, `relay` serves every name.
  std::optional<std::filesystem::path> images;
  std::filesystem::path relay;
  std::filesystem::path secrets;  // Secret NAME is the folder <secrets>/NAME
  std::string cluster_uid;
  std::string cluster_name;
  std::string listen;  // of the forwarder: agents verify the leafs against it
  std::string subnet;  // CIDR
  Credential ca;
  RelayPorts ports;
  // A process that was asked to end and has not after this long is killed.
  std::chrono::milliseconds termination_grace{30'000};
  std::uint64_t seed = 0;         // of the choice of addresses and of renewal
  std::function<void()> on_news;  // from any thread: a pass has something to look at
  std::function<void(const Event&)> on_event;
};

class LocalBackend final : public Backend {
 public:
  // Reads the state folder and takes over the processes it finds. nullptr with `error` when the
  // folder cannot be read or an option is not usable.
  static std::unique_ptr<LocalBackend> open(LocalOptions options, std::string& error);
  ~LocalBackend() override;

  // The spec in force: the ports that are served and the life of certificates follow it at once.
  void set_spec(const RelayClusterSpec& spec);

  // True when no record is left, and with it no process.
  bool empty() const { return records_.empty(); }

  WallTime now() override;
  BackendResult<std::vector<ObservedReplica>> list_replicas() override;
  BackendStatus create(const NewReplica& replica) override;
  BackendStatus annotate_drain(const std::string& name, const std::string& uid,
                               const DrainIntent& intent) override;
  BackendStatus set_mesh_gate(const std::string& name, const std::string& uid, bool open) override;
  BackendStatus remove(const std::string& name, const std::string& uid) override;
  BackendResult<std::vector<RevisionRecord>> list_revisions() override;
  BackendStatus put_revision(const RevisionRecord& record) override;
  BackendStatus remove_revision(const std::string& revision) override;
  BackendResult<StoredMembership> membership() override;
  BackendStatus put_membership(const Membership& membership, const std::string& version) override;
  BackendResult<std::vector<std::string>> endpoints() override;
  BackendStatus put_endpoints(const std::vector<std::string>& uids) override;
  BackendStatus set_membership(const std::string& uid, const std::string& cluster_uid,
                               const Membership& membership) override;
  BackendStatus drain(const std::string& uid, const DrainOrder& order) override;
  BackendResult<bool> has_secret(const std::string& name) override;
  std::optional<ClusterStatus> read_status() override;
  BackendStatus write_status(const ClusterStatus& status) override;
  void emit(const Event& event) override;

 private:
  // What is known of a replica in this process only.
  struct Live {
    std::unique_ptr<ReplicaPoller> poller;  // while its process lives
    std::string pending_reason;             // why it was not started yet
    std::string pending_message;
    std::optional<CertificateInfo> leaf;
    bool kill_reported = false;
  };

  LocalBackend(LocalOptions options, Subnet subnet);
  std::optional<std::string> load();

  // One step of a record's life; false when the record is gone.
  BackendResult<bool> advance(ReplicaRecord& record);
  BackendStatus start_or_find(ReplicaRecord& record);
  BackendStatus start_process(ReplicaRecord& record, const LockFile& lock);
  BackendStatus note_end(ReplicaRecord& record);
  BackendStatus watch(ReplicaRecord& record);
  BackendStatus renew_leaf(const ReplicaRecord& record, Live& live);
  void renew_identity();
  ObservedReplica observe(const ReplicaRecord& record) const;

  std::optional<std::filesystem::path> binary_of(const std::string& image, std::string& why) const;
  BackendStatus write_files(const ReplicaRecord& record, const RelayClusterSpec& spec);
  BackendStatus write_leaf(const ReplicaRecord& record);
  double jitter(const std::string& uid) const;

  BackendStatus save(ReplicaRecord& stored, const ReplicaRecord& changed);
  BackendResult<ReplicaRecord*> find(const std::string& name, const std::string& uid);
  // Gives an order to the replica's Admin service: `call` takes the client and returns its result.
  template <class Call>
  BackendStatus order(const std::string& uid, Call call);
  BackendStatus write_endpoints(const Endpoints& endpoints);

  const LocalOptions options_;
  const Subnet subnet_;
  ReplicaStore store_;
  RelayClusterSpec spec_;
  std::mt19937_64 random_;
  std::map<std::string, ReplicaRecord> records_;  // by name
  std::map<std::string, Live> live_;              // by name
  Endpoints endpoints_;
  AdminIdentity identity_;
  std::optional<CertificateInfo> identity_info_;
  std::string written_status_;
};

}  // namespace fairlead::op
