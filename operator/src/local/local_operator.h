// `fairlead-operator local`: a whole cluster on one machine, from one RelayCluster file.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace fairlead::op {

struct LocalArguments {
  std::filesystem::path file;     // the RelayCluster
  std::filesystem::path state;    // default: default_state(file)
  std::filesystem::path secrets;  // default: "secrets" beside the file
  std::optional<std::filesystem::path> images;
  std::optional<std::string> listen;  // default: 127.0.0.1
  std::optional<std::string> subnet;  // default: a free 127.x.y.0/24
  std::filesystem::path programs;     // folder of fairlead-forwarder and fairlead-relay
};

std::filesystem::path default_state(const std::filesystem::path& file);
std::filesystem::path status_file(const std::filesystem::path& file);

// Each returns the exit code of the process: 0 done, 1 failed or interrupted, 2 refused: wrong
// arguments, no valid RelayCluster, or another operator that runs. Events go to standard output, a
// line each, errors that end the command to standard error.

// Runs the cluster until SIGTERM or SIGINT, which stop only the operator: replicas and forwarder
// go on, and the next call takes them over. So does SIGKILL, at any moment.
int run_local(const LocalArguments& arguments);

// Drains and removes every replica, stops the forwarder and removes the state folder. `limit`,
// where given, shortens the drain timeout of the spec. SIGTERM or SIGINT interrupt it; what is gone
// is gone, and the next call goes on.
int take_local_down(const LocalArguments& arguments, std::optional<std::chrono::seconds> limit);

// Prints what the status file and the records say, without disturbing an operator that runs.
int print_local_status(const LocalArguments& arguments);

}  // namespace fairlead::op
