// fairlead-forwarder: see forwarder.h. Started by `fairlead-operator local` and outlives it.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <iostream>
#include <string>

#include "local/forwarder.h"
#include "local/log_line.h"

namespace {

// Two descriptors a connection: take as many as the system lets us.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Deals TCP connections round robin over the ready replicas of a relay cluster.\n"
      "It is started by `fairlead-operator local` and goes on when that stops.\n"
      "SIGTERM and SIGINT end it; connections that are still open are reset.\n"
      "Exit codes: 0 stopped by a signal, 2 wrong arguments."};
  std::string listen = "127.0.0.1";
  std::string endpoints;
  std::string status;
  app.add_option("--listen", listen, "Address to listen on")->capture_default_str();
  app.add_option("--endpoints", endpoints,
                 "JSON file with the ports and the ready replicas; read again when it is replaced")
      ->required();
  app.add_option("--status", status, "JSON file to write listeners and counters to")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(listen, ec);
  if (ec) {
    std::cerr << "--listen: not an IP address: \"" << listen << "\"\n";
    return 2;
  }

  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  boost::asio::io_context io(1);
  fairlead::op::Forwarder forwarder(io, {address, endpoints, status}, [](const std::string& line) {
    std::cout << fairlead::op::log_line(line) << std::endl;
  });
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code&, int) {
    forwarder.stop();
    io.stop();
  });
  forwarder.start();
  io.run();
  return 0;
}
