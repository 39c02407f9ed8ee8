#include "routes/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace fairlead::dataplane {

IpAddress IpAddress::v4(const std::array<std::uint8_t, 4>& bytes) {
  IpAddress address;
  std::copy(bytes.begin(), bytes.end(), address.bytes_.begin());
  return address;
}

IpAddress IpAddress::v6(const std::array<std::uint8_t, 16>& bytes) {
  static constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) {
    return v4({bytes[12], bytes[13], bytes[14], bytes[15]});
  }
  IpAddress address;
  address.family_ = Family::kV6;
  address.bytes_ = bytes;
  return address;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (text.empty() || text.size() >= INET6_ADDRSTRLEN) return std::nullopt;
  // An embedded NUL would end the C string early and make "1.2.3.4\0x" an address.
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string copy(text);
  std::array<std::uint8_t, 4> four{};
  if (inet_pton(AF_INET, copy.c_str(), four.data()) == 1) return v4(four);
  std::array<std::uint8_t, 16> sixteen{};
  if (inet_pton(AF_INET6, copy.c_str(), sixteen.data()) == 1) return v6(sixteen);
  return std::nullopt;
}

std::string to_string(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(address.is_v4() ? AF_INET : AF_INET6, address.data(), text.data(), text.size());
  return text.data();
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > 65535)
    return std::nullopt;
  return static_cast<std::uint16_t>(value);
}

std::optional<SocketAddress> SocketAddress::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  // A bare IPv6 address has colons of its own, so only brackets tell its port.
  const bool has_colon = host.find(':') != std::string_view::npos;
  const auto ip = IpAddress::parse(host);
  const auto port = parse_port(text.substr(colon + 1));
  if (!ip || !port || bracketed != has_colon) return std::nullopt;
  return SocketAddress{*ip, *port};
}

std::string to_string(const SocketAddress& address) {
  const std::string ip = to_string(address.ip);
  return (address.ip.is_v4() ? ip : "[" + ip + "]") + ":" + std::to_string(address.port);
}

}  // namespace fairlead::dataplane
