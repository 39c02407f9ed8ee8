// The configuration file of a replica, as fairlead-relay reads it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "api/relay_cluster.h"

namespace fairlead::op {

// Ports of a replica: the same on every replica, each has its own address.
struct RelayPorts {
  std::uint16_t agents = 7000;
  std::uint16_t peers = 7001;
  std::uint16_t http = 8080;
  std::uint16_t admin = 9443;
  std::uint16_t health = 9090;
};

struct RelayFiles {
  std::filesystem::path folder;       // certificate, key, CA and state, by the names below
  std::filesystem::path tokens_file;  // may be outside
};
inline constexpr char kLeafFile[] = "leaf.pem";
inline constexpr char kKeyFile[] = "leaf.key";
inline constexpr char kCaFile[] = "ca.pem";
inline constexpr char kRelayConfigFile[] = "relay.yaml";

struct RelayIdentity {
  std::string cluster_uid;
  std::string cluster_name;
  std::string uid;
  std::string name;
  std::string address;
};

// YAML. `proxies` are the addresses of our own forwarder, trusted beside those of the spec. `spec`
// is that of the replica's revision.
std::string render_relay_config(const RelayIdentity& identity, const RelayClusterSpec& spec,
                                const RelayPorts& ports, const RelayFiles& files,
                                const std::vector<std::string>& proxies);

// Ports on which visitors and agents are served: by the forwarder, and by each replica behind it.
std::vector<std::uint16_t> service_ports(const RelayClusterSpec& spec, const RelayPorts& ports);
// All ports that must be free on a replica's address.
std::vector<std::uint16_t> replica_ports(const RelayClusterSpec& spec, const RelayPorts& ports);

}  // namespace fairlead::op
