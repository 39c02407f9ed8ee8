// e2e-load: visits from the command line, against any echo, file and HTTP service of e2e-upstream.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <thread>

#include "../pattern.h"
#include "../screen.h"
#include "load.h"

namespace {

using namespace fairlead::e2e;

volatile std::sig_atomic_t stop_asked = 0;

struct Arguments {
  std::string echo, file, http;
  std::string host = "web.relay.localhost";
  std::size_t echoes = 40, downloads = 8;
  std::uint64_t mib = 64, rate_kib = 512;
  std::uint32_t http_rate = 50;
  double seconds = 20;
};

void open_all(Load& load, const Arguments& arguments) {
  if (!arguments.file.empty()) {
    Download::Options options;
    options.server = parse_endpoint(arguments.file);
    options.size = arguments.mib << 20U;
    options.sha256 = pattern_digest(options.seed, options.size);
    options.bytes_per_second = arguments.rate_kib << 10U;
    load.open_downloads(arguments.downloads, options);
  }
  if (!arguments.echo.empty()) {
    EchoVisit::Options options;
    options.server = parse_endpoint(arguments.echo);
    load.open_echoes(arguments.echoes, options);
  }
  if (!arguments.http.empty()) {
    HttpLoad::Options options;
    options.server = parse_endpoint(arguments.http);
    options.host = arguments.host;
    options.per_second = arguments.http_rate;
    load.start_http(options);
  }
}

int run(const Arguments& arguments) {
  Load load;
  Screen screen;
  open_all(load, arguments);
  const auto watch = [&](auto done) {
    while (!done()) {
      screen.live(one_line(load.snapshot()));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  };
  watch([&] { return stop_asked != 0 || screen.seconds() >= arguments.seconds; });
  load.stop_http();
  load.close_echoes();
  load.set_download_rate(Download::kUnlimited);
  watch([&] { return live_in(load.snapshot()) == 0; });
  const Load::Snapshot s = load.snapshot();
  screen.step(one_line(s));
  for (const Counts* counts : {&s.tcp, &s.download, &s.http}) {
    for (const auto& [cause, n] : counts->lost_by_cause) {
      screen.plain("  " + std::to_string(n) + " lost: " + cause);
    }
  }
  if (!s.broken.empty()) screen.plain("  the counters do not add up: " + s.broken);
  return lost_in(s) == 0 && s.broken.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Opens visits, checks every byte, and counts what was lost and why. Ends after --seconds or\n"
      "Ctrl-C, when the visits have been closed in order. Exit code 0: nothing was lost."};
  Arguments a;
  app.add_option("--echo", a.echo, "IP:PORT of an echo service");
  app.add_option("--file", a.file, "IP:PORT of a raw file service");
  app.add_option("--http", a.http, "IP:PORT of an HTTP service");
  app.add_option("--host", a.host, "Host of the HTTP requests")->capture_default_str();
  app.add_option("--echo-visits", a.echoes, "echo visits")->capture_default_str();
  app.add_option("--downloads", a.downloads, "downloads")->capture_default_str();
  app.add_option("--size", a.mib, "MiB of one download")->capture_default_str();
  app.add_option("--rate", a.rate_kib, "KiB/s of one download until the end")
      ->capture_default_str();
  app.add_option("--http-rate", a.http_rate, "HTTP requests per second, half on kept connections")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--seconds", a.seconds, "how long visits are held open")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (a.echo.empty() && a.file.empty() && a.http.empty()) {
    std::cerr << "e2e-load: nothing to do; give at least one of --echo, --file and --http\n";
    return 2;
  }
  std::signal(SIGINT, [](int) { stop_asked = 1; });
  try {
    return run(a);
  } catch (const std::invalid_argument& error) {
    std::cerr << "e2e-load: " << error.what() << "\n";
    return 2;
  }
}
