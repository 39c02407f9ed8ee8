#include "demo.h"

namespace fairlead::e2e {

using nlohmann::json;

namespace {

json counts_json(const Counts& counts) {
  return {{"opened", counts.opened},
          {"finished", counts.finished},
          {"lost", counts.lost},
          {"lost_by_cause", counts.lost_by_cause}};
}

std::vector<std::string> row(const std::string& kind, const Counts& counts) {
  std::string causes;
  for (const auto& [cause, n] : counts.lost_by_cause) {
    causes += (causes.empty() ? "" : ", ") + std::to_string(n) + " " + cause;
  }
  return {kind, std::to_string(counts.opened), std::to_string(counts.finished),
          std::to_string(counts.lost), causes};
}

}  // namespace

json to_report(const DemoResult& result, double seconds) {
  json report = result.extra;
  report["replicas_replaced"] = result.replaced;
  report["visits"] = {{"tcp", counts_json(result.visits.tcp)},
                      {"download", counts_json(result.visits.download)},
                      {"http",
                       {{"requests", result.visits.http.opened},
                        {"failed", result.visits.http.lost},
                        {"failed_by_cause", result.visits.http.lost_by_cause},
                        {"kept_connections_reopened", result.visits.http_reopened}}}};
  report["cross_replica_share"] = result.shares;
  report["drain_seconds"] = result.drain_seconds;
  report["seconds"] = seconds;
  report["faults"] = result.faults;
  return report;
}

std::string to_table(const DemoResult& result, double seconds) {
  std::string text = table({{"visits", "opened", "finished", "lost", "causes"},
                            row("tcp", result.visits.tcp),
                            row("download", result.visits.download),
                            row("http", result.visits.http)});
  text += "\n  replicas replaced      " + std::to_string(result.replaced) + "\n";
  for (const auto& [name, took] : result.drain_seconds) {
    text += "  drain of " + name + "  " + one_decimal(took) + " s\n";
  }
  for (const auto& [kind, share] : result.shares) {
    text += "  " + kind + " visits that crossed replicas  " + one_decimal(100 * share) + " %\n";
  }
  text += "  took " + one_decimal(seconds) + " s\n";
  for (const std::string& fault : result.faults) text += "  FAULT: " + fault + "\n";
  return text;
}

}  // namespace fairlead::e2e
