#include "routes/proxy_v2.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace fairlead::dataplane {
namespace {

using Status = ProxyParse::Status;

constexpr std::string_view kSignature{"\r\n\r\n\0\r\nQUIT\n", 12};
constexpr std::uint8_t kLocal = 0x20;  // version 2, command LOCAL
constexpr std::uint8_t kProxy = 0x21;  // version 2, command PROXY
constexpr std::uint8_t kUnspecified = 0x00;
constexpr std::uint8_t kTcp4 = 0x11;
constexpr std::uint8_t kTcp6 = 0x21;
constexpr std::size_t kTcp4Size = 12;
constexpr std::size_t kTcp6Size = 36;

ProxyParse bad(std::string_view error) {
  return {.status = Status::kBad, .error = error};
}

std::uint16_t read_u16(const std::uint8_t* at) {
  return static_cast<std::uint16_t>(at[0] << 8 | at[1]);
}

template <std::size_t N>
std::array<std::uint8_t, N> read_array(const std::uint8_t* at) {
  std::array<std::uint8_t, N> bytes{};
  std::copy_n(at, N, bytes.begin());
  return bytes;
}

void append_u16(std::string& out, std::size_t value) {
  out.push_back(static_cast<char>(value >> 8));
  out.push_back(static_cast<char>(value & 0xff));
}

void append_ip(std::string& out, const IpAddress& ip, bool as_v6) {
  if (as_v6 && ip.is_v4()) out.append(10, '\0').append(2, '\xff');
  out.append(reinterpret_cast<const char*>(ip.data()), ip.size());
}

std::string preamble(std::uint8_t command, std::uint8_t family, std::size_t length) {
  std::string out(kSignature);
  out.push_back(static_cast<char>(command));
  out.push_back(static_cast<char>(family));
  append_u16(out, length);
  return out;
}

std::optional<ProxyEndpoints> read_endpoints(std::uint8_t family, const std::uint8_t* at) {
  if (family == kTcp4) {
    return ProxyEndpoints{{IpAddress::v4(read_array<4>(at)), read_u16(at + 8)},
                          {IpAddress::v4(read_array<4>(at + 4)), read_u16(at + 10)}};
  }
  return ProxyEndpoints{{IpAddress::v6(read_array<16>(at)), read_u16(at + 32)},
                        {IpAddress::v6(read_array<16>(at + 16)), read_u16(at + 34)}};
}

}  // namespace

ProxyParse parse_proxy_v2(std::span<const std::byte> received) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(received.data());
  const std::size_t size = received.size();
  const std::size_t compared = std::min(size, kSignature.size());
  if (compared > 0 && std::memcmp(bytes, kSignature.data(), compared) != 0) {
    return {.status = Status::kNotProxy};
  }
  // Each byte is judged as soon as it is there, so that a bad header is not waited for.
  if (size <= 12) return {};
  const std::uint8_t command = bytes[12];
  if (command >> 4 != 2) return bad("PROXY header of another version; allowed is version 2");
  if (command != kLocal && command != kProxy) {
    return bad("unknown PROXY command; allowed are LOCAL and PROXY");
  }
  if (size < kProxyPreamble) return {};
  const std::size_t length = read_u16(bytes + 14);
  if (length > kMaxProxyHeader - kProxyPreamble) {
    return bad("PROXY header is longer than 536 bytes");
  }
  const std::uint8_t family = bytes[13];
  const bool has_addresses = command == kProxy && family != kUnspecified;
  if (has_addresses) {
    if (family != kTcp4 && family != kTcp6) {
      return bad("unsupported PROXY address family; allowed is TCP over IPv4 or IPv6");
    }
    if (length < (family == kTcp4 ? kTcp4Size : kTcp6Size)) {
      return bad("PROXY header is too short for its addresses");
    }
  }
  if (size < kProxyPreamble + length) return {};
  ProxyParse parse{.status = Status::kHeader, .consumed = kProxyPreamble + length};
  if (has_addresses) parse.endpoints = read_endpoints(family, bytes + kProxyPreamble);
  return parse;
}

std::string encode_proxy_v2(const ProxyEndpoints& endpoints) {
  const bool as_v6 = !endpoints.source.ip.is_v4() || !endpoints.destination.ip.is_v4();
  std::string out = preamble(kProxy, as_v6 ? kTcp6 : kTcp4, as_v6 ? kTcp6Size : kTcp4Size);
  append_ip(out, endpoints.source.ip, as_v6);
  append_ip(out, endpoints.destination.ip, as_v6);
  append_u16(out, endpoints.source.port);
  append_u16(out, endpoints.destination.port);
  return out;
}

std::string encode_proxy_v2_local() {
  return preamble(kLocal, kUnspecified, 0);
}

}  // namespace fairlead::dataplane
