// PROXY protocol version 2: the header in which a proxy tells who its client is. Version 1 (text)
// is not read. Standard library only; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "routes/ip_address.h"

namespace fairlead::dataplane {

// Bytes of a whole header that are accepted, TLVs included: what one TCP segment of the smallest
// IPv4 path carries. A longer header is bad, however well it is formed.
inline constexpr std::size_t kMaxProxyHeader = 536;
// Bytes of the fixed part in front of the addresses.
inline constexpr std::size_t kProxyPreamble = 16;

// Who is connected to whom, as the proxy saw it.
struct ProxyEndpoints {
  SocketAddress source;
  SocketAddress destination;
  friend bool operator==(const ProxyEndpoints&, const ProxyEndpoints&) = default;
};

struct ProxyParse {
  enum class Status {
    kNeedMore,  // a header's beginning: call again with at least one byte more
    kNotProxy,  // does not begin with the signature: the bytes are the client's own
    kBad,       // begins with the signature and is not usable: close the connection
    kHeader,    // `consumed` bytes are the header; the client's own follow
  };
  Status status = Status::kNeedMore;
  std::size_t consumed = 0;  // only for kHeader
  // Only for kHeader. Nothing for LOCAL (the proxy's own health check) and for an unspecified
  // family: the connection's own addresses stand.
  std::optional<ProxyEndpoints> endpoints;
  std::string_view error;  // only for kBad: what was wrong, what is accepted
};

// Looks at everything that a connection has received so far. Keeps no state: the caller collects at
// most kMaxProxyHeader bytes and asks again; within them the answer is never kNeedMore for good.
// Accepted are LOCAL and PROXY with an unspecified family or TCP over IPv4 or IPv6. TLVs are
// skipped unread.
ProxyParse parse_proxy_v2(std::span<const std::byte> received);

// A header without TLVs. Endpoints of different families are both written as IPv6 (IPv4 mapped).
std::string encode_proxy_v2(const ProxyEndpoints& endpoints);
// The header of a connection that stands for no client, such as a health check.
std::string encode_proxy_v2_local();

}  // namespace fairlead::dataplane
