// Scenarios: what is promised under faults, measured on real processes, a row each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../cluster/cluster.h"
#include "../load/load.h"
#include "../screen.h"

namespace fairlead::e2e {

struct Row {
  std::string scenario;  // "a4"
  std::string name;      // "cross, cold: 8 x 1 MiB beside a stopped reader"
  std::string promised;
  std::string measured;
  bool pass = false;
};

// What a scenario gets, and where its rows go.
class Scene {
 public:
  Scene(std::string scenario, std::filesystem::path example, std::filesystem::path work, bool quick,
        std::uint64_t seed, Screen& screen);

  // A fresh cluster with an upstream and no agents; the one before must be gone.
  std::unique_ptr<Cluster> cluster(int homes, const std::string& liveness = "");
  void row(std::string name, std::string promised, std::string measured, bool pass);

  // Cluster::wait with the load's counters as the live line.
  void wait(Cluster& cluster, Load* load, const std::string& what, std::chrono::milliseconds limit,
            const std::function<bool()>& reached);
  void hold(Cluster& cluster, Load* load, std::chrono::milliseconds duration);

  bool quick() const { return quick_; }  // fewer runs, the same checks
  std::uint64_t seed() const { return seed_; }
  Screen& screen() { return screen_; }
  const std::vector<Row>& rows() const { return rows_; }
  std::filesystem::path last_work() const;  // of the newest cluster, for its logs

 private:
  std::string scenario_;
  std::filesystem::path example_;
  std::filesystem::path work_;
  bool quick_;
  std::uint64_t seed_;
  Screen& screen_;
  int clusters_ = 0;
  std::vector<Row> rows_;
};

void dead_peer(Scene& scene);        // a3
void stuck_reader(Scene& scene);     // a4
void cut_streams(Scene& scene);      // a5
void operator_faults(Scene& scene);  // a6

// The replica at which the agent is homed, and one at which it is not. Throws Failure.
Replica home_of(const Cluster& cluster, const std::string& agent);
Replica other_than(const Cluster& cluster, const std::string& name);

tcp::endpoint endpoint_of(const Replica& replica, std::uint16_t port);

}  // namespace fairlead::e2e
