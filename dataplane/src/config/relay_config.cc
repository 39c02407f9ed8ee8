#include "config/relay_config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "config/yaml_reader.h"
#include "routes/host.h"

namespace fairlead::dataplane {
namespace {

using Presence = YamlSection::Presence;

constexpr std::array<std::string_view, 5> kLevels{"trace", "debug", "info", "warn", "error"};
constexpr std::array<std::string_view, 2> kFormats{"text", "json"};

struct Listener {
  std::string_view key;
  SocketAddress RelayConfig::Listen::*address;
};
constexpr std::array<Listener, 5> kListeners{{{"agents", &RelayConfig::Listen::agents},
                                              {"peers", &RelayConfig::Listen::peers},
                                              {"http", &RelayConfig::Listen::http},
                                              {"admin", &RelayConfig::Listen::admin},
                                              {"health", &RelayConfig::Listen::health}}};

bool is_uid(std::string_view text) {
  return !text.empty() && text.size() <= kMaxUid &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

bool is_version(std::string_view text) {
  for (int part = 0; part < 3; ++part) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (part == 2) return text.empty();
    if (!text.starts_with('.')) return false;
    text.remove_prefix(1);
  }
  return false;
}

class Reader {
 public:
  Reader(std::filesystem::path folder, Problems& problems)
      : folder_(std::move(folder)), problems_(problems) {}

  RelayConfig read(const YAML::Node& root) {
    YamlSection top({root, ""}, problems_);
    section(top, "cluster", Presence::kRequired,
            [&](YamlSection& part) { identity(part, config_.cluster); });
    section(top, "replica", Presence::kRequired,
            [&](YamlSection& part) { identity(part, config_.replica); });
    section(top, "listen", Presence::kOptional, [&](YamlSection& part) { listen(part); });
    section(top, "tls", Presence::kRequired, [&](YamlSection& part) {
      path(part, "cert", config_.tls_cert);
      path(part, "key", config_.tls_key);
      path(part, "ca", config_.tls_ca);
    });
    section(top, "agents", Presence::kRequired, [&](YamlSection& part) { agents(part); });
    section(top, "visitors", Presence::kRequired, [&](YamlSection& part) { visitors(part); });
    section(top, "link", Presence::kOptional, [&](YamlSection& part) {
      small_number(part, "window_max_kib", kMinWindowKib, kMaxWindowKib, config_.window_max_kib);
      small_number(part, "memory_mib", kMinMemoryMib, kMaxMemoryMib, config_.memory_mib);
    });
    section(top, "peer_link", Presence::kOptional, [&](YamlSection& part) { peer_link(part); });
    section(top, "drain", Presence::kOptional, [&](YamlSection& part) {
      seconds(part, "timeout_seconds", kMinDrainTimeout, kMaxDrainTimeout, config_.drain_timeout);
      seconds(part, "endpoint_delay_seconds", kMinEndpointDelay, kMaxEndpointDelay,
              config_.endpoint_delay);
    });
    path(top, "state_dir", config_.state_dir);
    section(top, "log", Presence::kOptional, [&](YamlSection& part) { log(part); });
    top.finish();
    return std::move(config_);
  }

 private:
  template <typename Body>
  void section(YamlSection& top, std::string_view key, Presence presence, Body body) {
    const auto value = top.find(key, presence);
    if (!value) return;
    YamlSection part(*value, problems_);
    body(part);
    part.finish();
  }

  void identity(YamlSection& part, RelayConfig::Identity& out) {
    checked_text(part, "uid", Presence::kRequired, out.uid, is_uid,
                 "1 to 64 letters, digits, '-', '_' or '.'");
    checked_text(part, "name", Presence::kRequired, out.name, is_label,
                 "1 to 63 lower-case letters, digits or '-', not beginning or ending with '-'");
  }

  void listen(YamlSection& part) {
    if (const auto value = part.find("address", Presence::kOptional)) {
      if (const auto text = read_text(*value, problems_)) {
        if (const auto ip = IpAddress::parse(*text)) {
          config_.listen.address = *ip;
        } else {
          refuse(*value, *text, "an IPv4 or IPv6 address such as 127.0.0.1 or ::");
        }
      }
    }
    std::array<YAML::Mark, kListeners.size()> marks;
    for (std::size_t i = 0; i < kListeners.size(); ++i) {
      SocketAddress& address = config_.listen.*kListeners[i].address;
      address.ip = config_.listen.address;
      marks[i] = listener(part, kListeners[i].key, address);
      for (std::size_t j = 0; j < i; ++j) {
        if (address.port == 0 || address != config_.listen.*kListeners[j].address) continue;
        problems_.add(marks[i], part.path_of(kListeners[i].key),
                      to_string(address) + " is also the address of " +
                          part.path_of(kListeners[j].key) + "; each listener needs its own");
      }
    }
  }

  YAML::Mark listener(YamlSection& part, std::string_view key, SocketAddress& out) {
    const auto value = part.find(key, Presence::kOptional);
    if (!value) return part.mark();
    const auto text = read_text(*value, problems_);
    if (!text) return value->node.Mark();
    if (const auto port = parse_port(*text)) {
      out.port = *port;
    } else if (const auto address = SocketAddress::parse(*text)) {
      out = *address;
    } else {
      refuse(*value, *text, "a port from 0 (off) to 65535, or address:port such as 127.0.0.1:7000");
    }
    return value->node.Mark();
  }

  void agents(YamlSection& part) {
    path(part, "tokens_file", config_.tokens_file);
    small_number(part, "homes", kMinHomes, kMaxHomes, config_.homes);
    checked_text(
        part, "min_version", Presence::kOptional, config_.min_version,
        [](std::string_view text) { return text.empty() || is_version(text); },
        "\"\" or a version such as 0.1.0");
  }

  void visitors(YamlSection& part) {
    checked_text(
        part, "domain", Presence::kRequired, config_.domain,
        [](std::string_view text) { return is_label(text) || is_full_host(text); },
        "a lower-case domain such as relay.example.com");
    const auto value = part.find("trusted_proxies", Presence::kOptional);
    if (!value) return;
    const std::vector<YamlValue> items = read_list(*value, problems_);
    if (items.size() > kMaxTrustedProxies) {
      problems_.add(value->node.Mark(), value->path,
                    "has more than " + std::to_string(kMaxTrustedProxies) + " ranges");
      return;
    }
    std::vector<Cidr> ranges;
    for (const YamlValue& item : items) {
      const auto text = read_text(item, problems_);
      if (!text) continue;
      std::string error;
      if (const auto cidr = Cidr::parse(*text, error)) {
        ranges.push_back(*cidr);
      } else {
        problems_.add(item.node.Mark(), item.path, error);
      }
    }
    config_.trusted_proxies = CidrSet(std::move(ranges));
  }

  void peer_link(YamlSection& part) {
    small_number(part, "pool_size", kMinPoolSize, kMaxPoolSize, config_.pool_size);
    const auto value = part.find("liveness", Presence::kOptional);
    if (!value) return;
    const auto text = read_text(*value, problems_);
    if (!text) return;
    std::string error;
    if (const auto liveness = link::parse_liveness(*text, error)) {
      config_.peer_liveness = *liveness;
    } else {
      problems_.add(value->node.Mark(), value->path, error);
    }
  }

  void log(YamlSection& part) {
    std::size_t index = 0;
    if (part.choice("level", kLevels, index)) config_.log_level = static_cast<LogLevel>(index);
    if (part.choice("format", kFormats, index)) config_.log_format = static_cast<LogFormat>(index);
  }

  template <typename Valid>
  void checked_text(YamlSection& part, std::string_view key, Presence presence, std::string& out,
                    Valid valid, std::string_view allowed) {
    const auto value = part.find(key, presence);
    if (!value) return;
    const auto text = read_text(*value, problems_);
    if (!text) return;
    if (valid(*text)) {
      out = *text;
    } else {
      refuse(*value, *text, allowed);
    }
  }

  void path(YamlSection& part, std::string_view key, std::filesystem::path& out) {
    std::string text;
    checked_text(
        part, key, Presence::kRequired, text,
        [](std::string_view value) {
          return !value.empty() && value.find('\0') == std::string_view::npos;
        },
        "the path of a file or folder");
    if (!text.empty()) out = (folder_ / text).lexically_normal();
  }

  void small_number(YamlSection& part, std::string_view key, std::uint32_t least,
                    std::uint32_t most, std::uint32_t& out) {
    std::uint64_t value = 0;
    if (part.number(key, Presence::kOptional, least, most, value))
      out = static_cast<std::uint32_t>(value);
  }

  void seconds(YamlSection& part, std::string_view key, std::chrono::seconds least,
               std::chrono::seconds most, std::chrono::seconds& out) {
    std::uint64_t value = 0;
    if (part.number(key, Presence::kOptional, static_cast<std::uint64_t>(least.count()),
                    static_cast<std::uint64_t>(most.count()), value)) {
      out = std::chrono::seconds(value);
    }
  }

  void refuse(const YamlValue& value, std::string_view text, std::string_view allowed) {
    problems_.add(value.node.Mark(), value.path,
                  in_quotes(text) + " is not allowed; allowed is " + std::string(allowed));
  }

  RelayConfig config_;
  const std::filesystem::path folder_;
  Problems& problems_;
};

}  // namespace

std::optional<RelayConfig> parse_relay_config(std::string_view text,
                                              const std::filesystem::path& file,
                                              std::vector<std::string>& errors) {
  Problems problems(file.string());
  std::optional<RelayConfig> config;
  if (const auto root = load_yaml(text, problems)) {
    config = Reader(file.parent_path(), problems).read(*root);
  }
  errors = problems.sorted();
  if (!errors.empty()) return std::nullopt;
  return config;
}

std::string render(const RelayConfig& config) {
  YAML::Emitter out;
  const auto pair = [&](std::string_view key, const auto& value) {
    out << YAML::Key << std::string(key) << YAML::Value << value;
  };
  // Quoted, so that a uid such as 12e3 stays the text that it is for every reader.
  const auto text = [&](std::string_view key, const std::string& value) {
    out << YAML::Key << std::string(key) << YAML::Value << YAML::DoubleQuoted << value;
  };
  const auto begin = [&](std::string_view key) {
    out << YAML::Key << std::string(key) << YAML::Value << YAML::BeginMap;
  };
  out << YAML::BeginMap;
  for (const auto& [key, identity] :
       {std::pair("cluster", &config.cluster), std::pair("replica", &config.replica)}) {
    begin(key);
    text("uid", identity->uid);
    text("name", identity->name);
    out << YAML::EndMap;
  }
  begin("listen");
  text("address", to_string(config.listen.address));
  for (const Listener& listener : kListeners) {
    text(listener.key, to_string(config.listen.*listener.address));
  }
  out << YAML::EndMap;
  begin("tls");
  text("cert", config.tls_cert.string());
  text("key", config.tls_key.string());
  text("ca", config.tls_ca.string());
  out << YAML::EndMap;
  begin("agents");
  text("tokens_file", config.tokens_file.string());
  pair("homes", config.homes);
  text("min_version", config.min_version);
  out << YAML::EndMap;
  begin("visitors");
  text("domain", config.domain);
  out << YAML::Key << "trusted_proxies" << YAML::Value << YAML::Flow << YAML::BeginSeq;
  for (const Cidr& range : config.trusted_proxies.ranges()) {
    out << YAML::DoubleQuoted << to_string(range);
  }
  out << YAML::EndSeq << YAML::EndMap;
  begin("link");
  pair("window_max_kib", config.window_max_kib);
  pair("memory_mib", config.memory_mib);
  out << YAML::EndMap;
  begin("peer_link");
  text("liveness", link::to_string(config.peer_liveness));
  pair("pool_size", config.pool_size);
  out << YAML::EndMap;
  begin("drain");
  pair("timeout_seconds", config.drain_timeout.count());
  pair("endpoint_delay_seconds", config.endpoint_delay.count());
  out << YAML::EndMap;
  text("state_dir", config.state_dir.string());
  begin("log");
  text("level", std::string(kLevels[static_cast<std::size_t>(config.log_level)]));
  text("format", std::string(kFormats[static_cast<std::size_t>(config.log_format)]));
  out << YAML::EndMap << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace fairlead::dataplane
