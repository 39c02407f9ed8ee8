// Loopback addresses for replicas: each gets an address of its own out of one small subnet, so that
// all of them can use the standard ports.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::op {

// An IPv4 subnet. Network and broadcast addresses are never handed out.
class Subnet {
 public:
  // "127.4.5.0/24": prefix 16 to 29, no bits below it. nullopt with `error` otherwise.
  static std::optional<Subnet> parse(std::string_view cidr, std::string& error);

  std::string to_string() const;
  std::uint32_t hosts() const { return (1u << (32 - prefix_)) - 2; }
  std::string host(std::uint32_t n) const;  // n in [1, hosts()]

  friend bool operator==(const Subnet&, const Subnet&) = default;

 private:
  Subnet(std::uint32_t network, int prefix) : network_(network), prefix_(prefix) {}
  std::uint32_t network_;
  int prefix_;
};

// Whether every port can be bound on the address right now.
bool ports_are_free(const std::string& address, const std::vector<std::uint16_t>& ports);

// A random 127.x.y.0/24 on which nothing listens on these ports; nullopt when 64 tries found none.
std::optional<Subnet> find_free_subnet(const std::vector<std::uint16_t>& ports,
                                       std::mt19937_64& random);

// An address of the subnet that is not in `taken` and on which the ports are free. Starts at a
// random place, so that an address that was just given back is not used again at once.
std::optional<std::string> pick_address(const Subnet& subnet, const std::set<std::string>& taken,
                                        const std::vector<std::uint16_t>& ports,
                                        std::mt19937_64& random);

}  // namespace fairlead::op
