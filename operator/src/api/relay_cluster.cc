#include "api/relay_cluster.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "api/field_reader.h"
#include "api/node.h"
#include "api/sha256.h"
#include "api/spec_schema.h"

namespace fairlead::op {
namespace {

using nlohmann::json;

// Members of metadata that are Kubernetes' own and mean nothing here.
constexpr std::string_view kForeignMetadata[] = {
    "labels",          "annotations", "creationTimestamp", "deletionTimestamp",
    "managedFields",   "finalizers",  "ownerReferences",   "deletionGracePeriodSeconds",
    "resourceVersion", "selfLink",    "generateName"};

void read_fixed(FieldReader& reader, std::string_view key, std::string_view expected) {
  std::string text;
  reader.text(key, text);
  const Node* node = reader.take(key);
  if (node == nullptr) {
    reader.fail_here(std::string(key) + " is missing, it must be " + std::string(expected));
  } else if (node->kind == Node::Kind::kString && text != expected) {
    reader.fail(*node, key, "must be " + std::string(expected) + ", not " + describe(*node));
  }
}

void read_metadata(FieldReader reader, RelayCluster& cluster) {
  reader.text("name", cluster.name);
  const Node* name = reader.take("name");
  if (name == nullptr) {
    reader.fail_here("name is missing");
  } else if (name->kind == Node::Kind::kString) {
    if (const auto wrong = refuse_cluster_name(cluster.name)) reader.fail(*name, "name", *wrong);
  }
  reader.text("namespace", cluster.namespace_, 63);
  reader.text("uid", cluster.uid, 64);
  if (const Node* generation = reader.take("generation")) {
    if (generation->kind == Node::Kind::kInteger) {
      cluster.generation = generation->integer;
    } else {
      reader.fail(*generation, "generation", "must be an integer");
    }
  }
  for (const std::string_view key : kForeignMetadata) reader.ignore(key);
  reader.finish();
}

ParsedCluster read_document(const std::optional<Node>& root, const NodeError& syntax) {
  ParsedCluster parsed;
  if (!root) {
    parsed.errors.push_back({"", syntax.message, syntax.line, syntax.column});
    return parsed;
  }
  RelayCluster cluster;
  FieldReader reader(&*root, "", parsed.errors);
  if (root->kind == Node::Kind::kNull) {
    parsed.errors.push_back({"", "the document is empty", 0, 0});
    return parsed;
  }
  if (root->kind != Node::Kind::kMap) return parsed;
  read_fixed(reader, "apiVersion", kApiVersion);
  read_fixed(reader, "kind", kKind);
  read_metadata(reader.section("metadata"), cluster);
  if (reader.take("spec") == nullptr) reader.fail_here("spec is missing");
  read_spec(reader.section("spec"), cluster.spec);
  reader.ignore("status");
  reader.finish();
  std::stable_sort(parsed.errors.begin(), parsed.errors.end(),
                   [](const FieldError& a, const FieldError& b) {
                     return std::tie(a.line, a.column) < std::tie(b.line, b.column);
                   });
  if (parsed.errors.empty()) parsed.cluster = std::move(cluster);
  return parsed;
}

json port_range_of(const VisitorsSpec& visitors) {
  if (!visitors.tcp_port_range) return "";
  return std::to_string(visitors.tcp_port_range->first) + "-" +
         std::to_string(visitors.tcp_port_range->second);
}

}  // namespace

std::string to_string(const FieldError& error) {
  std::string text = error.path.empty() ? error.message : error.path + ": " + error.message;
  if (error.line > 0) {
    text +=
        " (line " + std::to_string(error.line) + ", column " + std::to_string(error.column) + ")";
  }
  return text;
}

ParsedCluster parse_relay_cluster_yaml(std::string_view text) {
  NodeError error;
  return read_document(parse_yaml(text, error), error);
}

ParsedCluster parse_relay_cluster_json(std::string_view text) {
  NodeError error;
  return read_document(parse_json(text, error), error);
}

std::string render_intent(const RelayClusterSpec& spec) {
  const RedisSpec& redis = spec.mailbox.redis;
  json password = json::object();
  if (!redis.password_secret_name.empty()) {
    password = {{"name", redis.password_secret_name}, {"key", redis.password_secret_key}};
  }
  const json intent = {
      {"image", spec.image},
      {"link", {{"windowMaxKiB", spec.link.window_max_kib}, {"memoryMiB", spec.link.memory_mib}}},
      {"peerLink", {{"liveness", spec.peer_link.liveness}, {"poolSize", spec.peer_link.pool_size}}},
      {"visitors",
       {{"domain", spec.visitors.domain},
        {"http", spec.visitors.http},
        {"tlsSecretName", spec.visitors.tls_secret_name},
        {"tcpPortRange", port_range_of(spec.visitors)},
        {"trustedProxies", spec.visitors.trusted_proxies}}},
      {"mailbox",
       {{"redis",
         {{"address", redis.address}, {"passwordSecretRef", password}, {"tls", redis.tls}}}}},
      {"podTemplate", json::parse(spec.pod_template)},
      {"restartedAt", spec.rollout.restarted_at},
      {"authSecretName", spec.agents.auth_secret_name},
  };
  return intent.dump();
}

std::string revision_of(std::string_view intent) {
  return sha256_hex(intent).substr(0, 8);
}

std::optional<RelayClusterSpec> spec_at_revision(const RelayClusterSpec& live,
                                                 std::string_view intent, std::string& error) {
  NodeError syntax;
  const std::optional<Node> root = parse_json(intent, syntax);
  if (!root) {
    error = "stored configuration: " + syntax.message;
    return std::nullopt;
  }
  RelayClusterSpec spec = live;
  spec.image.clear();
  spec.peer_link = {};
  spec.link = {};
  spec.visitors = {};
  spec.mailbox = {};
  spec.pod_template = "{}";
  spec.rollout.restarted_at.clear();
  spec.agents.auth_secret_name.clear();
  std::vector<FieldError> errors;
  read_intent(FieldReader(&*root, "", errors), spec);
  if (!errors.empty()) {
    error = "stored configuration: " + to_string(errors.front());
    return std::nullopt;
  }
  return spec;
}

std::vector<std::string> referenced_secrets(const RelayClusterSpec& spec) {
  std::vector<std::string> names;
  for (const std::string* name : {&spec.agents.auth_secret_name, &spec.visitors.tls_secret_name,
                                  &spec.mailbox.redis.password_secret_name}) {
    if (!name->empty()) names.push_back(*name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace fairlead::op
