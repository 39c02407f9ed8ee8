// Which service a visitor means: by Host for http, by port for tcp. Pure; may be read from any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/tokens.h"

namespace fairlead::dataplane {

struct HttpRoute {
  enum class Status {
    kUnknown,  // no token may claim the host: 404
    kOffline,  // a token may claim it, no agent serves it: 503
    kService,
  };
  Status status = Status::kUnknown;
  std::string tenant;   // empty for kUnknown
  std::string service;  // the name under which agents register it; empty for kUnknown
};

class RouteTable {
 public:
  // Whether an agent serves the http service `service` of `tenant` now.
  using Served = std::function<bool(std::string_view tenant, std::string_view service)>;

  // `domain` is visitors.domain: lower case, no trailing dot.
  RouteTable(Tokens tokens, std::string domain);

  // `host` as parse_host() gives it (without port, lower case). <label>.<domain> is the service
  // <label>; every other host is a service of its own name, so that a single label alone (which no
  // domain ends) reaches nothing. The same answer at any number of names.
  HttpRoute http(std::string_view host, const Served& served) const;
  // The name under which an agent registers what is served at `host`; nullopt when none could.
  std::optional<std::string> service_of(std::string_view host) const;
  // Where an http service is reached: the host, without scheme or port.
  std::string host_of(std::string_view service) const;

  // The service behind a tcp port; nullptr when no token lists the port.
  const TcpOwner* tcp(std::uint16_t port) const;
  // Every port that some token lists, ascending: what a replica listens on.
  std::vector<std::uint16_t> tcp_ports() const;

  const Tokens& tokens() const { return tokens_; }

 private:
  Tokens tokens_;
  std::string suffix_;  // "." + domain
};

}  // namespace fairlead::dataplane
