// e2e-demo: what `make demo` runs.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "demo.h"

namespace {

namespace fs = std::filesystem;
using namespace fairlead::e2e;

struct Arguments {
  std::string example = "examples/relaycluster.yaml";
  std::string report = "build/reports/demo.json";
  std::string fault;
  int homes = 2;
};

bool run(const Arguments& arguments, const fs::path& work) {
  Screen screen;
  DemoResult result;
  Cluster::Options options;
  options.programs = fs::canonical("/proc/self/exe").parent_path();
  options.example = arguments.example;
  options.work = work;
  options.homes = arguments.homes;
  try {
    Stage stage(options, screen);
    try {
      stage.start();
      result = arguments.fault == "kill" ? run_kills(stage) : run_rollout(stage, arguments.homes);
    } catch (const Failure& failure) {
      result.visits = stage.load().snapshot();
      result.faults.emplace_back(failure.what());
    }
    if (!result.visits.broken.empty()) result.faults.push_back(result.visits.broken);
    if (!result.faults.empty()) {
      keep_logs(work, fs::path(arguments.report).parent_path() / "demo-logs");
    }
  } catch (const std::exception& error) {
    result.faults.emplace_back(error.what());
  }
  kill_descendants();
  fs::create_directories(fs::path(arguments.report).parent_path());
  std::ofstream(arguments.report) << to_report(result, screen.seconds()).dump(2) << "\n";
  screen.plain("\n" + to_table(result, screen.seconds()));
  return result.faults.empty();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Brings up three replicas from a RelayCluster file, opens 40 TCP, 8 download and 50/s HTTP\n"
      "visits through them, changes the image, and counts what was lost. Exit code 0: nothing "
      "was."};
  Arguments arguments;
  app.add_option("--file", arguments.example, "RelayCluster to copy")->capture_default_str();
  app.add_option("--report", arguments.report, "JSON report to write")->capture_default_str();
  app.add_option("--homes", arguments.homes, "replicas each agent is connected to")
      ->check(CLI::Range(1, 3))
      ->capture_default_str();
  app.add_option("--fault", arguments.fault,
                 "`kill`: SIGKILL each replica in turn instead of a rollout")
      ->check(CLI::IsMember({"kill"}));
  CLI11_PARSE(app, argc, argv);

  watch_interrupts();
  adopt_orphans();
  std::error_code error;
  fs::path parent = fs::path(arguments.report).parent_path();
  if (parent.empty()) parent = ".";
  fs::create_directories(parent, error);
  std::string folder = (fs::absolute(parent) / "demo-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::cerr << "e2e-demo: cannot make a folder in " << parent << "\n";
    return 1;
  }
  const bool passed = run(arguments, folder);
  fs::remove_all(folder, error);
  if (!passed) {
    std::cerr << "demo: FAILED; logs are in " << (parent / "demo-logs").string() << "\n";
    return 1;
  }
  std::cout << "demo: passed; report in " << arguments.report << "\n";
  return 0;
}
