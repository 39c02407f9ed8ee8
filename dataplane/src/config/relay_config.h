// The configuration of one relay replica: a YAML file into a checked value, and back.
//
// Every key is typed and bounded here, an unknown or repeated one is an error, and all errors of a
// file are reported together. Parsing reads no file but its argument's text and asks no clock,
// environment or resolver.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/cidr_set.h"
#include "fairlead/link/liveness.h"
#include "routes/ip_address.h"

namespace fairlead::dataplane {

// Bounds, each inclusive.
inline constexpr std::size_t kMaxUid = 64;   // letters, digits, '-', '_', '.'
inline constexpr std::size_t kMaxName = 63;  // lower-case letters, digits, '-'
inline constexpr std::uint32_t kMinHomes = 1, kMaxHomes = 8;
inline constexpr std::uint32_t kMinWindowKib = 64, kMaxWindowKib = 1 << 20;
inline constexpr std::uint32_t kMinMemoryMib = 16, kMaxMemoryMib = 1 << 20;
inline constexpr std::uint32_t kMinPoolSize = 1, kMaxPoolSize = 16;
inline constexpr std::chrono::seconds kMinDrainTimeout{1}, kMaxDrainTimeout{7 * 24 * 3600};
inline constexpr std::chrono::seconds kMinEndpointDelay{0}, kMaxEndpointDelay{600};
inline constexpr std::size_t kMaxTrustedProxies = 1000;

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError };
enum class LogFormat : std::uint8_t { kText, kJson };

// Relative paths of a file are relative to its folder; here they are joined with it already.
struct RelayConfig {
  struct Identity {
    std::string uid;
    std::string name;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  // A port of 0 turns the listener off. Without an address of its own a listener has
  // `listen.address`, which TCP services listen on too.
  struct Listen {
    IpAddress address;  // default 0.0.0.0
    SocketAddress agents{{}, 7000};
    SocketAddress peers{{}, 7001};
    SocketAddress http{{}, 8080};
    SocketAddress admin{{}, 9443};
    SocketAddress health{{}, 9090};
    friend bool operator==(const Listen&, const Listen&) = default;
  };

  Identity cluster;  // required
  Identity replica;  // required
  Listen listen;
  std::filesystem::path tls_cert, tls_key, tls_ca;  // required; PEM
  std::filesystem::path tokens_file;                // required
  std::uint32_t homes = 2;                          // links that an agent is told to keep
  std::string min_version;                          // "" or "1.2.3": older agents are refused
  std::string domain;                               // required; `web` is served at web.<domain>
  CidrSet trusted_proxies;                          // default: nobody
  std::uint32_t window_max_kib = 16384;             // credit of one session
  std::uint32_t memory_mib = 256;                   // credit of all links together
  link::Liveness peer_liveness = link::kDefault;
  std::uint32_t pool_size = 4;  // links between two replicas
  std::chrono::seconds drain_timeout{3600};
  std::chrono::seconds endpoint_delay{5};
  std::filesystem::path state_dir;  // required
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;

  friend bool operator==(const RelayConfig&, const RelayConfig&) = default;
};

// Reads the text of `file`, whose name is used in errors and whose folder resolves relative paths.
// nullopt when anything is wrong, with one line per error in `errors`, in the order of the file:
//   relay.yaml:4:11: listen.agents: "70000" is not a port; allowed is ...
std::optional<RelayConfig> parse_relay_config(std::string_view text,
                                              const std::filesystem::path& file,
                                              std::vector<std::string>& errors);

// The whole configuration as YAML, defaults included. parse_relay_config() reads it back to an
// equal value when the paths are absolute.
std::string render(const RelayConfig& config);

}  // namespace fairlead::dataplane
