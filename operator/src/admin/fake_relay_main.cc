// The fake relay as a process: `fairlead_fake_relay -c FILE`. FAKE_VERSION is what it reports.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <thread>

#include "admin/fake_relay.h"

namespace {
volatile std::sig_atomic_t g_stop = 0;
}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "-c") != 0) {
    std::cerr << "usage: fairlead_fake_relay -c FILE\n";
    return 2;
  }
  std::signal(SIGTERM, [](int) { g_stop = 1; });
  try {
    fairlead::op::FakeRelayConfig config = fairlead::op::load_fake_relay_config(argv[2]);
    if (const char* const version = std::getenv("FAKE_VERSION")) config.version = version;
    const auto timeout = config.drain_timeout;
    const auto delay = config.endpoint_delay;
    fairlead::op::FakeRelay relay(std::move(config));
    std::cout << "serving" << std::endl;
    while (g_stop == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    relay.drain(timeout, delay);
    while (!relay.drained()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::cout << "drained, lost " << relay.lost() << std::endl;
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
