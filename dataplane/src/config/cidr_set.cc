#include "config/cidr_set.h"

#include <algorithm>
#include <charconv>

namespace fairlead::dataplane {
namespace {

// `address` with every bit behind the prefix cleared.
IpAddress masked(const IpAddress& address, int prefix) {
  std::array<std::uint8_t, 16> bytes{};
  std::copy_n(address.data(), address.size(), bytes.begin());
  for (std::size_t i = 0; i < address.size(); ++i) {
    const int kept = std::clamp(prefix - static_cast<int>(i) * 8, 0, 8);
    bytes[i] &= static_cast<std::uint8_t>(0xff << (8 - kept));
  }
  if (address.is_v4()) return IpAddress::v4({bytes[0], bytes[1], bytes[2], bytes[3]});
  return IpAddress::v6(bytes);
}

std::optional<int> parse_prefix(std::string_view text, int most) {
  if (text.empty() || text.size() > 3 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < 0 || value > most) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Cidr> Cidr::parse(std::string_view text, std::string& error) {
  const std::string quoted = "\"" + std::string(text) + "\"";
  const std::size_t slash = text.find('/');
  const auto ip = IpAddress::parse(text.substr(0, slash));
  if (!ip) {
    error = quoted +
            " is not an address range; allowed is an IPv4 or IPv6 address with a prefix, "
            "such as 10.0.0.0/8 or 2001:db8::/32";
    return std::nullopt;
  }
  if (slash == std::string_view::npos) return Cidr{*ip, ip->bits()};
  const auto prefix = parse_prefix(text.substr(slash + 1), ip->bits());
  if (!prefix) {
    error = quoted + " has a malformed prefix; allowed is 0 to " + std::to_string(ip->bits());
    return std::nullopt;
  }
  const IpAddress network = masked(*ip, *prefix);
  if (network != *ip) {
    error = quoted + " has bits set behind its prefix; write " + to_string(Cidr{network, *prefix}) +
            " or " + to_string(Cidr{*ip, ip->bits()});
    return std::nullopt;
  }
  return Cidr{network, *prefix};
}

bool Cidr::contains(const IpAddress& address) const {
  return address.family() == network.family() && masked(address, prefix) == network;
}

std::string to_string(const Cidr& cidr) {
  return to_string(cidr.network) + "/" + std::to_string(cidr.prefix);
}

bool CidrSet::contains(const IpAddress& address) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const Cidr& range) { return range.contains(address); });
}

}  // namespace fairlead::dataplane
