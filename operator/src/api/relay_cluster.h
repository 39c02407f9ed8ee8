// RelayCluster (fairlead.dev/v1alpha1): what a user asks for.
//
// The text of a RelayCluster is read in two steps that share one schema: text -> Node (node.h,
// keeps line and column) -> RelayCluster. Only text that passes every check becomes a RelayCluster,
// so the rest of the operator never meets a value out of bounds. Everything here is pure; any
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fairlead::op {

inline constexpr std::string_view kApiVersion = "fairlead.dev/v1alpha1";
inline constexpr std::string_view kKind = "RelayCluster";

struct PeerLinkSpec {
  std::string liveness = "default";  // a preset or "interval=2s,timeout=4s": link::parse_liveness()
  int pool_size = 4;                 // 1..16 links per pair of replicas
  bool operator==(const PeerLinkSpec&) const = default;
};

struct LinkSpec {
  int window_max_kib = 16384;  // 64..65536: the most one session may have in flight
  int memory_mib = 256;        // 16..65536: what all links of a replica may buffer
  bool operator==(const LinkSpec&) const = default;
};

struct AgentsSpec {
  std::string min_version;       // "" admits every version
  int homes = 2;                 // 1..8 links of an agent to distinct replicas
  std::string auth_secret_name;  // "" : no agent is admitted
  bool operator==(const AgentsSpec&) const = default;
};

struct VisitorsSpec {
  std::string domain = "relay.localhost";  // a service `web` is web.<domain>
  bool http = true;                        // false turns the HTTP listener off
  std::string tls_secret_name;             // "" : no TLS listener for visitors
  // Inclusive; nullopt turns raw TCP services off. At most 100 ports, 1024 or higher.
  std::optional<std::pair<std::uint16_t, std::uint16_t>> tcp_port_range;
  std::vector<std::string> trusted_proxies;  // CIDRs that may send PROXY v2
  bool operator==(const VisitorsSpec&) const = default;
};

struct RedisSpec {
  std::string address;                                    // "" : no mailbox
  std::string password_secret_name, password_secret_key;  // both or none
  bool tls = false;
  bool operator==(const RedisSpec&) const = default;
};

struct MailboxSpec {
  RedisSpec redis;
  bool operator==(const MailboxSpec&) const = default;
};

struct RolloutSpec {
  int max_surge = 1;        // 0..100 replicas above `replicas`
  int max_unavailable = 0;  // 0..100 replicas below `replicas`; not 0 together with max_surge
  bool paused = false;      // holds back rollouts only: healing, scaling and running drains go on
  std::chrono::seconds min_ready{5};            // 0..3600
  std::chrono::seconds progress_deadline{600};  // 10..86400
  std::string restarted_at;                     // any change of this text is a new revision
  bool operator==(const RolloutSpec&) const = default;
};

struct DrainSpec {
  std::chrono::seconds timeout{3600};      // 1..86400: then what is left is reset and counted
  std::chrono::seconds endpoint_delay{5};  // 0..600: keeps accepting this long
  int max_draining = 0;                    // 0..1000; 0 means max(replicas, 1)
  bool operator==(const DrainSpec&) const = default;
};

enum class ServiceType { kClusterIp, kNodePort, kLoadBalancer };
enum class TrafficPolicy { kCluster, kLocal };

struct ServiceSpec {
  ServiceType type = ServiceType::kClusterIp;
  std::map<std::string, std::string> annotations;
  TrafficPolicy external_traffic_policy = TrafficPolicy::kCluster;
  bool operator==(const ServiceSpec&) const = default;
};

struct CertificatesSpec {
  int leaf_days = 30;  // 1..365
  bool operator==(const CertificatesSpec&) const = default;
};

enum class DeletionPolicy { kDrain, kDrainFirst };

struct RelayClusterSpec {
  int replicas = 3;  // 0..1000; 0 drains everything and is legal
  std::string image = "fairlead:dev";
  PeerLinkSpec peer_link;
  LinkSpec link;
  AgentsSpec agents;
  VisitorsSpec visitors;
  MailboxSpec mailbox;
  RolloutSpec rollout;
  DrainSpec drain;
  ServiceSpec service;
  CertificatesSpec certificates;
  // Canonical JSON (sorted keys, no spaces) of the podTemplate object; its members are Kubernetes'
  // own and are passed on as they are.
  std::string pod_template = "{}";
  DeletionPolicy deletion_policy = DeletionPolicy::kDrain;
  bool operator==(const RelayClusterSpec&) const = default;
};

struct RelayCluster {
  std::string name;  // DNS-1035 label of at most 40 characters
  std::string namespace_ = "default";
  std::string uid;              // "" in a file: the backend supplies it
  std::int64_t generation = 0;  // of the spec's text; 0 in a file: the backend supplies it
  RelayClusterSpec spec;
};

// One thing that is wrong with a text. `path` is as in "spec.rollout.maxSurge", with "[2]" for an
// item of a list; "" is the document. Line and column count from 1; 0 where the source has none.
struct FieldError {
  std::string path;
  std::string message;  // what is wrong and what is allowed
  int line = 0;
  int column = 0;
};
// "spec.rollout.maxSurge: must be an integer from 0 to 100, not -1 (line 7, column 15)"
std::string to_string(const FieldError& error);

// All errors of a text, in the order of the text; a RelayCluster only when there is none.
struct ParsedCluster {
  std::optional<RelayCluster> cluster;
  std::vector<FieldError> errors;
};
// A `status` member is allowed and ignored: status is output.
ParsedCluster parse_relay_cluster_yaml(std::string_view text);
ParsedCluster parse_relay_cluster_json(std::string_view text);

// --- revision: what makes two replicas interchangeable ---

// Canonical JSON of the fields that reach a replica when it is created: image, link, peerLink,
// visitors, mailbox, podTemplate, rollout.restartedAt, agents.authSecretName. A new field with its
// default value must not appear here, or an upgrade of the operator would roll every cluster.
std::string render_intent(const RelayClusterSpec& spec);

// First 8 hex digits of SHA-256 of an intent.
std::string revision_of(std::string_view intent);

// The spec that a replica of a stored revision is created from: the hashed fields out of `intent`,
// all others as they are in `live`. nullopt with `error` when the intent is not one of ours.
std::optional<RelayClusterSpec> spec_at_revision(const RelayClusterSpec& live,
                                                 std::string_view intent, std::string& error);

// Names of the Secrets that a replica of this spec needs, sorted, without "".
std::vector<std::string> referenced_secrets(const RelayClusterSpec& spec);

}  // namespace fairlead::op
