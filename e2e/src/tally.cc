#include "tally.h"

#include <utility>

namespace fairlead::e2e {

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kTcp:
      return "tcp";
    case Kind::kDownload:
      return "download";
    case Kind::kHttp:
      return "http";
  }
  return "";
}

VisitId Tally::open(Kind kind, Instant now) {
  const VisitId id = next_id_++;
  live_.emplace(id, Live{kind, "", now});
  ++opened_[kind];
  return id;
}

void Tally::connected(VisitId id, std::string visitor) {
  const auto it = live_.find(id);
  if (it != live_.end()) it->second.visitor = std::move(visitor);
}

Tally::Live Tally::take(VisitId id) {
  const auto it = live_.find(id);
  if (it == live_.end()) {
    misuse_ = "visit " + std::to_string(id) + " ended twice";
    return {};
  }
  Live live = std::move(it->second);
  live_.erase(it);
  return live;
}

void Tally::finish(VisitId id) {
  const Live live = take(id);
  ++finished_[live.kind];
}

void Tally::lose(VisitId id, std::string cause, Instant now) {
  Live live = take(id);
  ++lost_by_cause_[live.kind][cause];
  lost_.push_back({id, live.kind, std::move(live.visitor), std::move(cause), live.opened, now});
}

Counts Tally::counts(Kind kind) const {
  Counts counts;
  if (const auto it = opened_.find(kind); it != opened_.end()) counts.opened = it->second;
  if (const auto it = finished_.find(kind); it != finished_.end()) counts.finished = it->second;
  if (const auto it = lost_by_cause_.find(kind); it != lost_by_cause_.end()) {
    counts.lost_by_cause = it->second;
    for (const auto& [cause, n] : it->second) counts.lost += n;
  }
  for (const auto& [id, live] : live_) {
    if (live.kind == kind) ++counts.live;
  }
  return counts;
}

std::vector<std::string> Tally::live_visitors(Kind kind) const {
  std::vector<std::string> visitors;
  for (const auto& [id, live] : live_) {
    if (live.kind == kind) visitors.push_back(live.visitor);
  }
  return visitors;
}

std::string Tally::broken() const {
  if (!misuse_.empty()) return misuse_;
  for (const Kind kind : {Kind::kTcp, Kind::kDownload, Kind::kHttp}) {
    const Counts c = counts(kind);
    if (c.opened != c.finished + c.lost + c.live) {
      return std::string(kind_name(kind)) + ": opened " + std::to_string(c.opened) +
             " is not finished " + std::to_string(c.finished) + " + lost " +
             std::to_string(c.lost) + " + live " + std::to_string(c.live);
    }
  }
  return "";
}

}  // namespace fairlead::e2e
