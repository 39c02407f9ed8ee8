// IPv4 and IPv6 addresses as values: parsed from text, compared, printed. No resolver, no sockets.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fairlead::dataplane {

// One address. An IPv4-mapped IPv6 address (::ffff:1.2.3.4) is the IPv4 address, so that a rule for
// 1.2.3.4 also holds for a visitor that came in by a dual-stack socket.
class IpAddress {
 public:
  enum class Family : std::uint8_t { kV4, kV6 };

  IpAddress() = default;  // 0.0.0.0
  static IpAddress v4(const std::array<std::uint8_t, 4>& bytes);
  static IpAddress v6(const std::array<std::uint8_t, 16>& bytes);
  // Textual form without brackets, port, zone or prefix; nullopt for anything else.
  static std::optional<IpAddress> parse(std::string_view text);

  Family family() const { return family_; }
  bool is_v4() const { return family_ == Family::kV4; }
  // Network byte order: 4 bytes for IPv4, 16 for IPv6.
  const std::uint8_t* data() const { return bytes_.data(); }
  std::size_t size() const { return is_v4() ? 4 : 16; }
  int bits() const { return static_cast<int>(size()) * 8; }

  auto operator<=>(const IpAddress&) const = default;

 private:
  Family family_ = Family::kV4;
  std::array<std::uint8_t, 16> bytes_{};  // IPv4 in the first four, the rest zero
};

// "10.0.0.1", "fe80::1".
std::string to_string(const IpAddress& address);

struct SocketAddress {
  IpAddress ip;
  std::uint16_t port = 0;

  // "1.2.3.4:80" or "[::1]:80"; the port is decimal, 0 to 65535, without sign or leading zeros.
  static std::optional<SocketAddress> parse(std::string_view text);
  auto operator<=>(const SocketAddress&) const = default;
};

// "10.0.0.1:80", "[fe80::1]:80". SocketAddress::parse() reads it back.
std::string to_string(const SocketAddress& address);

// A port number in decimal: 0 to 65535, no sign, no leading zeros, nothing else.
std::optional<std::uint16_t> parse_port(std::string_view text);

}  // namespace fairlead::dataplane
