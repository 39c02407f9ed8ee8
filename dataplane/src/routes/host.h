// Host names as visitors send them and as tokens list them. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fairlead::dataplane {

// A whole name without its trailing dot, and one label of it, in bytes.
inline constexpr std::size_t kMaxHost = 253;
inline constexpr std::size_t kMaxLabel = 63;

struct HostPort {
  // Lower case; an IPv6 address in brackets, in its shortest textual form.
  std::string host;
  // As sent; nothing when absent or empty ("web:").
  std::optional<std::uint16_t> port;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Reads a Host header or the authority of an absolute target. ASCII case is folded, the port split
// off and one trailing dot dropped. nullopt when it is not a host: empty, an empty label, more than
// one trailing dot, a label over kMaxLabel or a name over kMaxHost bytes, a byte other than
// letters, digits, '-', '_' and '.', user information, a malformed [v6] address (zones included) or
// port.
std::optional<HostPort> parse_host(std::string_view text);

// One label of a name that may be claimed: lower-case letters, digits and '-', not at its ends, 1
// to kMaxLabel bytes.
bool is_label(std::string_view text);
// Two or more labels joined by dots, at most kMaxHost bytes.
bool is_full_host(std::string_view text);

}  // namespace fairlead::dataplane
