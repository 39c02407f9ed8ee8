// Who may register which service: the agents' secret file, `tokens.yaml`.
//
//   tokens:
//     - tenant: acme                # 1 to 63 lower-case letters, digits, '-'
//       sha256: <64 hex digits>     # of the token; the token itself is nowhere on a relay
//       names: [web, "*.dev"]       # http services, see below
//       tcp: [{name: db, port: 20000}]
//
// A name in `names` is one of
//   web               one label: the host web.<visitors.domain>
//   shop.example.com  two or more labels: that host itself
//   *.dev             any host of exactly one label before ".dev" (x.dev, not x.y.dev, not dev)
//   *                 any name of one label
// An exact name goes before a wildcard, also when it belongs to another tenant, and no name or port
// may be listed by two tenants: so every name that can be claimed has exactly one tenant. Hosts
// under visitors.domain are listed by their label only.
//
// Deny by default: a name that is not listed cannot be claimed, and an empty file admits nobody.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fairlead::dataplane {

inline constexpr std::size_t kMaxTokens = 10'000;
inline constexpr std::size_t kMaxNamesPerToken = 1'000;
// Bytes of a token that an agent may present; a longer one is wrong without being hashed.
inline constexpr std::size_t kMaxTokenBytes = 1024;

struct TcpOwner {
  std::string tenant;
  std::string service;
  friend bool operator==(const TcpOwner&, const TcpOwner&) = default;
};

// Every name and port of all tokens and the one tenant each belongs to.
class Ownership {
 public:
  // The tenant that may claim an http name (a label or a full host, both lower case).
  std::optional<std::string_view> http_tenant(std::string_view name) const;
  // The entry of `names` that covers `name`: itself, its wildcard, or nothing.
  std::optional<std::string> covering(std::string_view name) const;
  const std::map<std::uint16_t, TcpOwner>& tcp() const { return tcp_; }

 private:
  friend class TokensReader;
  std::unordered_map<std::string, std::string> http_;  // entry of `names` -> tenant
  std::map<std::uint16_t, TcpOwner> tcp_;
};

// What one token permits.
class TokenGrant {
 public:
  const std::string& tenant() const { return tenant_; }
  // `kind` is "http" or "tcp" as in an agent's registration; of any other kind nothing is
  // permitted.
  bool may_claim(std::string_view kind, std::string_view name) const;
  // The port at which a tcp service of this token is reached.
  std::optional<std::uint16_t> tcp_port(std::string_view name) const;

 private:
  friend class TokensReader;
  std::string tenant_;
  std::vector<std::string> names_;
  std::map<std::string, std::uint16_t, std::less<>> tcp_;
  std::shared_ptr<const Ownership> ownership_;
};

// Immutable once parsed; may be read from any thread. A new file becomes a new value.
class Tokens {
 public:
  Tokens();  // admits nobody

  // `file` is for errors only, `domain` is visitors.domain. nullopt when anything is wrong, with
  // one line per error as parse_relay_config() writes them. No error shows a hash.
  static std::optional<Tokens> parse(std::string_view text, const std::filesystem::path& file,
                                     std::string_view domain, std::vector<std::string>& errors);

  // The grant of a token, or null. Takes the same time whichever entry fits, and however much of a
  // hash does. The pointer is good for as long as this value.
  const TokenGrant* authenticate(std::string_view token) const;

  const Ownership& ownership() const { return *ownership_; }
  std::size_t size() const { return entries_.size(); }

 private:
  friend class TokensReader;
  using Digest = std::array<std::uint8_t, 32>;
  struct Entry {
    Digest digest;
    TokenGrant grant;
  };

  std::vector<Entry> entries_;
  std::shared_ptr<const Ownership> ownership_;
};

}  // namespace fairlead::dataplane
