#include "visit/replay_buffer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace fairlead::dataplane {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

link::Slice slice(std::size_t size, char fill = 'x') {
  return link::Slice::copy_of(std::string(size, fill));
}

std::string joined(const std::vector<link::Slice>& slices) {
  std::string text;
  for (const link::Slice& each : slices) text += each.text();
  return text;
}

TEST(ReplayBuffer, KeepsWhatIsNotAcknowledged) {
  ReplayBudget budget(kMiB);
  ReplayBuffer buffer(*budget.admit("t"));
  buffer.append(slice(2000, 'a'));
  buffer.append(slice(2000, 'b'));
  buffer.append_fin();
  EXPECT_EQ(buffer.end(), 4001u);
  EXPECT_EQ(buffer.bytes(), 4000u);
  EXPECT_EQ(joined(buffer.from(0)), std::string(2000, 'a') + std::string(2000, 'b'));
  EXPECT_TRUE(buffer.acknowledge(2500));
  EXPECT_EQ(joined(buffer.from(2500)), std::string(1500, 'b'));
  EXPECT_EQ(joined(buffer.from(3999)), "b");
  EXPECT_EQ(joined(buffer.from(4000)), "");
  EXPECT_TRUE(buffer.acknowledge(4000));
  EXPECT_FALSE(buffer.complete()) << "FIN is an offset of its own";
  EXPECT_TRUE(buffer.acknowledge(4001));
  EXPECT_TRUE(buffer.complete());
  EXPECT_EQ(buffer.held(), 0u);
}

TEST(ReplayBuffer, ASliceIsChargedUntilItsLastByteIsAcknowledged) {
  ReplayBudget budget(kMiB);
  ReplayBuffer buffer(*budget.admit("t"));
  buffer.append(slice(16 * 1024));
  EXPECT_TRUE(buffer.acknowledge(16 * 1024 - 1));
  EXPECT_EQ(buffer.held(), 16u * 1024);
  EXPECT_TRUE(buffer.acknowledge(16 * 1024));
  EXPECT_EQ(buffer.held(), 0u);
}

TEST(ReplayBuffer, RefusesAnAcknowledgementOfWhatWasNeverSent) {
  ReplayBudget budget(kMiB);
  ReplayBuffer buffer(*budget.admit("t"));
  buffer.append(slice(10));
  EXPECT_FALSE(buffer.acknowledge(11)) << "FIN was not sent";
  EXPECT_EQ(buffer.acknowledged(), 0u);
  EXPECT_TRUE(buffer.acknowledge(10));
  EXPECT_TRUE(buffer.acknowledge(3)) << "an old value is harmless";
  EXPECT_EQ(buffer.acknowledged(), 10u);
}

TEST(ReplayBuffer, BlocksAtTheCapAndDropsNothing) {
  ReplayBudget budget(2 * ReplayBudget::kFloor, 0);  // one floor, nothing to lend
  ReplayBuffer buffer(*budget.admit("t"));
  EXPECT_EQ(buffer.room(kMiB), ReplayBudget::kFloor);
  buffer.append(slice(ReplayBudget::kFloor));
  EXPECT_EQ(buffer.room(kMiB), 0u);
  EXPECT_EQ(buffer.from(0).front().size(), ReplayBudget::kFloor);
  EXPECT_TRUE(buffer.acknowledge(ReplayBudget::kFloor));
  EXPECT_EQ(buffer.room(100), 100u);
}

TEST(ReplayBuffer, TinyWritesAreMergedAndStayReadableFromAnyOffset) {
  ReplayBudget budget(kMiB);
  ReplayBuffer buffer(*budget.admit("t"));
  std::string all;
  for (int i = 0; i < 5000; ++i) {
    const char c = static_cast<char>('a' + i % 26);
    all += c;
    buffer.append(slice(1, c));
    if (i == 100) {
      EXPECT_TRUE(buffer.acknowledge(50));
    }
  }
  EXPECT_LE(buffer.from(50).size(), 2 * 5000 / 1024 + 4u);
  for (std::uint64_t offset = 50; offset <= 5000; offset += 313) {
    EXPECT_EQ(joined(buffer.from(offset)), all.substr(offset));
  }
}

// Random appends and acknowledgements against a plain string.
TEST(ReplayBuffer, AgreesWithAModel) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    ReplayBudget budget(kMiB);
    {
      ReplayBuffer buffer(*budget.admit("t"));
      std::string all;
      for (int step = 0; step < 300; ++step) {
        const std::uint64_t want = random() % 3 == 0 ? random() % 40'000 : random() % 600;
        if (const std::uint64_t room = buffer.room(want); room > 0) {
          const char fill = static_cast<char>('a' + random() % 26);
          buffer.append(slice(room, fill));
          all.append(room, fill);
        }
        if (random() % 2 == 0) {
          const std::uint64_t open = all.size() - buffer.acknowledged();
          ASSERT_TRUE(buffer.acknowledge(buffer.acknowledged() + random() % (open + 1)));
        }
        const std::uint64_t open = all.size() - buffer.acknowledged();
        const std::uint64_t from = buffer.acknowledged() + random() % (open + 1);
        ASSERT_EQ(joined(buffer.from(from)), all.substr(from)) << "seed " << seed;
        ASSERT_GE(buffer.held(), open);
        ASSERT_LE(buffer.held(), ReplayBudget::kFloor + budget.lent());
      }
      ASSERT_TRUE(buffer.acknowledge(all.size()));
      ASSERT_EQ(buffer.held(), 0u);
      ASSERT_EQ(budget.lent(), 0u) << "what was borrowed returned: seed " << seed;
    }
    ASSERT_EQ(budget.used(), 0u);
  }
}

TEST(ReplayBudget, AdmissionGuaranteesFloorsWhateverIsLent) {
  ReplayBudget budget(8 * ReplayBudget::kFloor, 8 * ReplayBudget::kFloor);
  auto greedy = budget.admit("a");
  greedy->grow(kMiB);
  std::vector<ReplayLease> leases;
  for (int i = 0; i < 3; ++i) {
    auto lease = budget.admit("a");
    ASSERT_TRUE(lease);
    leases.push_back(std::move(*lease));
    EXPECT_EQ(leases.back().granted(), ReplayBudget::kFloor);
  }
  EXPECT_FALSE(budget.admit("b")) << "all floors are taken";
  leases.pop_back();
  EXPECT_TRUE(budget.admit("b"));
}

TEST(ReplayBudget, OneVisitTakesAtMostHalfOfWhatIsFree) {
  ReplayBudget budget(8 * kMiB, 8 * kMiB);  // 4 MiB to lend
  auto first = budget.admit("a");
  auto second = budget.admit("b");
  EXPECT_EQ(first->grow(100 * kMiB), 2 * kMiB + ReplayBudget::kFloor);
  EXPECT_EQ(first->grow(100 * kMiB), 2 * kMiB + ReplayBudget::kFloor)
      << "asking again adds nothing";
  EXPECT_EQ(second->grow(100 * kMiB), 1 * kMiB + ReplayBudget::kFloor);
  first->shrink(0);
  EXPECT_EQ(budget.lent(), 1 * kMiB);
  EXPECT_EQ(second->grow(100 * kMiB), 2 * kMiB + ReplayBudget::kFloor);
}

TEST(ReplayBudget, ATenantHoldsAtMostItsShare) {
  ReplayBudget budget(8 * kMiB);  // a tenant's share: 2 MiB
  std::vector<ReplayLease> leases;
  std::uint64_t sum = 0;
  for (int i = 0; i < 8; ++i) {
    leases.push_back(*budget.admit("a"));
    sum += leases.back().grow(kMiB) - ReplayBudget::kFloor;
  }
  EXPECT_EQ(sum, 2 * kMiB);
  auto other = budget.admit("b");
  EXPECT_EQ(other->grow(kMiB / 2), kMiB / 2 + ReplayBudget::kFloor)
      << "another tenant still borrows, in whole steps";
}

TEST(ReplayBudget, AMovedLeaseReturnsOnce) {
  ReplayBudget budget(kMiB);
  auto lease = budget.admit("a");
  lease->grow(100'000);
  ReplayLease moved = std::move(*lease);
  lease.reset();
  EXPECT_EQ(budget.floors(), ReplayBudget::kFloor);
  EXPECT_GT(budget.lent(), 0u);
  moved = ReplayLease();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(ReplayBudget, ThreadsNeverExceedIt) {
  ReplayBudget budget(4 * kMiB);
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 5000; ++i) {
        auto lease = budget.admit(t % 2 == 0 ? "a" : "b");
        if (!lease) continue;
        lease->grow(random() % kMiB);
        if (budget.lent() > 2 * kMiB) exceeded = true;
        lease->shrink(random() % kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget.used(), 0u);
}

}  // namespace
}  // namespace fairlead::dataplane
