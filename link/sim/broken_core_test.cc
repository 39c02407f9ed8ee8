// Cores that are broken on purpose: a simulation that cannot fail shows nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "../src/wire.h"
#include "world.h"

namespace fairlead::link::sim {
namespace {

constexpr std::uint64_t kSeeds = 200;

// Hands each whole frame to `keep`, which may change it; drops it when the answer is no.
void each_frame(std::vector<std::byte>& frames,
                const std::function<bool(wire::Header&, std::span<std::byte>)>& keep) {
  std::vector<std::byte> kept;
  for (std::span<std::byte> rest(frames); !rest.empty();) {
    wire::Header header = wire::decode_header(Bytes(rest).first(wire::kHeaderSize));
    const std::span<std::byte> frame = rest.first(wire::kHeaderSize + header.length);
    rest = rest.subspan(frame.size());
    if (keep(header, frame.subspan(wire::kHeaderSize))) {
      wire::encode_header(header, frame.first(wire::kHeaderSize));
      kept.insert(kept.end(), frame.begin(), frame.end());
    }
  }
  frames = std::move(kept);
}

bool is(const wire::Header& header, wire::Type type) {
  return header.type == static_cast<std::uint8_t>(type);
}

// Each grants as usual, but one in four grants never leaves.
Sabotage credit_leak() {
  Sabotage sabotage;
  sabotage.output = [count = 0](std::vector<std::byte>& frames) mutable {
    each_frame(frames, [&](wire::Header& header, std::span<std::byte>) {
      return !is(header, wire::Type::kCredit) || ++count % 4 != 0;
    });
  };
  return sabotage;
}

// The end of a half is written, but not marked.
Sabotage lost_fin() {
  Sabotage sabotage;
  sabotage.output = [](std::vector<std::byte>& frames) {
    each_frame(frames, [](wire::Header& header, std::span<std::byte>) {
      if (!is(header, wire::Type::kData) || (header.flags & wire::kFlagFin) == 0) return true;
      header.flags = 0;
      return header.length > 0;
    });
  };
  return sabotage;
}

// Bytes change on their way through the core.
Sabotage wrong_byte() {
  Sabotage sabotage;
  sabotage.output = [count = 0](std::vector<std::byte>& frames) mutable {
    each_frame(frames, [&](wire::Header& header, std::span<std::byte> payload) {
      if (is(header, wire::Type::kData) && header.length > 0 && ++count % 50 == 0) {
        payload.back() ^= std::byte{1};
      }
      return true;
    });
  };
  return sabotage;
}

Sabotage late_death() {
  Sabotage sabotage;
  sabotage.timer_lag = std::chrono::milliseconds(1);
  return sabotage;
}

struct Case {
  const char* name;
  Sabotage (*sabotage)();
  const char* invariant;  // how the first failure that is reported begins
};

class BrokenCoreTest : public ::testing::TestWithParam<Case> {};

TEST_P(BrokenCoreTest, IsCaughtByTheRightInvariant) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Sabotage sabotage = GetParam().sabotage();
    const Outcome outcome = run(seed, nullptr, sabotage);
    if (!outcome.failure) continue;
    EXPECT_EQ(outcome.failure->rfind(GetParam().invariant, 0), 0u) << *outcome.failure;
    std::cout << "caught by seed " << seed << ": " << *outcome.failure << "\n";
    return;
  }
  FAIL() << "not caught within " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Cores, BrokenCoreTest,
                         ::testing::Values(Case{"CreditLeak", credit_leak, "no end in sight"},
                                           Case{"LostFin", lost_fin, "no end in sight"},
                                           Case{"WrongByte", wrong_byte, "wrong byte"},
                                           Case{"LateDeath", late_death,
                                                "a peer was declared dead at the wrong time"}),
                         [](const auto& core) { return core.param.name; });

// What sabotage() leaves alone is as good as before: the seam itself breaks nothing.
TEST(BrokenCoreTest, AnIdleSaboteurIsNotCaught) {
  Sabotage sabotage;
  sabotage.output = [](std::vector<std::byte>& frames) {
    each_frame(frames, [](wire::Header&, std::span<std::byte>) { return true; });
  };
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = run(seed, nullptr, sabotage);
    ASSERT_FALSE(outcome.failure) << "seed " << seed << ": " << *outcome.failure;
  }
}

}  // namespace
}  // namespace fairlead::link::sim
