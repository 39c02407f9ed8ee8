// fairlead-operator: runs the relay replicas that a RelayCluster asks for.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "local/local_operator.h"

namespace {

constexpr char kLocalHelp[] =
    "Run a whole cluster on this machine, without Kubernetes.\n"
    "Each replica is a process with a loopback address of its own; a forwarder in front of them\n"
    "serves agents and visitors on one address. The file is watched: edit it to scale, to roll to\n"
    "another image, or to change anything else. What the operator does is printed, a line each, "
    "and\n"
    "the status stands beside the file in FILE.status.yaml.";

constexpr char kLocalFooter[] =
    "SIGTERM and SIGINT stop only the operator: replicas and forwarder go on, and the next start\n"
    "takes them over. `fairlead-operator local down -f FILE` ends them.\n"
    "To end the drain of one replica early, create the file STATE/replicas/NAME/drain-now.\n"
    "\n"
    "Exit codes: 0 stopped or done; 1 failed or interrupted; 2 refused: wrong arguments, no valid\n"
    "RelayCluster, or another operator that runs this cluster.";

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  // gRPC's own log would stand between the events; what it has to say comes back as an error.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);

  CLI::App app{"Operates Fairlead relay clusters."};
  app.require_subcommand(1);
  CLI::App& local = *app.add_subcommand("local", kLocalHelp);
  local.footer(kLocalFooter);
  fairlead::op::LocalArguments arguments;
  std::string state;
  std::string images;
  std::string secrets;
  local.add_option("-f,--file", arguments.file, "The RelayCluster, YAML")->required();
  local.add_option("--state", state, "Folder for records, keys and logs (default: FILE.state)");
  local.add_option("--images", images,
                   "Folder of images: image NAME is the program DIR/NAME/fairlead-relay (default: "
                   "the fairlead-relay beside this program, whatever the name)");
  local.add_option("--secrets", secrets,
                   "Folder of secrets: agents.authSecretName NAME is DIR/NAME/tokens.yaml "
                   "(default: secrets beside FILE)");
  local.add_option("--listen", arguments.listen,
                   "Address on which agents and visitors are served (default: 127.0.0.1)");
  local.add_option("--subnet", arguments.subnet,
                   "Addresses of the replicas (default: a free 127.x.y.0/24)");
  local.require_subcommand(0, 1);
  CLI::App& down = *local.add_subcommand(
      "down", "Drain and end every replica, stop the forwarder and remove the state folder");
  down.fallthrough();
  std::optional<long> limit;
  down.add_option("--drain-timeout", limit,
                  "Seconds after which visits that are left are reset (default, and at most: "
                  "spec.drain.timeoutSeconds)")
      ->check(CLI::NonNegativeNumber);
  CLI::App& status = *local.add_subcommand("status", "Print the status and the replicas");
  status.fallthrough();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }

  arguments.state = state;
  if (state.empty()) arguments.state = fairlead::op::default_state(arguments.file);
  arguments.secrets = secrets;
  if (secrets.empty()) arguments.secrets = arguments.file.parent_path() / "secrets";
  if (!images.empty()) arguments.images = std::filesystem::absolute(images);
  std::error_code ec;
  arguments.programs = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();
  if (down.parsed()) {
    std::optional<std::chrono::seconds> seconds;
    if (limit) seconds = std::chrono::seconds(*limit);
    return fairlead::op::take_local_down(arguments, seconds);
  }
  if (status.parsed()) return fairlead::op::print_local_status(arguments);
  return fairlead::op::run_local(arguments);
}
