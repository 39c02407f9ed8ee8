#include "local/endpoints.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

namespace fairlead::op {
namespace {

using nlohmann::json;

std::uint16_t port_of(long number) {
  return number > 0 && number <= 65535 ? static_cast<std::uint16_t>(number) : 0;
}

// Runs a reader of JSON; its exceptions end here.
template <class T, class Read>
std::optional<T> read_json(std::string_view text, std::string& error, Read read) {
  try {
    return read(json::parse(text));
  } catch (const json::exception& e) {
    error = e.what();
    return std::nullopt;
  }
}

}  // namespace

std::string to_json(const Endpoints& endpoints) {
  json ready = json::array();
  for (const Endpoint& one : endpoints.ready) {
    ready.push_back({{"uid", one.uid}, {"name", one.name}, {"address", one.address}});
  }
  return json{{"ports", endpoints.ports}, {"ready", ready}}.dump(2) + "\n";
}

std::optional<Endpoints> parse_endpoints(std::string_view text, std::string& error) {
  auto endpoints = read_json<Endpoints>(text, error, [](const json& root) {
    Endpoints read;
    for (const json& port : root.at("ports")) read.ports.push_back(port_of(port.get<long>()));
    for (const json& one : root.at("ready")) {
      read.ready.push_back({one.at("uid"), one.at("name"), one.at("address")});
    }
    return read;
  });
  if (!endpoints) return std::nullopt;
  // Whatever is not a port has become 0.
  const std::set<std::uint16_t> distinct(endpoints->ports.begin(), endpoints->ports.end());
  if (distinct.contains(0) || distinct.size() != endpoints->ports.size()) {
    error = "ports: each must be given once and be between 1 and 65535";
    return std::nullopt;
  }
  return endpoints;
}

std::string to_json(const ForwarderStatus& status) {
  json failed = json::object();
  for (const auto& [port, reason] : status.failed) failed[std::to_string(port)] = reason;
  const ForwarderCounters& c = status.counters;
  return json{{"listening", status.listening},
              {"failed", failed},
              {"counters",
               {{"accepted", c.accepted},
                {"finished", c.finished},
                {"visitor_reset", c.visitor_reset},
                {"replica_reset", c.replica_reset},
                {"no_replica", c.no_replica},
                {"dial_failed", c.dial_failed},
                {"refused_dials", c.refused_dials},
                {"live", c.live}}}}
             .dump(2) +
         "\n";
}

std::optional<ForwarderStatus> parse_forwarder_status(std::string_view text, std::string& error) {
  return read_json<ForwarderStatus>(text, error, [](const json& root) {
    ForwarderStatus read;
    read.listening = root.at("listening").get<std::vector<std::uint16_t>>();
    for (const auto& [port, reason] : root.at("failed").items()) {
      read.failed[port_of(std::strtol(port.c_str(), nullptr, 10))] = reason;
    }
    const json& c = root.at("counters");
    read.counters = {c.at("accepted"),      c.at("finished"),   c.at("visitor_reset"),
                     c.at("replica_reset"), c.at("no_replica"), c.at("dial_failed"),
                     c.at("refused_dials"), c.at("live")};
    return read;
  });
}

}  // namespace fairlead::op
