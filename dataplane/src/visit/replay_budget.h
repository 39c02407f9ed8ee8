// The memory in which the ends of visits keep what the other end does not have yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace fairlead::dataplane {

class ReplayBudget;

// One visit's part of the budget: the floor, and above it what it could borrow. Returns everything
// when destroyed. Moved from, it holds nothing. One thread at a time.
class ReplayLease {
 public:
  ReplayLease() = default;
  ReplayLease(ReplayLease&& other) noexcept { *this = std::move(other); }
  ReplayLease& operator=(ReplayLease&& other) noexcept;
  ~ReplayLease() { reset(); }

  // Bytes the visit may hold now.
  std::uint64_t granted() const;
  // Borrows so that granted() reaches `need`, or as far as the shares allow; returns granted().
  std::uint64_t grow(std::uint64_t need);
  // Returns what is borrowed beyond `need`, but for the step that would be borrowed again next.
  void shrink(std::uint64_t need);
  void reset();

 private:
  friend class ReplayBudget;
  struct Tenant;
  ReplayLease(ReplayBudget* budget, Tenant* tenant) : budget_(budget), tenant_(tenant) {}

  ReplayBudget* budget_ = nullptr;
  Tenant* tenant_ = nullptr;
  std::uint64_t borrowed_ = 0;
};

// The process's pool. Half of it is for floors, which admission guarantees, so lending never keeps
// a visit out; the other half is lent. Thread-safe: admission takes a lock, growing and shrinking
// are atomic. Must outlive its leases.
//
//   at most capacity / 2 / kFloor visits are admitted
//   above its floor one visit ends a grow() with at most half of what is free, its own part
//   included above their floors the visits of one tenant hold at most `tenant_share` together
class ReplayBudget {
 public:
  static constexpr std::uint64_t kFloor = 16 * 1024;  // one visit's, always: a link's first window
  static constexpr std::uint64_t kStep = 64 * 1024;   // what is borrowed at a time

  // A process that serves one tenant, as an agent does, gives it the whole: tenant_share =
  // capacity.
  ReplayBudget(std::uint64_t capacity, std::uint64_t tenant_share);
  explicit ReplayBudget(std::uint64_t capacity);  // tenant_share = a quarter
  ~ReplayBudget();
  ReplayBudget(const ReplayBudget&) = delete;
  ReplayBudget& operator=(const ReplayBudget&) = delete;

  // Nothing when all floors are taken: refuse the visit as overloaded.
  std::optional<ReplayLease> admit(const std::string& tenant);

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return floors() + lent(); }  // floors count as used
  std::uint64_t floors() const { return floors_.load(std::memory_order_relaxed); }
  std::uint64_t lent() const { return lent_.load(std::memory_order_relaxed); }

 private:
  friend class ReplayLease;

  std::uint64_t lend(std::uint64_t want, std::uint64_t held, ReplayLease::Tenant& tenant);
  void take_back(std::uint64_t bytes, ReplayLease::Tenant& tenant);
  void leave(ReplayLease::Tenant& tenant);

  const std::uint64_t capacity_;
  const std::uint64_t tenant_share_;
  std::atomic<std::uint64_t> floors_{0};
  std::atomic<std::uint64_t> lent_{0};
  std::mutex mutex_;  // guards tenants_ and each tenant's count of leases
  std::unordered_map<std::string, std::unique_ptr<ReplayLease::Tenant>> tenants_;
};

}  // namespace fairlead::dataplane
