#include "local/relay_config.h"

#include <yaml-cpp/yaml.h>

namespace fairlead::op {
namespace {

// Double-quoted always: a name like "1e3" must stay text.
YAML::Emitter& text(YAML::Emitter& out, const char* key, const std::string& value) {
  return out << YAML::Key << key << YAML::Value << YAML::DoubleQuoted << value;
}

template <class T>
YAML::Emitter& number(YAML::Emitter& out, const char* key, T value) {
  return out << YAML::Key << key << YAML::Value << value;
}

YAML::Emitter& map(YAML::Emitter& out, const char* key) {
  return out << YAML::Key << key << YAML::Value << YAML::BeginMap;
}

void emit_identity(YAML::Emitter& out, const char* key, const std::string& uid,
                   const std::string& name) {
  map(out, key);
  text(out, "uid", uid);
  text(out, "name", name);
  out << YAML::EndMap;
}

void emit_listeners(YAML::Emitter& out, const RelayIdentity& identity, const RelayClusterSpec& spec,
                    const RelayPorts& ports) {
  map(out, "listen");
  text(out, "address", identity.address);
  number(out, "agents", ports.agents);
  number(out, "peers", ports.peers);
  number(out, "http", spec.visitors.http ? ports.http : 0);
  number(out, "admin", ports.admin);
  number(out, "health", ports.health);
  out << YAML::EndMap;
}

void emit_files(YAML::Emitter& out, const RelayClusterSpec& spec, const RelayFiles& files) {
  map(out, "tls");
  text(out, "cert", files.folder / kLeafFile);
  text(out, "key", files.folder / kKeyFile);
  text(out, "ca", files.folder / kCaFile);
  out << YAML::EndMap;
  map(out, "agents");
  text(out, "tokens_file", files.tokens_file);
  number(out, "homes", spec.agents.homes);
  text(out, "min_version", spec.agents.min_version);
  out << YAML::EndMap;
  text(out, "state_dir", files.folder / "state");
}

}  // namespace

std::string render_relay_config(const RelayIdentity& identity, const RelayClusterSpec& spec,
                                const RelayPorts& ports, const RelayFiles& files,
                                const std::vector<std::string>& proxies) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  emit_identity(out, "cluster", identity.cluster_uid, identity.cluster_name);
  emit_identity(out, "replica", identity.uid, identity.name);
  emit_listeners(out, identity, spec, ports);
  emit_files(out, spec, files);
  map(out, "visitors");
  text(out, "domain", spec.visitors.domain);
  out << YAML::Key << "trusted_proxies" << YAML::Value << YAML::Flow << YAML::BeginSeq;
  for (const std::string& proxy : proxies) out << YAML::DoubleQuoted << proxy;
  for (const std::string& proxy : spec.visitors.trusted_proxies) out << YAML::DoubleQuoted << proxy;
  out << YAML::EndSeq << YAML::EndMap;
  map(out, "link");
  number(out, "window_max_kib", spec.link.window_max_kib);
  number(out, "memory_mib", spec.link.memory_mib);
  out << YAML::EndMap;
  map(out, "peer_link");
  text(out, "liveness", spec.peer_link.liveness);
  number(out, "pool_size", spec.peer_link.pool_size);
  out << YAML::EndMap;
  map(out, "drain");
  number(out, "timeout_seconds", spec.drain.timeout.count());
  number(out, "endpoint_delay_seconds", spec.drain.endpoint_delay.count());
  out << YAML::EndMap;
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

std::vector<std::uint16_t> service_ports(const RelayClusterSpec& spec, const RelayPorts& ports) {
  std::vector<std::uint16_t> all = {ports.agents};
  if (spec.visitors.http) all.push_back(ports.http);
  if (spec.visitors.tcp_port_range) {
    const auto [first, last] = *spec.visitors.tcp_port_range;
    for (std::uint32_t port = first; port <= last; ++port) {
      all.push_back(static_cast<std::uint16_t>(port));
    }
  }
  return all;
}

std::vector<std::uint16_t> replica_ports(const RelayClusterSpec& spec, const RelayPorts& ports) {
  std::vector<std::uint16_t> all = service_ports(spec, ports);
  all.insert(all.end(), {ports.peers, ports.admin, ports.health});
  return all;
}

}  // namespace fairlead::op
