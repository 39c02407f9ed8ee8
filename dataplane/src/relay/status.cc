#include "status.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

namespace fairlead::dataplane {
namespace {

std::uint64_t sum(const std::map<std::string, std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0},
                         [](std::uint64_t total, const auto& each) { return total + each.second; });
}

std::string escape_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

using Labels = std::vector<std::pair<std::string, std::string>>;

class Metrics {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    out_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void sample(const Labels& labels, double value) {
    out_ += name_;
    if (!labels.empty()) {
      out_ += '{';
      for (std::size_t i = 0; i < labels.size(); ++i) {
        if (i > 0) out_ += ',';
        out_ += labels[i].first + "=\"" + escape_label(labels[i].second) + '"';
      }
      out_ += '}';
    }
    char number[40];
    std::snprintf(number, sizeof number, " %.17g\n", value);
    out_ += number;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string name_, out_;
};

void visit_metrics(const RelayStatus& status, Metrics& metrics) {
  metrics.family("fairlead_relay_visits_opened_total", "counter",
                 "Visits opened by visitors of this replica, by whether they went to a peer.");
  for (const auto& [kind, counts] : status.counters) {
    for (const auto& [service, n] : counts.opened_local) {
      metrics.sample({{"kind", kind}, {"service", service}, {"path", "local"}},
                     static_cast<double>(n));
    }
    for (const auto& [service, n] : counts.opened_forwarded) {
      metrics.sample({{"kind", kind}, {"service", service}, {"path", "forwarded"}},
                     static_cast<double>(n));
    }
  }
  metrics.family("fairlead_relay_visits_finished_total", "counter",
                 "Visits of this replica's visitors that ended cleanly.");
  for (const auto& [kind, counts] : status.counters) {
    metrics.sample({{"kind", kind}}, static_cast<double>(counts.finished));
  }
  metrics.family("fairlead_relay_visits_lost_total", "counter",
                 "Visits of this replica's visitors that ended otherwise, by cause.");
  for (const auto& [kind, counts] : status.counters) {
    for (const auto& [cause, n] : counts.lost) {
      metrics.sample({{"kind", kind}, {"cause", cause}}, static_cast<double>(n));
    }
  }
  metrics.family("fairlead_relay_visits_live", "gauge", "Visits of this replica's visitors now.");
  for (const auto& [kind, counts] : status.counters) metrics.sample({{"kind", kind}}, counts.live);
  metrics.family("fairlead_relay_forwarding", "gauge",
                 "Visits of other replicas that pass through this one now.");
  metrics.sample({}, status.forwarding);
  metrics.family("fairlead_relay_refused_total", "counter",
                 "Visitors refused before a visit began, by cause.");
  for (const auto& [cause, n] : status.refused) {
    metrics.sample({{"cause", cause}}, static_cast<double>(n));
  }
}

void append_table(std::string& out, const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  out += "<table><tr>";
  for (const auto& cell : head) out += "<th>" + escape_html(cell) + "</th>";
  out += "</tr>";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const auto& cell : row) out += "<td>" + escape_html(cell) + "</td>";
    out += "</tr>";
  }
  if (rows.empty()) out += "<tr><td colspan=" + std::to_string(head.size()) + ">none</td></tr>";
  out += "</table>";
}

std::string number(double value, const char* unit) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f %s", value, unit);
  return text;
}

// What the lists of the status hold, under their names.
nlohmann::json rows_of(const RelayStatus& status) {
  using nlohmann::json;
  json peers = json::array(), agents = json::array(), visits = json::array();
  json counters = json::object();
  for (const PeerRow& peer : status.peers) {
    peers.push_back({{"uid", peer.uid},
                     {"name", peer.name},
                     {"address", peer.address},
                     {"state", peer.state},
                     {"links_up", peer.links_up},
                     {"links_expected", peer.links_expected},
                     {"links_draining", peer.links_draining},
                     {"rtt_us", peer.rtt_us}});
  }
  for (const AgentRow& agent : status.agents) {
    agents.push_back({{"id", agent.agent_id},
                      {"tenant", agent.tenant},
                      {"instance", agent.instance},
                      {"home", agent.home},
                      {"generation", agent.generation},
                      {"services", agent.services},
                      {"here", agent.here}});
  }
  for (const VisitRow& visit : status.visits) {
    visits.push_back({{"id", visit.id},
                      {"kind", visit.kind},
                      {"service", visit.service},
                      {"edge", visit.edge},
                      {"home", visit.home},
                      {"visitor", visit.visitor},
                      {"seconds", visit.seconds},
                      {"from_visitor", visit.bytes_from_visitor},
                      {"to_visitor", visit.bytes_to_visitor}});
  }
  for (const auto& [kind, counts] : status.counters) {
    counters[kind] = {{"opened", counts.opened()},
                      {"forwarded", counts.forwarded()},
                      {"finished", counts.finished},
                      {"lost", counts.lost},
                      {"live", counts.live}};
  }
  return {{"peers", peers}, {"agents", agents}, {"visits", visits}, {"counters", counters}};
}

}  // namespace

std::uint64_t VisitCounters::opened() const {
  return sum(opened_local) + sum(opened_forwarded);
}
std::uint64_t VisitCounters::forwarded() const {
  return sum(opened_forwarded);
}
std::uint64_t VisitCounters::lost_total() const {
  return sum(lost);
}

std::string to_metrics(const RelayStatus& status) {
  Metrics metrics;
  metrics.family("fairlead_relay_info", "gauge", "Who this replica is.");
  metrics.sample({{"name", status.name}, {"uid", status.uid}, {"version", status.version}}, 1);
  metrics.family("fairlead_relay_ready", "gauge", "1 when /readyz says yes.");
  metrics.sample({}, status.ready ? 1 : 0);
  visit_metrics(status, metrics);
  metrics.family("fairlead_relay_peer_links", "gauge", "Links to each peer that are up.");
  for (const PeerRow& peer : status.peers) metrics.sample({{"peer", peer.name}}, peer.links_up);
  metrics.family("fairlead_relay_peer_links_expected", "gauge", "Links each peer should have.");
  for (const PeerRow& peer : status.peers)
    metrics.sample({{"peer", peer.name}}, peer.links_expected);
  metrics.family("fairlead_relay_mesh_epoch", "gauge", "Epoch of the membership in force.");
  metrics.sample({}, static_cast<double>(status.epoch));
  std::uint32_t here = 0;
  for (const AgentRow& agent : status.agents) here += agent.here ? 1 : 0;
  metrics.family("fairlead_relay_agents", "gauge", "Agents known, and of them those homed here.");
  metrics.sample({{"where", "cluster"}}, static_cast<double>(status.agents.size()));
  metrics.sample({{"where", "here"}}, here);
  metrics.family("fairlead_relay_drain_state", "gauge", "1 for the state the drain is in.");
  for (const char* state : {"none", "delay", "draining", "drained", "forced"}) {
    metrics.sample({{"state", state}}, status.drain.state == state ? 1 : 0);
  }
  metrics.family("fairlead_relay_credit_lent_bytes", "gauge", "Credit lent above the floors.");
  metrics.sample({}, static_cast<double>(status.credit_lent));
  metrics.family("fairlead_relay_credit_capacity_bytes", "gauge", "The most that may be lent.");
  metrics.sample({}, static_cast<double>(status.credit_capacity));
  metrics.family("fairlead_relay_replay_bytes", "gauge", "Sent bytes kept until acknowledged.");
  metrics.sample({}, static_cast<double>(status.replay_held));
  metrics.family("fairlead_relay_uptime_seconds", "gauge", "Since the process started.");
  metrics.sample({}, status.uptime_seconds);
  return metrics.take();
}

std::string to_json(const RelayStatus& status) {
  using nlohmann::json;
  const DrainRow& drain = status.drain;
  json whole = {{"cluster_uid", status.cluster_uid},
                {"uid", status.uid},
                {"name", status.name},
                {"version", status.version},
                {"process_id", status.process_id},
                {"state", status.state},
                {"ready", status.ready},
                {"epoch", status.epoch},
                {"digest", status.digest},
                {"certificate_serial", status.certificate_serial},
                {"forwarding", status.forwarding},
                {"refused", status.refused},
                {"drain",
                 {{"state", drain.state},
                  {"reason", drain.reason},
                  {"visits", drain.visits_by_kind},
                  {"agents", drain.agents},
                  {"keepalive_sockets", drain.keepalive_sockets},
                  {"elapsed_ms", drain.elapsed_ms},
                  {"deadline_ms", drain.deadline_ms},
                  {"lost", drain.lost}}},
                {"credit", {{"lent", status.credit_lent}, {"capacity", status.credit_capacity}}},
                {"replay", {{"held", status.replay_held}, {"capacity", status.replay_capacity}}},
                {"uptime_seconds", status.uptime_seconds}};
  whole.update(rows_of(status));
  return whole.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string to_html(const RelayStatus& status) {
  std::string out =
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content='width=device-width'><title>" +
      escape_html(status.name) +
      "</title><style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem;max-width:72rem;"
      "color:#1b2733}h1{font-size:1.4rem}h2{font-size:1.05rem;margin-top:2rem}table{border-"
      "collapse:"
      "collapse}td,th{padding:.2rem 1rem .2rem 0;text-align:left;border-bottom:1px solid #dde3e8;"
      "vertical-align:top}th{font-weight:600;color:#5a6b7a}</style>";
  out += "<h1>" + escape_html(status.name) + ": " + escape_html(status.state) +
         (status.ready ? ", ready" : ", not ready") + "</h1>";
  out += "<p>version " + escape_html(status.version) + ", up " +
         number(status.uptime_seconds, "s") + ", membership epoch " + std::to_string(status.epoch);
  if (status.drain.state != "none") {
    out += ", drain " + escape_html(status.drain.state) + " (" + escape_html(status.drain.reason) +
           ") for " + number(static_cast<double>(status.drain.elapsed_ms) / 1000, "s") + " of " +
           number(static_cast<double>(status.drain.deadline_ms) / 1000, "s");
  }
  out += "</p><h2>Mesh</h2>";
  std::vector<std::vector<std::string>> rows;
  for (const PeerRow& peer : status.peers) {
    rows.push_back({peer.name, peer.state, peer.address,
                    std::to_string(peer.links_up) + " of " + std::to_string(peer.links_expected),
                    std::to_string(peer.links_draining), number(peer.rtt_us / 1000.0, "ms")});
  }
  append_table(out, {"peer", "state", "address", "links", "draining", "round trip"}, rows);
  out += "<h2>Agents</h2>";
  rows.clear();
  for (const AgentRow& agent : status.agents) {
    rows.push_back({agent.agent_id, agent.tenant, agent.services, agent.home,
                    std::to_string(agent.generation)});
  }
  append_table(out, {"agent", "tenant", "services", "home", "generation"}, rows);
  out += "<h2>Visits</h2>";
  rows.clear();
  for (const auto& [kind, counts] : status.counters) {
    rows.push_back({kind, std::to_string(counts.opened()), std::to_string(counts.forwarded()),
                    std::to_string(counts.finished), std::to_string(counts.lost_total()),
                    std::to_string(counts.live)});
  }
  append_table(out, {"kind", "opened", "of them over a peer", "finished", "lost", "live"}, rows);
  rows.clear();
  for (const VisitRow& visit : status.visits) {
    rows.push_back({visit.id.substr(0, 8), visit.kind, visit.service, visit.visitor, visit.home,
                    number(visit.seconds, "s"), std::to_string(visit.bytes_from_visitor),
                    std::to_string(visit.bytes_to_visitor)});
    if (rows.size() == 200) break;
  }
  out += "<p>" + std::to_string(status.visits.size()) + " live, " +
         std::to_string(status.forwarding) + " passing through";
  if (rows.size() < status.visits.size()) out += "; the first 200 are shown";
  out += "</p>";
  append_table(out, {"visit", "kind", "service", "visitor", "home", "age", "bytes in", "bytes out"},
               rows);
  return out + "</html>\n";
}

}  // namespace fairlead::dataplane
