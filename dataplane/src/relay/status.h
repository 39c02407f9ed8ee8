// A replica's state at one moment, and how it is shown: Prometheus text, JSON and a page.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fairlead::dataplane {

// Visits of one kind whose visitor end is this replica. Always opened == finished + lost + live.
struct VisitCounters {
  std::map<std::string, std::uint64_t> opened_local;      // by service: agent homed here
  std::map<std::string, std::uint64_t> opened_forwarded;  // by service: went over a peer link
  std::uint64_t finished = 0;
  std::map<std::string, std::uint64_t> lost;  // by cause
  std::uint32_t live = 0;

  std::uint64_t opened() const;
  std::uint64_t forwarded() const;
  std::uint64_t lost_total() const;
};

struct PeerRow {
  std::string uid, name, address, state;
  std::uint32_t links_up = 0, links_expected = 0, links_draining = 0, rtt_us = 0;
};
struct AgentRow {
  std::string agent_id, tenant, instance, home;  // home: a replica's name
  std::uint64_t generation = 0;
  std::string services;  // "tcp/echo, http/web"
  bool here = false;
};
struct VisitRow {
  std::string id, kind, service, edge, home, visitor;
  double seconds = 0;
  std::uint64_t bytes_from_visitor = 0, bytes_to_visitor = 0;
};
struct DrainRow {
  std::string state = "none", reason;
  std::map<std::string, std::uint32_t> visits_by_kind;
  std::uint32_t agents = 0, keepalive_sockets = 0;
  std::uint64_t elapsed_ms = 0, deadline_ms = 0, lost = 0;
};

struct RelayStatus {
  std::string cluster_uid, uid, name, version, process_id;
  std::string state;  // joining, active, draining, leaving
  bool ready = false;
  std::uint64_t epoch = 0;
  std::string digest;
  std::string certificate_serial;
  std::vector<PeerRow> peers;
  std::vector<AgentRow> agents;
  std::vector<VisitRow> visits;                   // visitor end here
  std::uint32_t forwarding = 0;                   // pass through here
  std::map<std::string, VisitCounters> counters;  // by kind
  std::map<std::string, std::uint64_t>
      refused;  // connections and requests without a visit, by cause
  DrainRow drain;
  std::uint64_t credit_lent = 0, credit_capacity = 0;  // bytes
  std::uint64_t replay_held = 0, replay_capacity = 0;  // bytes
  double uptime_seconds = 0;
};

// Prometheus text format 0.0.4. Labels are bounded: kinds, services that tokens may claim, causes.
std::string to_metrics(const RelayStatus& status);
// The whole status as one JSON object.
std::string to_json(const RelayStatus& status);
// The same for people: one self-contained HTML page, every text escaped.
std::string to_html(const RelayStatus& status);

}  // namespace fairlead::dataplane
