// link-sim --seed N [--steps]          one world, with every step when asked
// link-sim --seeds N [--from M]        many; stops at the first that fails
#include <cstdlib>
#include <iostream>
#include <string>

#include "world.h"

namespace {

constexpr const char* kUsage =
    "usage: link-sim --seed N [--steps]    run one seed, printing each step\n"
    "       link-sim --seeds N [--from M]  run N seeds from M (0) on; stop at the first failure\n";

int fail_usage(const std::string& what) {
  std::cerr << "link-sim: " << what << "\n" << kUsage;
  return 2;
}

bool parse(const char* text, std::uint64_t& value) {
  char* end = nullptr;
  value = std::strtoull(text, &end, 10);
  return end != text && *end == '\0';
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 0, count = 0;
  bool steps = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      std::cout << kUsage;
      return 0;
    }
    if (name == "--steps") {
      steps = true;
      continue;
    }
    if (name != "--seed" && name != "--seeds" && name != "--from") {
      return fail_usage("unknown argument " + name);
    }
    std::uint64_t value = 0;
    if (++i == argc || !parse(argv[i], value)) return fail_usage(name + " needs a number");
    if (name == "--seeds") {
      count = value;
    } else {
      first = value;
      if (name == "--seed") count = 1;
    }
  }
  if (count == 0) return fail_usage("which seed?");
  fairlead::link::sim::Counts counts;
  std::uint64_t total_steps = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const auto outcome = fairlead::link::sim::run(seed, steps ? &std::cout : nullptr);
    counts += outcome.counts;
    total_steps += outcome.steps;
    if (!outcome.failure) continue;
    std::cout << "seed " << seed << " failed after " << outcome.steps
              << " steps: " << *outcome.failure << "\nreplay: link-sim --seed " << seed
              << " --steps\n";
    return 1;
  }
  std::cout << count << " seeds, " << total_steps << " steps: " << counts.opened << " sessions, "
            << counts.bytes << " bytes, " << counts.finished << " finished, " << counts.reset
            << " reset, " << counts.stopped << " stopped, " << counts.cut << " cut, "
            << counts.not_processed << " not processed, " << counts.dead << " dead peers\n";
  return 0;
}
