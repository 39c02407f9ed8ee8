// e2e-upstream: the services that demos and scenarios put behind agents.
#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "upstream.h"

int main(int argc, char** argv) {
  using fairlead::e2e::Upstream;
  CLI::App app{
      "Serves TCP echo, files of deterministic bytes and HTTP on four ports until SIGTERM or "
      "SIGINT,\n"
      "and tells on the control port (GET /connections) how each connection went, to the byte.\n"
      "Prints one JSON line with the ports when it is ready."};
  std::string address = "127.0.0.1";
  Upstream::Ports ports;
  app.add_option("--listen", address, "IP address of every listener")->capture_default_str();
  app.add_option("--echo", ports.echo, "port of the echo service; 0: a free one");
  app.add_option("--file", ports.file, "port of the raw file service; 0: a free one");
  app.add_option("--http", ports.http, "port of the HTTP service; 0: a free one");
  app.add_option("--control", ports.control, "port of the control service; 0: a free one");
  CLI11_PARSE(app, argc, argv);

  namespace asio = boost::asio;
  try {
    asio::io_context io(1);
    Upstream upstream(io.get_executor(), asio::ip::make_address(address), ports);
    asio::signal_set signals(io, SIGINT, SIGTERM);
    signals.async_wait([&io](const boost::system::error_code&, int) { io.stop(); });
    const auto& bound = upstream.ports();
    std::cout << nlohmann::json{{"echo", bound.echo},
                                {"file", bound.file},
                                {"http", bound.http},
                                {"control", bound.control}}
              << std::endl;
    io.run();
  } catch (const std::exception& error) {
    std::cerr << "e2e-upstream: cannot listen on " << address << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}
