// Metadata of OPEN and ACCEPT as checked values. What a peer sends is turned into these here and
// nowhere else.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "fairlead/link/types.h"
#include "visit/visit_id.h"

namespace fairlead::dataplane {

inline constexpr std::size_t kSecretSize = 32;
inline constexpr std::size_t kInstanceSize = 16;
inline constexpr std::size_t kMaxTenant = 64;    // bytes of text
inline constexpr std::size_t kMaxService = 253;  // a host name fits
inline constexpr std::size_t kMaxAgentId = 512;
inline constexpr std::size_t kMaxVisitor = 64;  // "[v6]:port"
inline constexpr std::size_t kMaxEdge = 253;
inline constexpr std::size_t kMaxBootId = 64;
inline constexpr std::chrono::milliseconds kMinHold{30'000};
inline constexpr std::chrono::milliseconds kMaxHold{600'000};

// The OPEN of one visit on one session.
struct VisitOpen {
  VisitId id;
  std::string secret;         // 32 bytes, drawn at random by the visitor end
  std::uint32_t attempt = 1;  // from 1
  std::chrono::milliseconds hold = kMinHold;
  std::string kind;  // "tcp" or "http"
  std::string tenant;
  std::string service;
  std::string agent_id;
  std::string instance;  // 16 bytes: the agent process that is meant
  std::string visitor;   // "1.2.3.4:5678"; empty when unknown
  std::string edge;      // the edge replica's name; empty when unknown

  bool operator==(const VisitOpen&) const = default;
};

// A session that carries control messages instead of a visit.
struct AgentControlOpen {
  bool operator==(const AgentControlOpen&) const = default;
};
struct PeerControlOpen {
  std::string boot_id;

  bool operator==(const PeerControlOpen&) const = default;
};

using OpenMeta = std::variant<AgentControlOpen, PeerControlOpen, VisitOpen>;

// The ACCEPT of a visit.
struct VisitAccept {
  std::uint64_t received = 0;  // what the agent end holds; 0 on a start
  std::uint64_t base = 0;      // offset 0 towards the visitor end; 0 on a start
  std::chrono::milliseconds hold = kMinHold;

  bool operator==(const VisitAccept&) const = default;
};

// Both encode what the parsers take back, in at most link::kMaxMeta bytes; values beyond the limits
// above are a programmer's error.
link::Slice encode_open(const OpenMeta& open);
link::Slice encode_accept(const VisitAccept& accept);

// Nothing when the bytes are not an acceptable message; then `error` says which field, what it has
// and what is allowed. Answer such an OPEN with kProtocol on both halves.
std::optional<OpenMeta> parse_open(link::Bytes meta, std::string& error);
// Likewise for an ACCEPT. A start is answered with received = base = 0 and not done.
std::optional<VisitAccept> parse_accept(link::Bytes meta, std::string& error);

}  // namespace fairlead::dataplane
