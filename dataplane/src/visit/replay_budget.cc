#include "visit/replay_budget.h"

#include <algorithm>
#include <cassert>

namespace fairlead::dataplane {

struct ReplayLease::Tenant {
  explicit Tenant(std::string tenant_name) : name(std::move(tenant_name)) {}

  const std::string name;
  std::atomic<std::uint64_t> lent{0};
  std::uint64_t leases = 0;  // guarded by ReplayBudget::mutex_
};

ReplayBudget::ReplayBudget(std::uint64_t capacity, std::uint64_t tenant_share)
    : capacity_(capacity), tenant_share_(tenant_share) {}
ReplayBudget::ReplayBudget(std::uint64_t capacity) : ReplayBudget(capacity, capacity / 4) {}

ReplayBudget::~ReplayBudget() {
  assert(tenants_.empty() && used() == 0);
}

std::optional<ReplayLease> ReplayBudget::admit(const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  if (floors() + kFloor > capacity_ / 2) return std::nullopt;
  floors_.fetch_add(kFloor, std::memory_order_relaxed);
  auto& entry = tenants_[tenant];
  if (entry == nullptr) entry = std::make_unique<ReplayLease::Tenant>(tenant);
  ++entry->leases;
  return ReplayLease(this, entry.get());
}

void ReplayBudget::leave(ReplayLease::Tenant& tenant) {
  const std::lock_guard lock(mutex_);
  floors_.fetch_sub(kFloor, std::memory_order_relaxed);
  if (--tenant.leases > 0) return;
  tenants_.erase(tenants_.find(tenant.name));
}

std::uint64_t ReplayBudget::lend(std::uint64_t want, std::uint64_t held,
                                 ReplayLease::Tenant& tenant) {
  std::uint64_t of_tenant = tenant.lent.load(std::memory_order_relaxed);
  do {
    want = std::min(want, tenant_share_ - std::min(tenant_share_, of_tenant));
    if (want == 0) return 0;
  } while (
      !tenant.lent.compare_exchange_weak(of_tenant, of_tenant + want, std::memory_order_relaxed));
  const std::uint64_t lendable = capacity_ - capacity_ / 2;
  std::uint64_t lent = lent_.load(std::memory_order_relaxed);
  std::uint64_t grant = 0;
  do {
    const std::uint64_t most = (held + lendable - lent) / 2;
    grant = most > held ? std::min(want, most - held) : 0;
  } while (grant > 0 &&
           !lent_.compare_exchange_weak(lent, lent + grant, std::memory_order_relaxed));
  tenant.lent.fetch_sub(want - grant, std::memory_order_relaxed);
  return grant;
}

void ReplayBudget::take_back(std::uint64_t bytes, ReplayLease::Tenant& tenant) {
  lent_.fetch_sub(bytes, std::memory_order_relaxed);
  tenant.lent.fetch_sub(bytes, std::memory_order_relaxed);
}

ReplayLease& ReplayLease::operator=(ReplayLease&& other) noexcept {
  if (this == &other) return *this;
  reset();
  budget_ = std::exchange(other.budget_, nullptr);
  tenant_ = std::exchange(other.tenant_, nullptr);
  borrowed_ = std::exchange(other.borrowed_, 0);
  return *this;
}

std::uint64_t ReplayLease::granted() const {
  return budget_ == nullptr ? 0 : ReplayBudget::kFloor + borrowed_;
}

std::uint64_t ReplayLease::grow(std::uint64_t need) {
  if (budget_ != nullptr && need > granted()) {
    const std::uint64_t missing = need - granted();
    const std::uint64_t steps = (missing + ReplayBudget::kStep - 1) / ReplayBudget::kStep;
    borrowed_ += budget_->lend(steps * ReplayBudget::kStep, borrowed_, *tenant_);
  }
  return granted();
}

void ReplayLease::shrink(std::uint64_t need) {
  if (budget_ == nullptr) return;
  const std::uint64_t above = need - std::min(need, ReplayBudget::kFloor);
  const std::uint64_t keep = above == 0 ? 0 : above + ReplayBudget::kStep;
  if (borrowed_ <= keep) return;
  budget_->take_back(borrowed_ - keep, *tenant_);
  borrowed_ = keep;
}

void ReplayLease::reset() {
  if (budget_ == nullptr) return;
  if (borrowed_ > 0) budget_->take_back(borrowed_, *tenant_);
  budget_->leave(*tenant_);
  budget_ = nullptr;
  tenant_ = nullptr;
  borrowed_ = 0;
}

}  // namespace fairlead::dataplane
