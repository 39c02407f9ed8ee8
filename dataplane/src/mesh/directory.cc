#include "mesh/directory.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <tuple>
#include <utility>

#include "visit/visit_meta.h"

namespace fairlead::dataplane {
namespace {

// Texts have no control characters, so NUL separates them.
std::string agent_key(std::string_view tenant, std::string_view agent_id) {
  std::string key(tenant);
  key += '\0';
  key += agent_id;
  key += '\0';
  return key;
}
std::string agent_key(const AgentEntry& entry) {
  return agent_key(entry.tenant, entry.agent_id);
}
std::string record_key(const AgentEntry& entry) {
  return agent_key(entry) + entry.instance;
}

std::string claim_key(const ServiceName& service) {
  return service.kind + '\0' + service.name;
}

bool newer(const AgentEntry& a, const AgentEntry& b) {
  return std::tie(a.generation, a.instance) > std::tie(b.generation, b.instance);
}
bool same_agent(const AgentEntry& a, const AgentEntry& b) {
  return a.tenant == b.tenant && a.agent_id == b.agent_id;
}
// Of two agents that claim one name.
bool wins(const AgentEntry& a, const AgentEntry& b) {
  return std::tie(a.tenant, a.agent_id) < std::tie(b.tenant, b.agent_id);
}

std::string quoted(const ServiceName& service) {
  return service.kind + " \"" + service.name + '"';
}

// What the holder's tenant may know of it.
std::string held_text(const ServiceName& service, const AgentEntry& holder,
                      std::string_view tenant) {
  if (holder.tenant != tenant) return quoted(service) + " is taken: choose another name";
  return quoted(service) + " is served by agent " + holder.agent_id +
         ": stop that agent, or choose another name";
}

}  // namespace

Directory::Directory(std::string self_uid, std::string boot_id) {
  self_.uid = std::move(self_uid);
  self_.boot_id = std::move(boot_id);
  self_.reachable = self_.synced = true;
}

// --- records and their indexes ---

Directory::Record& Directory::insert(Owner& owner, AgentEntry entry) {
  std::string key = record_key(entry);
  if (const auto old = owner.records.find(key); old != owner.records.end()) erase(owner, old);
  Record& record =
      owner.records.emplace(std::move(key), Record{std::move(entry), &owner, {}}).first->second;
  for (const ServiceName& service : record.entry.services) {
    claims_[claim_key(service)].push_back(&record);
  }
  Agent& agent = agents_[agent_key(record.entry)];
  agent.records.push_back(&record);
  agent.highest_generation = std::max(agent.highest_generation, record.entry.generation);
  return record;
}

void Directory::erase(Owner& owner, std::map<std::string, Record>::iterator at) {
  const Record& record = at->second;
  for (const ServiceName& service : record.entry.services) {
    const auto claim = claims_.find(claim_key(service));
    std::erase(claim->second, &record);
    if (claim->second.empty()) claims_.erase(claim);
  }
  std::erase(agents_.at(agent_key(record.entry)).records, &record);
  for (const AgentLinkId link : record.links) links_.erase(link);
  owner.records.erase(at);
  forget_old_agents();
}

void Directory::clear(Owner& owner) {
  while (!owner.records.empty()) erase(owner, owner.records.begin());
}

// Generations of agents that are gone only make new ones higher than a sleeping older instance has;
// losing some does no more harm than a replica that was never told.
void Directory::forget_old_agents() {
  if (agents_.size() < forget_at_) return;
  std::erase_if(agents_, [](const auto& each) { return each.second.records.empty(); });
  forget_at_ = agents_.size() + kRemembered;
}

// --- agents homed here ---

std::optional<RegistrationRefused> Directory::refusal(const Registration& registration) const {
  const auto final = [](std::string text) { return RegistrationRefused{false, std::move(text)}; };
  const auto fits = [](const std::string& text, std::size_t most) {
    return !text.empty() && text.size() <= most &&
           std::none_of(text.begin(), text.end(),
                        [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  };
  if (!fits(registration.agent_id, kMaxAgentId)) {
    return final("the agent id must have 1 to " + std::to_string(kMaxAgentId) +
                 " bytes and no control characters: set another with --id");
  }
  if (!fits(registration.tenant, kMaxTenant)) return final("the token's tenant has no usable name");
  if (registration.instance.size() != kInstanceSize) {
    return final("the instance must have 16 bytes: this agent does not speak the protocol");
  }
  if (registration.generation > kMaxGeneration) return final("the generation is out of range");
  if (registration.services.empty() || registration.services.size() > kMaxServicesPerAgent) {
    return final("an agent registers 1 to " + std::to_string(kMaxServicesPerAgent) +
                 " services, not " + std::to_string(registration.services.size()));
  }
  for (const ServiceName& service : registration.services) {
    if (fits(service.kind, 16) && fits(service.name, kMaxService)) continue;
    return final("a service's name must have 1 to " + std::to_string(kMaxService) +
                 " bytes and no control characters");
  }
  if (links_.size() >= kMaxEntriesPerOwner) {
    return RegistrationRefused{true, "this replica has as many agents as it can hold"};
  }
  return rival(registration);
}

// A name that another agent holds. Entries that are kept of an unreachable owner hold it too: their
// agent may well be serving by another way.
std::optional<RegistrationRefused> Directory::rival(const Registration& registration) const {
  std::optional<RegistrationRefused> maybe;
  for (const ServiceName& service : registration.services) {
    const auto claim = claims_.find(claim_key(service));
    if (claim == claims_.end()) continue;
    for (const Record* record : claim->second) {
      const AgentEntry& holder = record->entry;
      if (holder.tenant == registration.tenant && holder.agent_id == registration.agent_id)
        continue;
      std::string text = held_text(service, holder, registration.tenant);
      if (record->owner->usable()) return RegistrationRefused{false, std::move(text)};
      maybe = RegistrationRefused{true, std::move(text) + " (its relay cannot be reached now)"};
    }
  }
  return maybe;
}

std::uint64_t Directory::generation_for(const Registration& registration) const {
  if (registration.generation > 0) return registration.generation;
  const auto agent = agents_.find(agent_key(registration.tenant, registration.agent_id));
  if (agent == agents_.end()) return 1;
  // Its other link may have registered elsewhere a moment ago.
  std::uint64_t own = 0;
  for (const Record* record : agent->second.records) {
    if (record->entry.instance == registration.instance) {
      own = std::max(own, record->entry.generation);
    }
  }
  return own > 0 ? own : agent->second.highest_generation + 1;
}

RegistrationResult Directory::add(AgentLinkId link, const Registration& registration) {
  assert(!links_.contains(link));
  if (auto refused = refusal(registration)) return *std::move(refused);
  const std::set<ServiceName> services(registration.services.begin(), registration.services.end());
  AgentEntry entry{.agent_id = registration.agent_id,
                   .tenant = registration.tenant,
                   .instance = registration.instance,
                   .generation = generation_for(registration),
                   .services = {services.begin(), services.end()},
                   .leaving = leaving_};
  if (newer_than(entry) != nullptr) {
    return RegistrationRefused{false, "a newer process of agent " + entry.agent_id +
                                          " has registered: only one runs at a time, give this "
                                          "one its own --id"};
  }
  std::vector<AgentLinkId> links;
  const auto known = self_.records.find(record_key(entry));
  if (known != self_.records.end()) {
    links = known->second.links;
    entry.generation = std::max(entry.generation, known->second.entry.generation);
  }
  const bool news = known == self_.records.end() || known->second.entry != entry;
  const std::uint64_t generation = entry.generation;
  Record& record = insert(self_, entry);
  links.push_back(link);
  record.links = std::move(links);
  for (const AgentLinkId each : record.links) links_[each] = record_key(entry);
  if (news) {
    announce({entry}, {});
    evict_older(entry);
  }
  changed();
  return RegistrationAccepted{generation};
}

void Directory::remove(AgentLinkId link) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  const auto at = self_.records.find(found->second);
  links_.erase(found);
  std::erase(at->second.links, link);
  if (!at->second.links.empty()) return;
  AgentEntry gone = at->second.entry;
  erase(self_, at);
  announce({}, {std::move(gone)});
}

void Directory::leave() {
  if (std::exchange(leaving_, true)) return;
  std::vector<AgentEntry> upsert;
  for (auto& [key, record] : self_.records) {
    record.entry.leaving = true;
    upsert.push_back(record.entry);
  }
  if (!upsert.empty()) announce(std::move(upsert), {});
}

// --- peers ---

void Directory::set_members(const std::vector<std::string>& uids) {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (std::find(uids.begin(), uids.end(), peer->first) != uids.end()) {
      ++peer;
      continue;
    }
    clear(peer->second);
    peer = peers_.erase(peer);
  }
  for (const std::string& uid : uids) {
    if (uid != self_.uid) peers_[uid].uid = uid;
  }
}

void Directory::peer_up(std::string_view uid) {
  if (const auto peer = peers_.find(uid); peer != peers_.end()) peer->second.reachable = true;
}

void Directory::peer_down(std::string_view uid) {
  const auto peer = peers_.find(uid);
  if (peer == peers_.end()) return;
  peer->second.reachable = peer->second.synced = false;
}

Directory::Applied Directory::apply(std::string_view from, const DirectorySnapshot& snapshot) {
  if (snapshot.owner_uid != from) return Applied::kForged;
  const auto peer = peers_.find(from);
  if (peer == peers_.end()) return Applied::kNotMember;
  Owner& owner = peer->second;
  if (!owner.reachable) return Applied::kResync;
  clear(owner);
  owner.boot_id = snapshot.boot_id;
  owner.seq = snapshot.seq;
  owner.synced = true;
  for (const AgentEntry& entry : snapshot.agents) insert(owner, entry);
  for (const auto& [key, record] : owner.records) settle(record);
  changed();
  return Applied::kDone;
}

Directory::Applied Directory::apply(std::string_view from, const DirectoryDelta& delta) {
  if (delta.owner_uid != from) return Applied::kForged;
  const auto peer = peers_.find(from);
  if (peer == peers_.end()) return Applied::kNotMember;
  Owner& owner = peer->second;
  if (!owner.synced || delta.boot_id != owner.boot_id) return Applied::kResync;
  if (delta.seq <= owner.seq) return Applied::kDone;
  if (delta.seq != owner.seq + 1) return Applied::kResync;
  owner.seq = delta.seq;
  for (const AgentEntry& entry : delta.remove) {
    const auto at = owner.records.find(record_key(entry));
    if (at != owner.records.end()) erase(owner, at);
  }
  for (const AgentEntry& entry : delta.upsert) settle(insert(owner, entry));
  if (!delta.upsert.empty()) changed();
  return Applied::kDone;
}

DirectorySnapshot Directory::snapshot() const {
  DirectorySnapshot snapshot{self_.uid, self_.boot_id, self_.seq, {}};
  for (const auto& [key, record] : self_.records) snapshot.agents.push_back(record.entry);
  return snapshot;
}

// --- who stays ---

// An entry in use that makes this one superseded.
const Directory::Record* Directory::newer_than(const AgentEntry& entry) const {
  const auto agent = agents_.find(agent_key(entry));
  if (agent == agents_.end()) return nullptr;
  for (const Record* record : agent->second.records) {
    if (record->owner->usable() && record->entry.instance != entry.instance &&
        newer(record->entry, entry)) {
      return record;
    }
  }
  return nullptr;
}

template <typename Event>
void Directory::evict(const std::string& key, const std::string& text) {
  const auto at = self_.records.find(key);
  for (const AgentLinkId link : at->second.links) events_.push_back(Event{link, text});
  AgentEntry gone = at->second.entry;
  erase(self_, at);
  announce({}, {std::move(gone)});
}

void Directory::evict_older(const AgentEntry& newest) {
  std::vector<std::string> keys;
  for (const Record* record : agents_.at(agent_key(newest)).records) {
    if (record->owner == &self_ && record->entry.instance != newest.instance &&
        newer(newest, record->entry)) {
      keys.push_back(record_key(record->entry));
    }
  }
  for (const std::string& key : keys) {
    evict<directory_event::Superseded>(key, "a newer process of agent " + newest.agent_id +
                                                " has registered and replaced this one");
  }
}

void Directory::evict_rivals_of(const Record& record) {
  std::map<std::string, std::string> texts;  // by the loser's key
  for (const ServiceName& service : record.entry.services) {
    for (const Record* other : claims_.at(claim_key(service))) {
      if (other->owner == &self_ && !same_agent(other->entry, record.entry) &&
          wins(record.entry, other->entry)) {
        texts.emplace(record_key(other->entry),
                      held_text(service, record.entry, other->entry.tenant));
      }
    }
  }
  for (const auto& [key, text] : texts) evict<directory_event::Evicted>(key, text);
}

// A peer's entry came: agents here may have lost their place to it.
void Directory::settle(const Record& record) {
  if (!record.owner->usable()) return;
  evict_older(record.entry);
  if (newer_than(record.entry) == nullptr) evict_rivals_of(record);
}

void Directory::announce(std::vector<AgentEntry> upsert, std::vector<AgentEntry> remove) {
  ++self_.seq;
  events_.push_back(directory_event::Announce{
      {self_.uid, self_.boot_id, self_.seq, std::move(upsert), std::move(remove)}});
}

void Directory::changed() {
  if (!events_.empty() && std::holds_alternative<directory_event::Changed>(events_.back())) return;
  events_.push_back(directory_event::Changed{});
}

// --- lookups ---

std::vector<Home> Directory::lookup(std::string_view tenant, const ServiceName& service) const {
  const auto claim = claims_.find(claim_key(service));
  if (claim == claims_.end()) return {};
  // While two agents hold the name, everybody sends visits to the one that will keep it.
  const AgentEntry* holder = nullptr;
  std::vector<const Record*> usable;
  for (const Record* record : claim->second) {
    if (!record->owner->usable() || newer_than(record->entry) != nullptr) continue;
    usable.push_back(record);
    if (holder == nullptr || wins(record->entry, *holder)) holder = &record->entry;
  }
  if (holder == nullptr || holder->tenant != tenant) return {};
  std::vector<Home> homes;
  for (const Record* record : usable) {
    if (!same_agent(record->entry, *holder)) continue;
    homes.push_back({.replica_uid = record->owner->uid,
                     .local = record->owner == &self_,
                     .leaving = record->entry.leaving,
                     .agent_id = record->entry.agent_id,
                     .instance = record->entry.instance,
                     .generation = record->entry.generation});
  }
  std::sort(homes.begin(), homes.end(), [](const Home& a, const Home& b) {
    return std::tuple(a.leaving, !a.local, std::string_view(a.replica_uid)) <
           std::tuple(b.leaving, !b.local, std::string_view(b.replica_uid));
  });
  return homes;
}

std::vector<AgentLinkId> Directory::links(std::string_view tenant, std::string_view agent_id,
                                          std::string_view instance) const {
  const auto at = self_.records.find(agent_key(tenant, agent_id).append(instance));
  return at == self_.records.end() ? std::vector<AgentLinkId>() : at->second.links;
}

std::vector<Directory::Row> Directory::rows() const {
  std::vector<Row> rows;
  const auto add = [&](const Owner& owner) {
    for (const auto& [key, record] : owner.records) {
      rows.push_back(
          {owner.uid, record.entry, owner.usable() && newer_than(record.entry) == nullptr});
    }
  };
  add(self_);
  for (const auto& [uid, owner] : peers_) add(owner);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.owner_uid < b.owner_uid; });
  return rows;
}

std::optional<DirectoryEvent> Directory::poll_event() {
  if (events_.empty()) return std::nullopt;
  DirectoryEvent next = std::move(events_.front());
  events_.pop_front();
  return next;
}

}  // namespace fairlead::dataplane
