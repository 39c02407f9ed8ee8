#include "api/spec_schema.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "fairlead/link/liveness.h"

namespace fairlead::op {
namespace {

bool is_lower_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// A registry reference with a tag or a digest. Path parts are checked too: a backend that maps an
// image to a folder must not be led out of it.
bool is_image(std::string_view image) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@";
  if (image.find_first_not_of(kAllowed) != std::string_view::npos) return false;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(image.find('/', begin), image.size());
    if (begin == end || image[begin] == '.' || image[begin] == ':') return false;
    if (end == image.size()) break;
    begin = end + 1;
  }
  const std::size_t mark = image.find_first_of(":@", begin);
  return mark != std::string_view::npos && mark + 1 < image.size();
}

bool is_domain(std::string_view domain) {
  if (domain.empty()) return false;
  char before = '.';
  for (const char c : domain) {
    const bool edge = c == '.' || c == '-';
    if (!edge && !is_lower_alnum(c)) return false;
    if (edge && (before == '.' || (before == '-' && c == '.'))) return false;
    before = c;
  }
  return is_lower_alnum(before);
}

bool is_cidr(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string address(text.substr(0, slash));
  const std::optional<int> bits = parse_number(text.substr(slash + 1));
  unsigned char buffer[16];
  if (!bits) return false;
  if (::inet_pton(AF_INET, address.c_str(), buffer) == 1) return *bits <= 32;
  return ::inet_pton(AF_INET6, address.c_str(), buffer) == 1 && *bits <= 128;
}

void read_peer_link(FieldReader reader, PeerLinkSpec& out) {
  std::string liveness;
  reader.text("liveness", liveness);
  if (!liveness.empty()) {
    std::string error;
    if (const auto parsed = link::parse_liveness(liveness, error)) {
      // One spelling for one meaning: two that differ in spelling only are the same revision.
      out.liveness = link::to_string(*parsed);
    } else {
      reader.fail(*reader.take("liveness"), "liveness", error);
    }
  }
  reader.integer("poolSize", 1, 16, out.pool_size);
  reader.finish();
}

void read_link(FieldReader reader, LinkSpec& out) {
  reader.integer("windowMaxKiB", 64, 65536, out.window_max_kib);
  reader.integer("memoryMiB", 16, 65536, out.memory_mib);
  reader.finish();
}

void read_port_range(FieldReader& reader, VisitorsSpec& out) {
  const std::string key = "tcpPortRange";
  std::string text;
  reader.text(key, text);
  if (text.empty()) return;
  const std::size_t dash = text.find('-');
  const auto first = parse_number(std::string_view(text).substr(0, dash));
  const auto last = dash == std::string::npos
                        ? std::nullopt
                        : parse_number(std::string_view(text).substr(dash + 1));
  const bool fine =
      first && last && *first >= 1024 && *first <= *last && *last <= 65535 && *last - *first < 100;
  if (!fine) {
    reader.fail(*reader.take(key), key,
                "must be \"first-last\" with at most 100 ports from 1024 to 65535, such as "
                "\"20000-20099\", not \"" +
                    text + "\"");
    return;
  }
  out.tcp_port_range = {static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

void read_visitors(FieldReader reader, VisitorsSpec& out) {
  reader.text("domain", out.domain);
  if (!is_domain(out.domain)) {
    reader.fail(*reader.take("domain"), "domain",
                "must be a DNS name in lower case, such as \"relay.example.org\"");
  }
  reader.boolean("http", out.http);
  reader.text("tlsSecretName", out.tls_secret_name);
  read_port_range(reader, out);
  reader.texts("trustedProxies", out.trusted_proxies, 64);
  for (std::size_t i = 0; i < out.trusted_proxies.size(); ++i) {
    if (is_cidr(out.trusted_proxies[i])) continue;
    reader.fail(reader.take("trustedProxies")->items[i],
                "trustedProxies[" + std::to_string(i) + "]",
                "must be a network such as \"10.0.0.0/8\" or \"fd00::/8\"");
  }
  reader.finish();
}

void read_mailbox(FieldReader reader, MailboxSpec& out) {
  FieldReader redis = reader.section("redis");
  redis.text("address", out.redis.address);
  redis.boolean("tls", out.redis.tls);
  FieldReader secret = redis.section("passwordSecretRef");
  secret.text("name", out.redis.password_secret_name);
  secret.text("key", out.redis.password_secret_key);
  if (out.redis.password_secret_name.empty() != out.redis.password_secret_key.empty()) {
    secret.fail_here("must have both a name and a key, or be empty");
  }
  secret.finish();
  redis.finish();
  reader.finish();
}

// Members are Kubernetes' own and go to the pod as they are; only their outer shape is checked
// here.
void read_pod_template(FieldReader reader, const Node* node, std::string& out) {
  constexpr std::string_view kMaps[] = {"labels", "annotations", "resources", "nodeSelector",
                                        "affinity"};
  constexpr std::string_view kLists[] = {"tolerations", "topologySpreadConstraints",
                                         "imagePullSecrets", "extraEnv"};
  nlohmann::json members = nlohmann::json::object();
  const auto read = [&](std::string_view key, Node::Kind kind, const char* what) {
    const Node* member = reader.take(key);
    if (member == nullptr) return;
    if (member->kind != kind) {
      reader.fail(*member, key, std::string("must be ") + what + ", not " + describe(*member));
    } else if (!member->entries.empty() || !member->items.empty() || !member->text.empty()) {
      members[std::string(key)] = to_json(*member);
    }
  };
  for (const std::string_view key : kMaps) read(key, Node::Kind::kMap, "a map");
  for (const std::string_view key : kLists) read(key, Node::Kind::kList, "a list");
  read("priorityClassName", Node::Kind::kString, "a string");
  reader.finish();
  if (node != nullptr) out = members.dump();
}

void read_agents(FieldReader reader, AgentsSpec& out) {
  reader.text("minVersion", out.min_version, 64);
  reader.integer("homes", 1, 8, out.homes);
  reader.text("authSecretName", out.auth_secret_name);
  reader.finish();
}

void read_rollout(FieldReader reader, RolloutSpec& out) {
  reader.integer("maxSurge", 0, 100, out.max_surge);
  reader.integer("maxUnavailable", 0, 100, out.max_unavailable);
  reader.boolean("paused", out.paused);
  reader.seconds("minReadySeconds", 0, 3600, out.min_ready);
  reader.seconds("progressDeadlineSeconds", 10, 86400, out.progress_deadline);
  reader.text("restartedAt", out.restarted_at, 64);
  if (out.max_surge == 0 && out.max_unavailable == 0) {
    reader.fail_here(
        "maxSurge and maxUnavailable must not both be 0: no replica could be replaced");
  }
  if (out.min_ready >= out.progress_deadline) {
    reader.fail_here("progressDeadlineSeconds must be more than minReadySeconds");
  }
  reader.finish();
}

void read_drain(FieldReader reader, DrainSpec& out) {
  reader.seconds("timeoutSeconds", 1, 86400, out.timeout);
  reader.seconds("endpointDelaySeconds", 0, 600, out.endpoint_delay);
  reader.integer("maxDraining", 0, 1000, out.max_draining);
  if (out.endpoint_delay >= out.timeout) {
    reader.fail_here("endpointDelaySeconds must be less than timeoutSeconds");
  }
  reader.finish();
}

void read_service(FieldReader reader, ServiceSpec& out) {
  using Type = FieldReader::Name<ServiceType>;
  using Policy = FieldReader::Name<TrafficPolicy>;
  constexpr Type kTypes[] = {{"ClusterIP", ServiceType::kClusterIp},
                             {"NodePort", ServiceType::kNodePort},
                             {"LoadBalancer", ServiceType::kLoadBalancer}};
  constexpr Policy kPolicies[] = {{"Cluster", TrafficPolicy::kCluster},
                                  {"Local", TrafficPolicy::kLocal}};
  reader.choice("type", kTypes, out.type);
  reader.text_map("annotations", out.annotations);
  reader.choice("externalTrafficPolicy", kPolicies, out.external_traffic_policy);
  reader.finish();
}

void read_image(FieldReader& reader, std::string& out) {
  reader.text("image", out);
  if (is_image(out)) return;
  const std::string wrong =
      "must be an image with a tag or a digest, such as \"registry/fairlead:1.2\"";
  const Node* node = reader.take("image");
  if (node == nullptr) return reader.fail_here("image " + wrong);
  reader.fail(*node, "image", wrong);
}

}  // namespace

void read_spec(FieldReader reader, RelayClusterSpec& spec) {
  constexpr FieldReader::Name<DeletionPolicy> kPolicies[] = {
      {"Drain", DeletionPolicy::kDrain}, {"DrainFirst", DeletionPolicy::kDrainFirst}};
  reader.integer("replicas", 0, 1000, spec.replicas);
  read_image(reader, spec.image);
  read_peer_link(reader.section("peerLink"), spec.peer_link);
  read_link(reader.section("link"), spec.link);
  read_agents(reader.section("agents"), spec.agents);
  read_visitors(reader.section("visitors"), spec.visitors);
  read_mailbox(reader.section("mailbox"), spec.mailbox);
  read_rollout(reader.section("rollout"), spec.rollout);
  read_drain(reader.section("drain"), spec.drain);
  read_service(reader.section("service"), spec.service);
  FieldReader certificates = reader.section("certificates");
  certificates.integer("leafDays", 1, 365, spec.certificates.leaf_days);
  certificates.finish();
  read_pod_template(reader.section("podTemplate"), reader.take("podTemplate"), spec.pod_template);
  reader.choice("deletionPolicy", kPolicies, spec.deletion_policy);
  reader.finish();
}

void read_intent(FieldReader reader, RelayClusterSpec& spec) {
  read_image(reader, spec.image);
  read_peer_link(reader.section("peerLink"), spec.peer_link);
  read_link(reader.section("link"), spec.link);
  read_visitors(reader.section("visitors"), spec.visitors);
  read_mailbox(reader.section("mailbox"), spec.mailbox);
  read_pod_template(reader.section("podTemplate"), reader.take("podTemplate"), spec.pod_template);
  reader.text("restartedAt", spec.rollout.restarted_at, 64);
  reader.text("authSecretName", spec.agents.auth_secret_name);
  reader.finish();
}

std::optional<std::string> refuse_cluster_name(std::string_view name) {
  const bool letters =
      std::all_of(name.begin(), name.end(), [](char c) { return c == '-' || is_lower_alnum(c); });
  const bool fine = !name.empty() && name.size() <= 40 && letters && name.front() >= 'a' &&
                    name.front() <= 'z' && name.back() != '-';
  if (fine) return std::nullopt;
  return "must be 1 to 40 characters of a-z, 0-9 and \"-\", begin with a letter and not end with "
         "\"-\", not \"" +
         std::string(name.substr(0, 80)) + "\"";
}

}  // namespace fairlead::op
