#include "mesh/waiting_visits.h"

namespace fairlead::dataplane {

std::optional<WaitingVisits::Ticket> WaitingVisits::add(const std::string& tenant,
                                                        link::Instant now) {
  std::size_t& count = per_tenant_count_[tenant];
  if (count >= per_tenant_) return std::nullopt;
  ++count;
  const Ticket ticket = next_++;
  entries_.emplace(ticket, Entry{tenant, now + wait_});
  return ticket;
}

void WaitingVisits::erase(std::map<Ticket, Entry>::iterator at) {
  const auto count = per_tenant_count_.find(at->second.tenant);
  if (--count->second == 0) per_tenant_count_.erase(count);
  entries_.erase(at);
}

void WaitingVisits::remove(Ticket ticket) {
  if (const auto at = entries_.find(ticket); at != entries_.end()) erase(at);
}

std::vector<WaitingVisits::Ticket> WaitingVisits::waiting() const {
  std::vector<Ticket> tickets;
  tickets.reserve(entries_.size());
  for (const auto& [ticket, entry] : entries_) tickets.push_back(ticket);
  return tickets;
}

std::vector<WaitingVisits::Ticket> WaitingVisits::expire(link::Instant now) {
  std::vector<Ticket> expired;
  while (!entries_.empty() && entries_.begin()->second.deadline <= now) {
    expired.push_back(entries_.begin()->first);
    erase(entries_.begin());
  }
  return expired;
}

std::optional<link::Instant> WaitingVisits::next_deadline() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.begin()->second.deadline;
}

}  // namespace fairlead::dataplane
