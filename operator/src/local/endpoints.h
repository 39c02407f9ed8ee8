// The file in which the operator tells the forwarder where connections go, and the one in which the
// forwarder tells the operator how it fares. Both are JSON and are replaced by rename.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::op {

struct Endpoint {
  std::string uid;      // of the replica
  std::string name;     // for logs
  std::string address;  // textual IP address; the port is the one the visitor dialled
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

struct Endpoints {
  std::vector<std::uint16_t> ports;  // to listen on; none is 0, none twice
  std::vector<Endpoint> ready;       // only members that may be dialled
  friend bool operator==(const Endpoints&, const Endpoints&) = default;
};

std::string to_json(const Endpoints& endpoints);
// nullopt with `error` (what is wrong and where) when the text is not such a file.
std::optional<Endpoints> parse_endpoints(std::string_view json, std::string& error);

// Every connection that was accepted ends in exactly one of the counters behind `accepted`, or is
// live.
struct ForwarderCounters {
  std::uint64_t accepted = 0;
  std::uint64_t finished = 0;       // both directions ended with FIN
  std::uint64_t visitor_reset = 0;  // the visitor's side was reset first
  std::uint64_t replica_reset = 0;  // the replica's side was reset first
  std::uint64_t no_replica = 0;     // none ready, or every ready one refused the dial
  std::uint64_t dial_failed = 0;    // a dial failed otherwise; not tried elsewhere
  std::uint64_t refused_dials = 0;  // dials, not connections: each was tried elsewhere
  std::uint64_t live = 0;
  friend bool operator==(const ForwarderCounters&, const ForwarderCounters&) = default;
};

struct ForwarderStatus {
  std::vector<std::uint16_t> listening;
  std::map<std::uint16_t, std::string> failed;  // port -> the system's reason; tried every second
  ForwarderCounters counters;
  friend bool operator==(const ForwarderStatus&, const ForwarderStatus&) = default;
};

std::string to_json(const ForwarderStatus& status);
std::optional<ForwarderStatus> parse_forwarder_status(std::string_view json, std::string& error);

}  // namespace fairlead::op
