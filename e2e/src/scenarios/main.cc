// e2e-scenarios: what `make scenarios` runs.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>

#include "scenario.h"

namespace {

namespace fs = std::filesystem;
using namespace fairlead::e2e;
using nlohmann::json;

struct Entry {
  const char* name;
  const char* title;
  void (*run)(Scene&);
};
constexpr Entry kScenarios[] = {
    {"a3", "a dead peer is found within its bound", dead_peer},
    {"a4", "a stuck reader holds only itself", stuck_reader},
    {"a5", "a cut stream is never an end", cut_streams},
    {"a6", "the operator may die, and be misled", operator_faults},
};

struct Arguments {
  std::string example = "examples/relaycluster.yaml";
  std::string report = "build/reports/scenarios.json";
  std::vector<std::string> only;
  std::uint64_t seed = 1;
};

json to_json(const std::vector<Row>& rows) {
  json list = json::array();
  for (const Row& row : rows) {
    list.push_back({{"scenario", row.scenario},
                    {"name", row.name},
                    {"promised", row.promised},
                    {"measured", row.measured},
                    {"pass", row.pass}});
  }
  return list;
}

std::vector<Row> run_one(const Entry& entry, const Arguments& arguments, bool quick,
                         const fs::path& work, Screen& screen) {
  screen.step(std::string(entry.name) + ": " + entry.title);
  Scene scene(entry.name, arguments.example, work, quick, arguments.seed, screen);
  try {
    entry.run(scene);
  } catch (const std::exception& error) {
    scene.row("ran to its end", "yes", error.what(), false);
  }
  kill_descendants();
  return scene.rows();
}

int run(const Arguments& arguments, const fs::path& work) {
  Screen screen;
  const auto wanted = [&](const std::string& name) {
    return std::find(arguments.only.begin(), arguments.only.end(), name) != arguments.only.end();
  };
  const bool quick = wanted("quick");
  const bool all = arguments.only.empty() || (quick && arguments.only.size() == 1);
  std::vector<Row> rows;
  for (const Entry& entry : kScenarios) {
    if (interrupted() || !(all || wanted(entry.name))) continue;
    const auto more = run_one(entry, arguments, quick, work, screen);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  std::ofstream(arguments.report) << to_json(rows).dump(2) << "\n";
  std::vector<std::vector<std::string>> cells = {{"", "scenario", "promised", "measured"}};
  for (const Row& row : rows) {
    cells.push_back(
        {row.pass ? "pass" : "MISS", row.scenario + " " + row.name, row.promised, row.measured});
  }
  screen.plain("\n" + table(cells));
  const auto missed = std::count_if(rows.begin(), rows.end(), [](const Row& r) { return !r.pass; });
  screen.plain("scenarios: " + std::to_string(rows.size()) + " rows, " + std::to_string(missed) +
               " missed, " + one_decimal(screen.seconds()) + " s; report in " + arguments.report);
  return missed == 0 && !rows.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures what is promised under faults, on real processes, and writes a row for each "
      "promise.\n"
      "  a3  a dead peer is found within its bound     a4  a stuck reader holds only itself\n"
      "  a5  a cut stream is never an end              a6  the operator may die, and be misled\n"
      "  quick  all of them with fewer runs\n"
      "Exit code 0: every promise was kept."};
  Arguments arguments;
  app.add_option("--file", arguments.example, "RelayCluster to copy")->capture_default_str();
  app.add_option("--report", arguments.report, "JSON report to write")->capture_default_str();
  app.add_option("--only", arguments.only, "scenarios to run, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"a3", "a4", "a5", "a6", "quick"}));
  app.add_option("--seed", arguments.seed, "of the moments of kills")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  watch_interrupts();
  adopt_orphans();
  std::error_code error;
  fs::path parent = fs::path(arguments.report).parent_path();
  if (parent.empty()) parent = ".";
  fs::create_directories(parent, error);
  std::string folder = (fs::absolute(parent) / "scenarios-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::cerr << "e2e-scenarios: cannot make a folder in " << parent << "\n";
    return 1;
  }
  const int code = run(arguments, folder);
  if (code != 0) {
    keep_logs(folder, parent / "scenario-logs");
    std::cerr << "scenarios: FAILED; logs are in " << (parent / "scenario-logs").string() << "\n";
  }
  fs::remove_all(folder, error);
  return code;
}
