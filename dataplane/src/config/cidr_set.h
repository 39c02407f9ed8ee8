// A set of address ranges, such as the proxies that may name their clients.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "routes/ip_address.h"

namespace fairlead::dataplane {

struct Cidr {
  IpAddress network;
  int prefix = 0;  // bits, 0 to network.bits()

  // "10.0.0.0/8", "2001:db8::/32", or one address without a prefix. nullopt with `error` (what was
  // wrong, what is allowed) otherwise; bits set behind the prefix are an error, since the writer
  // meant either another address or another prefix.
  static std::optional<Cidr> parse(std::string_view text, std::string& error);
  bool contains(const IpAddress& address) const;
  friend bool operator==(const Cidr&, const Cidr&) = default;
};

// "10.0.0.0/8"; Cidr::parse() reads it back.
std::string to_string(const Cidr& cidr);

// Ranges of IPv4 hold IPv4 addresses only, those of IPv6 hold IPv6 addresses only; an IPv4-mapped
// IPv6 address is an IPv4 address. An empty set contains nothing.
class CidrSet {
 public:
  CidrSet() = default;
  explicit CidrSet(std::vector<Cidr> ranges) : ranges_(std::move(ranges)) {}

  bool contains(const IpAddress& address) const;
  const std::vector<Cidr>& ranges() const { return ranges_; }
  friend bool operator==(const CidrSet&, const CidrSet&) = default;

 private:
  std::vector<Cidr> ranges_;
};

}  // namespace fairlead::dataplane
