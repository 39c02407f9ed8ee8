// The state folder of one local cluster: who may use it, what the cluster is, its certificate
// authority, and the last RelayCluster text that was good.
//
//   operator.lock        held by the one operator that runs
//   cluster.json         UID, name, generation, subnet, address of the forwarder
//   ca.pem, ca.key       agents and visitors trust ca.pem
//   last-good.yaml       the RelayCluster in force
//   membership.json      what the mesh was last told
//   endpoints.json       what the forwarder is told; forwarder.* beside it
//   revisions/, replicas/
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "api/relay_cluster.h"
#include "local/address_pool.h"
#include "local/child_process.h"
#include "pki/certificate.h"

namespace fairlead::op {

struct ClusterRecord {
  std::string uid;   // random
  std::string name;  // metadata.name of the RelayCluster
  std::int64_t generation = 0;
  std::string subnet;  // CIDR of the replicas' addresses
  std::string listen;  // address of the forwarder
};

// 32 hex digits from the system's random source.
std::string random_uid();
Serial random_serial();

class ClusterState {
 public:
  // Makes the folder (mode 0700) where there is none and takes it for this process. nullptr with
  // `error` when another operator has it, or when it cannot be read.
  static std::unique_ptr<ClusterState> open(const std::filesystem::path& folder,
                                            std::string& error);

  const std::filesystem::path& folder() const { return folder_; }
  // nullopt until found() was called once for this folder.
  const std::optional<ClusterRecord>& record() const { return record_; }
  const Credential& ca() const { return ca_; }

  // Makes UID and CA of a new cluster. nullopt when done, else what failed.
  std::optional<std::string> found(const std::string& name, const std::string& subnet,
                                   const std::string& listen);

  // The spec of `text` is in force from now on; the generation goes up when it differs from the one
  // before. Durable when it returns.
  std::optional<std::string> accept(const std::string& text, const RelayCluster& cluster);
  // The text accepted last; nullopt when there is none.
  std::optional<std::string> last_good() const;

 private:
  ClusterState(std::filesystem::path folder, LockFile lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}
  std::optional<std::string> load();
  std::optional<std::string> save() const;

  std::filesystem::path folder_;
  LockFile lock_;
  std::optional<ClusterRecord> record_;
  Credential ca_;
};

}  // namespace fairlead::op
