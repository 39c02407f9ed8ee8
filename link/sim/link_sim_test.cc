// Two thousand worlds, in slices so that they run side by side.
#include <gtest/gtest.h>

#include <iostream>

#include "world.h"

namespace fairlead::link::sim {
namespace {

constexpr std::uint64_t kSlice = 250;

class LinkSimTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(LinkSimTest, EveryInvariantHolds) {
  Counts counts;
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kSlice; ++seed) {
    const Outcome outcome = run(seed, nullptr);
    counts += outcome.counts;
    ASSERT_FALSE(outcome.failure) << *outcome.failure
                                  << "\nreplay: build/release/bin/link-sim --seed " << seed
                                  << " --steps";
  }
  // A slice that meets little shows little.
  EXPECT_GT(counts.opened, 1000u);
  EXPECT_GT(counts.finished, 500u);
  for (const std::uint64_t met :
       {counts.reset, counts.stopped, counts.not_processed, counts.cut, counts.draining,
        counts.relayed, counts.dead, counts.transport, counts.closed_by_peer, counts.isolated}) {
    EXPECT_GT(met, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LinkSimTest, ::testing::Range<std::uint64_t>(0, 8 * kSlice, kSlice),
                         [](const auto& slice) { return "From" + std::to_string(slice.param); });

}  // namespace
}  // namespace fairlead::link::sim
