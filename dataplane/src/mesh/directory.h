// Which agents are homed where: this replica's own list and what its peers announced. No I/O.
//
// The owner tells it what happens (an agent registered, a link to a peer stood or fell, a message
// of a peer came, the membership changed) and does what poll_event() says, until it returns
// nothing, after every call that is not const.
//
// Rules
// - Each replica owns the list of agents homed at it and announces it: a snapshot when a control
//   session to a peer opens, then a delta per change. A version is (boot id, seq): a new boot id
//   replaces everything, a gap asks for a new snapshot, an old delta is ignored.
// - An owner's entries are used while a link to it stands and it has sent a snapshot since that
// link
//   stood. Otherwise they are kept, unused, until it resyncs or leaves the membership.
// - An agent id (of one tenant) has one live instance. The newest is the one with the highest
//   generation, then the larger instance bytes; older ones are superseded on every replica as soon
//   as it is known there. Links of one instance never evict each other.
// - A service name belongs to one agent id in the cluster. A registration that names one that is
//   held is refused. Two homes that admit rivals at the same time both see it when they have
//   exchanged their lists, and both decide for the smaller (tenant, agent id); the other is
//   evicted.
//
// Memory: the entries (bounded per owner, kMaxEntriesPerOwner) and the highest generation of up to
// kRemembered agent ids that have no entry now. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "mesh/directory_messages.h"

namespace fairlead::dataplane {

// The owner's name for one link of an agent to this replica.
using AgentLinkId = std::uint64_t;

struct Registration {
  std::string tenant;  // of the token, which allows every name in `services`
  std::string agent_id;
  std::string instance;          // 16 bytes
  std::uint64_t generation = 0;  // what an earlier Registered said; 0 at the instance's first
  std::vector<ServiceName> services;
};

struct RegistrationRefused {
  bool retry = false;  // it may be accepted later without a change by the agent
  std::string text;    // for the agent's user: what is wrong, by whom, what to do
};
struct RegistrationAccepted {
  std::uint64_t generation = 0;
};
using RegistrationResult = std::variant<RegistrationAccepted, RegistrationRefused>;

// A home where a service can be reached.
struct Home {
  std::string replica_uid;  // this replica's own for a local one
  bool local = false;
  bool leaving = false;
  std::string agent_id;
  std::string instance;
  std::uint64_t generation = 0;

  bool operator==(const Home&) const = default;
};

namespace directory_event {
// Send it to every peer whose control session is open.
struct Announce {
  DirectoryDelta delta;
};
// A newer instance of the agent registered somewhere: tell the agent "replaced" and end the link.
struct Superseded {
  AgentLinkId link;
  std::string text;
};
// A rival holds one of the agent's names: refuse the agent with the text and end the link.
struct Evicted {
  AgentLinkId link;
  std::string text;
};
// Something may be found now that was not before: try the waiting visits again.
struct Changed {};
}  // namespace directory_event
using DirectoryEvent = std::variant<directory_event::Announce, directory_event::Superseded,
                                    directory_event::Evicted, directory_event::Changed>;

class Directory {
 public:
  static constexpr std::size_t kRemembered = 65'536;

  // `boot_id` is random, one per process.
  Directory(std::string self_uid, std::string boot_id);
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // --- agents homed here ---

  // One link of an agent registers; `link` is new. Refused: a field out of bounds, a name that
  // another agent holds (naming it when it is of the same tenant), an instance that is not the
  // newest. An accepted link stays in the list until remove() or until it is superseded or evicted,
  // which removes it before the event is given.
  RegistrationResult add(AgentLinkId link, const Registration& registration);
  // The link ended, or takes no new visits. Unknown links are ignored.
  void remove(AgentLinkId link);
  // This replica leaves: its entries, also future ones, come last in every lookup. For good.
  void leave();

  // --- peers ---

  // Uids of all members. Entries of owners that are none any more are forgotten.
  void set_members(const std::vector<std::string>& uids);
  // A first link to the peer stands; the last one fell. Unknown peers are ignored.
  void peer_up(std::string_view uid);
  void peer_down(std::string_view uid);

  enum class Applied : std::uint8_t {
    kDone,
    kResync,     // versions do not join, or no link is known to stand: end the control session, the
                 // next one brings a snapshot
    kNotMember,  // the peer is not in our membership (yet): drop, ask again by a new session
    kForged,     // the peer speaks for another owner: end its link
  };
  // From the authenticated peer `from`.
  Applied apply(std::string_view from, const DirectorySnapshot& snapshot);
  Applied apply(std::string_view from, const DirectoryDelta& delta);
  // This replica's own list; what a new control session starts with.
  DirectorySnapshot snapshot() const;

  // --- lookups ---

  // Where the service can be reached now, the best first: here, then elsewhere, leaving homes last.
  // Only the newest instance of the one agent that holds the name; empty when there is none.
  std::vector<Home> lookup(std::string_view tenant, const ServiceName& service) const;
  // Links here of that very instance; empty: answer with code 12 (not here).
  std::vector<AgentLinkId> links(std::string_view tenant, std::string_view agent_id,
                                 std::string_view instance) const;

  struct Row {
    std::string owner_uid;
    AgentEntry entry;
    bool used = false;  // its owner can be reached and it is the newest instance

    bool operator==(const Row&) const = default;
  };
  std::vector<Row> rows() const;  // by owner, then agent

  std::optional<DirectoryEvent> poll_event();

 private:
  struct Record;
  struct Owner {
    std::string uid;
    std::string boot_id;
    std::uint64_t seq = 0;
    bool reachable = false;
    bool synced = false;
    std::map<std::string, Record> records;  // by record_key()

    bool usable() const { return reachable && synced; }
  };
  struct Record {
    AgentEntry entry;
    const Owner* owner;
    std::vector<AgentLinkId> links;  // of a local one
  };
  // What is known of an agent id.
  struct Agent {
    std::vector<const Record*> records;
    std::uint64_t highest_generation = 0;  // ever seen
  };

  Record& insert(Owner& owner, AgentEntry entry);
  void erase(Owner& owner, std::map<std::string, Record>::iterator at);
  void clear(Owner& owner);
  void forget_old_agents();
  std::optional<RegistrationRefused> refusal(const Registration& registration) const;
  std::optional<RegistrationRefused> rival(const Registration& registration) const;
  std::uint64_t generation_for(const Registration& registration) const;
  const Record* newer_than(const AgentEntry& entry) const;
  void evict_older(const AgentEntry& newer);
  void evict_rivals_of(const Record& record);
  template <typename Event>
  void evict(const std::string& key, const std::string& text);
  void settle(const Record& record);
  void announce(std::vector<AgentEntry> upsert, std::vector<AgentEntry> remove);
  void changed();

  Owner self_;
  bool leaving_ = false;
  std::map<std::string, Owner, std::less<>> peers_;
  std::unordered_map<std::string, std::vector<const Record*>> claims_;  // by claim_key()
  std::unordered_map<std::string, Agent> agents_;                       // by agent_key()
  std::unordered_map<AgentLinkId, std::string> links_;                  // to record_key()
  std::size_t forget_at_ = kRemembered;
  std::deque<DirectoryEvent> events_;
};

}  // namespace fairlead::dataplane
