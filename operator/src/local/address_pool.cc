#include "local/address_pool.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "local/unique_fd.h"

namespace fairlead::op {
namespace {

constexpr int kSubnetTries = 64;
// Addresses of a subnet that are looked at before it is taken to be free.
constexpr std::uint32_t kProbedHosts = 8;

std::string address_text(std::uint32_t address) {
  const in_addr network_order{htonl(address)};
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, &network_order, text, sizeof text);
}

}  // namespace

std::optional<Subnet> Subnet::parse(std::string_view cidr, std::string& error) {
  error = "not an IPv4 subnet like 127.4.5.0/24 with a prefix from 16 to 29: \"" +
          std::string(cidr) + "\"";
  const std::size_t slash = cidr.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  in_addr address{};
  const std::string_view digits = cidr.substr(slash + 1);
  int prefix = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  if (inet_pton(AF_INET, std::string(cidr.substr(0, slash)).c_str(), &address) != 1 ||
      bad != std::errc() || end != digits.data() + digits.size() || prefix < 16 || prefix > 29) {
    return std::nullopt;
  }
  const std::uint32_t network = ntohl(address.s_addr);
  if ((network & ((1u << (32 - prefix)) - 1)) != 0) return std::nullopt;
  error.clear();
  return Subnet(network, prefix);
}

std::string Subnet::to_string() const {
  return address_text(network_) + "/" + std::to_string(prefix_);
}

std::string Subnet::host(std::uint32_t n) const {
  return address_text(network_ + n);
}

bool ports_are_free(const std::string& address, const std::vector<std::uint16_t>& ports) {
  return std::all_of(ports.begin(), ports.end(), [&](std::uint16_t port) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, address.c_str(), &at.sin_addr);
    return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  });
}

std::optional<Subnet> find_free_subnet(const std::vector<std::uint16_t>& ports,
                                       std::mt19937_64& random) {
  std::uniform_int_distribution<std::uint32_t> octet(1, 254);
  for (int i = 0; i < kSubnetTries; ++i) {
    std::string error;
    const std::string cidr =
        "127." + std::to_string(octet(random)) + "." + std::to_string(octet(random)) + ".0/24";
    const std::optional<Subnet> subnet = Subnet::parse(cidr, error);
    bool free = subnet.has_value();
    for (std::uint32_t n = 1; free && n <= kProbedHosts; ++n) {
      free = ports_are_free(subnet->host(n), ports);
    }
    if (free) return subnet;
  }
  return std::nullopt;
}

std::optional<std::string> pick_address(const Subnet& subnet, const std::set<std::string>& taken,
                                        const std::vector<std::uint16_t>& ports,
                                        std::mt19937_64& random) {
  const std::uint32_t hosts = subnet.hosts();
  const std::uint32_t first = std::uniform_int_distribution<std::uint32_t>(0, hosts - 1)(random);
  for (std::uint32_t i = 0; i < hosts; ++i) {
    std::string address = subnet.host((first + i) % hosts + 1);
    if (!taken.contains(address) && ports_are_free(address, ports)) return address;
  }
  return std::nullopt;
}

}  // namespace fairlead::op
