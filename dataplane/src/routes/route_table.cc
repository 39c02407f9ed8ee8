#include "routes/route_table.h"

#include "routes/host.h"

namespace fairlead::dataplane {

RouteTable::RouteTable(Tokens tokens, std::string domain)
    : tokens_(std::move(tokens)), suffix_("." + std::move(domain)) {}

std::optional<std::string> RouteTable::service_of(std::string_view host) const {
  if (host.ends_with(suffix_)) {
    const std::string_view label = host.substr(0, host.size() - suffix_.size());
    if (!is_label(label)) return std::nullopt;
    return std::string(label);
  }
  if (!is_full_host(host)) return std::nullopt;
  return std::string(host);
}

std::string RouteTable::host_of(std::string_view service) const {
  return is_label(service) ? std::string(service) + suffix_ : std::string(service);
}

HttpRoute RouteTable::http(std::string_view host, const Served& served) const {
  const auto service = service_of(host);
  if (!service) return {};
  const auto tenant = tokens_.ownership().http_tenant(*service);
  if (!tenant) return {};
  HttpRoute route{HttpRoute::Status::kOffline, std::string(*tenant), *service};
  if (served(route.tenant, route.service)) route.status = HttpRoute::Status::kService;
  return route;
}

const TcpOwner* RouteTable::tcp(std::uint16_t port) const {
  const auto& ports = tokens_.ownership().tcp();
  const auto found = ports.find(port);
  return found == ports.end() ? nullptr : &found->second;
}

std::vector<std::uint16_t> RouteTable::tcp_ports() const {
  std::vector<std::uint16_t> out;
  for (const auto& [port, owner] : tokens_.ownership().tcp()) out.push_back(port);
  return out;
}

}  // namespace fairlead::dataplane
