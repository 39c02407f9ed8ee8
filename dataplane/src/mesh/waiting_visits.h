// New visits for which no home is known: they wait a little for the directory to change.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

// Tickets in order of arrival. The owner tries every waiting() visit again when the directory
// changed, removes those that found a home or whose visitor left, and ends those that expire()
// gives. Bounded per tenant, so that a tenant whose agents are away holds neither memory nor
// sockets of others. Not thread-safe.
class WaitingVisits {
 public:
  using Ticket = std::uint64_t;
  static constexpr std::chrono::seconds kWait{3};
  static constexpr std::size_t kPerTenant = 256;

  explicit WaitingVisits(link::Duration wait = kWait, std::size_t per_tenant = kPerTenant)
      : wait_(wait), per_tenant_(per_tenant) {}

  // Nothing when the tenant has as many waiting as it may: refuse the visit at once (no agent).
  std::optional<Ticket> add(const std::string& tenant, link::Instant now);
  void remove(Ticket ticket);  // unknown tickets are ignored
  // All that wait, oldest first.
  std::vector<Ticket> waiting() const;
  // Removes and returns those whose time is over.
  std::vector<Ticket> expire(link::Instant now);
  // When to call expire(); nothing when none waits.
  std::optional<link::Instant> next_deadline() const;
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string tenant;
    link::Instant deadline;
  };
  void erase(std::map<Ticket, Entry>::iterator at);

  const link::Duration wait_;
  const std::size_t per_tenant_;
  Ticket next_ = 1;
  std::map<Ticket, Entry> entries_;  // by ticket, hence by deadline
  std::map<std::string, std::size_t> per_tenant_count_;
};

}  // namespace fairlead::dataplane
