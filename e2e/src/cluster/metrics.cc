#include <cstdlib>
#include <sstream>

#include "cluster.h"

namespace fairlead::e2e {

std::map<std::string, double> parse_metric(const std::string& text, const std::string& family) {
  std::map<std::string, double> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(family) || line.size() <= family.size()) continue;
    const char next = line[family.size()];
    const std::size_t space = line.rfind(' ');
    if ((next != '{' && next != ' ') || space == std::string::npos) continue;
    std::string labels;
    if (next == '{') {
      const std::size_t end = line.rfind('}', space);
      if (end == std::string::npos) continue;
      labels = line.substr(family.size() + 1, end - family.size() - 1);
    }
    samples[labels] = std::strtod(line.c_str() + space + 1, nullptr);
  }
  return samples;
}

std::string label(const std::string& labels, const std::string& name) {
  const std::string key = name + "=\"";
  std::size_t at = labels.find(key);
  while (at != std::string::npos && at > 0 && labels[at - 1] != ',') at = labels.find(key, at + 1);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size();
  return labels.substr(begin, labels.find('"', begin) - begin);
}

void CrossShare::sample(const std::vector<Replica>& replicas) {
  for (const Replica& replica : replicas) {
    if (replica.pid == 0) continue;
    const auto page = http_get({asio::ip::make_address(replica.address), Cluster::kHealthPort},
                               "/metrics", std::chrono::milliseconds(1000));
    if (page.status != 200) continue;
    std::map<std::string, Paths> services;
    for (const auto& [labels, value] :
         parse_metric(page.body, "fairlead_relay_visits_opened_total")) {
      Paths& paths = services[label(labels, "service")];
      (label(labels, "path") == "forwarded" ? paths.forwarded : paths.local) += value;
    }
    by_replica_[replica.uid] = std::move(services);
  }
}

std::optional<double> CrossShare::share(const std::string& service) const {
  Paths sum;
  for (const auto& [uid, services] : by_replica_) {
    if (const auto it = services.find(service); it != services.end()) {
      sum.local += it->second.local;
      sum.forwarded += it->second.forwarded;
    }
  }
  const double all = sum.local + sum.forwarded;
  if (all == 0) return std::nullopt;
  return sum.forwarded / all;
}

}  // namespace fairlead::e2e
