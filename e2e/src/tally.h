// The book of visits: every visit is opened once and then either live, finished or lost by a cause.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::e2e {

enum class Kind : std::uint8_t { kTcp, kDownload, kHttp };
std::string_view kind_name(Kind kind);  // "tcp", "download", "http"

using VisitId = std::uint64_t;
using Instant = std::chrono::steady_clock::time_point;

struct Counts {
  std::uint64_t opened = 0;
  std::uint64_t finished = 0;
  std::uint64_t lost = 0;
  std::uint64_t live = 0;
  std::map<std::string, std::uint64_t> lost_by_cause;
};

struct LostVisit {
  VisitId id = 0;
  Kind kind = Kind::kTcp;
  std::string visitor;  // the visitor's own address, "" when it never connected
  std::string cause;
  Instant opened;
  Instant ended;
};

// Not thread-safe: belongs to the thread that runs the visits.
class Tally {
 public:
  VisitId open(Kind kind, Instant now = std::chrono::steady_clock::now());
  void connected(VisitId id, std::string visitor);
  void finish(VisitId id);
  void lose(VisitId id, std::string cause, Instant now = std::chrono::steady_clock::now());

  Counts counts(Kind kind) const;
  const std::vector<LostVisit>& lost() const { return lost_; }
  std::vector<std::string> live_visitors(Kind kind) const;

  // Empty while opened = finished + lost by cause + live holds for every kind and no id was closed
  // twice, else what does not hold.
  std::string broken() const;

 private:
  struct Live {
    Kind kind = Kind::kTcp;
    std::string visitor;
    Instant opened;
  };

  Live take(VisitId id);

  VisitId next_id_ = 1;
  std::map<VisitId, Live> live_;
  std::map<Kind, std::uint64_t> opened_;
  std::map<Kind, std::uint64_t> finished_;
  std::map<Kind, std::map<std::string, std::uint64_t>> lost_by_cause_;
  std::vector<LostVisit> lost_;
  std::string misuse_;
};

}  // namespace fairlead::e2e
