// fairlead-relay: one relay replica.
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>

#include "admin/admin_server.h"
#include "config/relay_config.h"
#include "fairlead/admin.pb.h"
#include "relay/admin_handlers.h"
#include "relay/health_server.h"
#include "relay/relay.h"
#include "relay/version.h"

namespace fairlead::dataplane {
namespace {

constexpr int kExitConfig = 2;  // the file is wrong: trying again will not help
constexpr int kExitFailed = 1;  // an address is in use, a file cannot be read

std::optional<RelayConfig> read_config(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) {
    std::cerr << "fairlead-relay: cannot read " << path << ": " << std::strerror(errno) << "\n";
    return std::nullopt;
  }
  std::vector<std::string> errors;
  auto config = parse_relay_config(text.str(), path, errors);
  for (const std::string& error : errors) std::cerr << error << "\n";
  return config;
}

void set_up_log(const RelayConfig& config) {
  auto logger = spdlog::stderr_logger_mt("relay");
  const bool json = config.log_format == LogFormat::kJson;
  // %v is ours and holds no quote that a peer could choose but in its escaped form.
  logger->set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})"
                           : "%Y-%m-%d %H:%M:%S.%e %^%L%$ %v");
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace, spdlog::level::debug,
                                                   spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  logger->set_level(kLevels[static_cast<int>(config.log_level)]);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

int run(const RelayConfig& config) {
  set_up_log(config);
  ::signal(SIGPIPE, SIG_IGN);
  const std::string version = relay_version();
  boost::asio::io_context io{1};
  Relay relay(io, config, version, [&io] { io.stop(); });
  std::string error;
  if (!relay.start(error)) {
    spdlog::error("{}", error);
    return kExitFailed;
  }
  // Health and Admin come up last, when what they report on exists, and go first. They run on
  // threads of their own and ask the byte thread by post, so that neither can hold it up.
  std::unique_ptr<HealthServer> health;
  std::unique_ptr<AdminServer> admin;
  try {
    if (config.listen.health.port != 0) {
      health = std::make_unique<HealthServer>(
          boost::asio::ip::tcp::endpoint(
              boost::asio::ip::make_address(to_string(config.listen.health.ip)),
              config.listen.health.port),
          health_responder(io, relay));
    }
    if (config.listen.admin.port != 0) {
      const AdminServerConfig options{to_string(config.listen.admin), config.tls_cert.string(),
                                      config.tls_key.string(), config.tls_ca.string(),
                                      "fairlead://" + config.cluster.uid + "/operator"};
      admin = std::make_unique<AdminServer>(options, admin_handlers(io, relay));
    }
  } catch (const std::exception& failed) {
    spdlog::error("{}", failed.what());
    return kExitFailed;
  }
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  std::function<void()> wait = [&] {
    signals.async_wait([&](const boost::system::error_code& cancelled, int) {
      if (cancelled) return;
      relay.end();
      wait();
    });
  };
  wait();
  spdlog::info("fairlead-relay {} serves as {} of cluster {}", version, config.replica.name,
               config.cluster.name);
  io.run();
  admin.reset();
  health.reset();
  return 0;
}

int main_of(int argc, char** argv) {
  CLI::App app{
      "fairlead-relay: one replica of a relay.\n"
      "Agents dial out to it, visitors reach the agents' services through it.\n"
      "SIGTERM drains and then ends; a second one ends at once.\n"
      "Exit codes: 0 ended, 1 failed here (an address in use), 2 the configuration is wrong."};
  std::string path;
  app.add_option("-c,--config", path, "The configuration: see examples/relay.yaml");
  app.set_version_flag("--version", relay_version());
  CLI::App* check = app.add_subcommand("check", "Verify a configuration and print it whole");
  check->add_option("-c,--config", path, "The configuration")->required();
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitConfig;
  }
  if (path.empty()) {
    std::cerr << "fairlead-relay: say which configuration: -c FILE\n";
    return kExitConfig;
  }
  const auto config = read_config(path);
  if (!config) return kExitConfig;
  if (check->parsed()) {
    std::cout << render(*config);
    return 0;
  }
  return run(*config);
}

}  // namespace
}  // namespace fairlead::dataplane

int main(int argc, char** argv) {
  return fairlead::dataplane::main_of(argc, argv);
}
