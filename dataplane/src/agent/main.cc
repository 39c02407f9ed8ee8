// fairlead: the agent's command line.
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <fstream>
#include <iostream>

#include "agent/agent.h"
#include "link/asio/tls.h"
#include "routes/ip_address.h"

namespace fairlead::dataplane {
namespace {

constexpr int kExitUsage = 2;  // the command line is wrong: trying again will not help

struct Arguments {
  std::string upstream, name, id, token_file, ca, server_name, keepalive = "default";
  std::vector<std::string> relays;
  std::uint32_t homes = 2;
  bool verbose = false;
};

void add_options(CLI::App& command, Arguments& arguments) {
  command.add_option("upstream", arguments.upstream, "PORT or HOST:PORT of the service")
      ->required();
  command.add_option("--name", arguments.name, "The service's name, as the token allows it")
      ->required();
  command
      .add_option("--relay", arguments.relays,
                  "HOST:PORT of the relay; may be repeated, all are used")
      ->envname("FAIRLEAD_RELAY")
      ->required();
  command.add_option("--token-file", arguments.token_file,
                     "File with the token; else it is read from FAIRLEAD_TOKEN");
  command
      .add_option("--ca", arguments.ca,
                  "PEM file of the authority that signs the relay; else the system's")
      ->envname("FAIRLEAD_CA");
  command
      .add_option("--server-name", arguments.server_name,
                  "Name in the relay's certificate; else the host of --relay")
      ->envname("FAIRLEAD_SERVER_NAME");
  command
      .add_option("--keepalive", arguments.keepalive,
                  "fast, default, nat, datacenter, mobile or interval=<time>,timeout=<time>")
      ->envname("FAIRLEAD_KEEPALIVE")
      ->capture_default_str();
  command.add_option("--homes", arguments.homes, "Replicas to keep a link to")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  command.add_option("--id", arguments.id,
                     "Name of this agent; a second one of the same id replaces the first. "
                     "Else NAME@HOSTNAME");
  command.add_flag("-v,--verbose", arguments.verbose, "Also log every visit");
}

// "PORT", "HOST:PORT" or "[v6]:PORT".
std::optional<std::pair<std::string, std::string>> split_host_port(const std::string& text,
                                                                   const std::string& host_else) {
  const std::size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? host_else : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  const auto number = parse_port(port);
  if (host.empty() || !number || *number == 0) return std::nullopt;
  return std::pair(host, port);
}

bool read_token(const std::string& file, std::string& token, std::string& error) {
  if (file.empty()) {
    const char* given = std::getenv("FAIRLEAD_TOKEN");
    if (given == nullptr || *given == '\0') {
      error = "no token: name a file with --token-file, or set FAIRLEAD_TOKEN";
      return false;
    }
    token = given;
    return true;
  }
  std::ifstream in(file);
  std::getline(in, token);
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  if (token.empty()) {
    error = "no token in " + file + ": its first line should be the token";
    return false;
  }
  return true;
}

std::string host_name() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// Nothing with `error` when an argument is wrong.
std::optional<AgentOptions> to_options(const Arguments& arguments, const std::string& kind,
                                       std::string& error) {
  AgentOptions options;
  const auto upstream = split_host_port(arguments.upstream, "127.0.0.1");
  if (!upstream) {
    error = "\"" + arguments.upstream + "\" is not an upstream: say PORT or HOST:PORT";
    return std::nullopt;
  }
  options.services.push_back({kind, arguments.name, {upstream->first, upstream->second}});
  for (const std::string& relay : arguments.relays) {
    const auto address = split_host_port(relay, "");
    if (!address) {
      error = "\"" + relay + "\" is not a relay: say HOST:PORT";
      return std::nullopt;
    }
    options.relays.push_back({address->first, address->second});
  }
  const auto liveness = link::parse_liveness(arguments.keepalive, error);
  if (!liveness) return std::nullopt;
  options.liveness = *liveness;
  if (!read_token(arguments.token_file, options.token, error)) return std::nullopt;
  const auto material = link::read_tls_material("", "", arguments.ca, error);
  if (!material) return std::nullopt;
  options.identity = link::TlsIdentity::create(*material, error);
  if (!options.identity) return std::nullopt;
  options.server_name = arguments.server_name;
  options.homes = arguments.homes;
  options.agent_id = arguments.id.empty() ? arguments.name + "@" + host_name() : arguments.id;
  options.version = FAIRLEAD_VERSION;
  return options;
}

int run(AgentOptions options) {
  ::signal(SIGPIPE, SIG_IGN);
  boost::asio::io_context io{1};
  int code = 0;
  bool told = false;
  Agent agent(io, std::move(options),
              {.homes =
                   [&told](std::uint32_t standing, std::uint32_t target,
                           const std::vector<std::string>& urls) {
                     if (standing > 0 && !told) {
                       told = true;
                       for (const std::string& url : urls)
                         std::cout << "ready " << url << std::endl;
                     }
                     spdlog::info("homes: {} of {}", standing, target);
                   },
               .exit =
                   [&](AgentExit exit, const std::string& text) {
                     code = static_cast<int>(exit);
                     if (exit == AgentExit::kEnded) {
                       spdlog::info("{}", text);
                     } else {
                       spdlog::error("{}", text);
                     }
                     io.stop();
                   }});
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  std::function<void()> wait = [&] {
    signals.async_wait([&](const boost::system::error_code& error, int) {
      if (error) return;
      spdlog::info("ending: no new visits; a second signal ends at once");
      agent.stop();
      wait();
    });
  };
  wait();
  agent.start();
  io.run();
  return code;
}

int main_of(int argc, char** argv) {
  CLI::App app{
      "fairlead: serve something beside this agent through a relay; no inbound port is opened.\n"
      "  fairlead http 3000 --name web --relay relay.example.com:7000\n"
      "  fairlead tcp 5432 --name db --relay relay.example.com:7000\n"
      "It reconnects for as long as it runs. Exit codes: 0 ended, 1 failed here, 2 refused by the\n"
      "relay or a wrong argument: trying again does not help, the text says what does."};
  app.set_version_flag("--version", FAIRLEAD_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  CLI::App* http = app.add_subcommand("http", "Serve an HTTP/1.1 service");
  CLI::App* tcp = app.add_subcommand("tcp", "Serve a TCP service");
  add_options(*http, arguments);
  add_options(*tcp, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  auto logger = spdlog::stderr_logger_mt("agent");
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%L%$ %v");
  logger->set_level(arguments.verbose ? spdlog::level::debug : spdlog::level::info);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
  std::string error;
  auto options = to_options(arguments, http->parsed() ? "http" : "tcp", error);
  if (!options) {
    std::cerr << "fairlead: " << error << "\n";
    return kExitUsage;
  }
  return run(std::move(*options));
}

}  // namespace
}  // namespace fairlead::dataplane

int main(int argc, char** argv) {
  return fairlead::dataplane::main_of(argc, argv);
}
