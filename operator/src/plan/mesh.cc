// Membership list, mesh gates and endpoints.
#include <algorithm>

#include "plan/picture.h"

namespace fairlead::op {
namespace {

// A persisted list that a replica refused (equal epoch, another digest) is replaced after this
// long: time for another leader, if there is one, to find out that it is none.
constexpr std::chrono::seconds kConflictPatience{30};

MemberState member_state(const PlannedReplica& replica) {
  switch (replica.state()) {
    case ReplicaState::kActive:
      return MemberState::kActive;
    case ReplicaState::kDrainRequested:
    case ReplicaState::kDraining:
      return MemberState::kDraining;
    case ReplicaState::kDrained:
    case ReplicaState::kForced:
    case ReplicaState::kDeleting:
      return MemberState::kLeaving;
    default:
      // Not-ready ones are listed too: a new replica could not join otherwise. One that has left
      // the endpoints keeps its links.
      return replica.facts->drain ? MemberState::kLeaving : MemberState::kJoining;
  }
}

std::vector<Member> desired_members(const Picture& picture) {
  std::vector<Member> members;
  for (const PlannedReplica& replica : picture.replicas) {
    const ObservedReplica& facts = *replica.facts;
    if (facts.peer_address.empty()) continue;
    members.push_back({facts.uid, facts.name, facts.peer_address, member_state(replica)});
  }
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.uid < b.uid; });
  return members;
}

bool in_conflict(const PlannedReplica& replica, const Membership& membership) {
  return replica.fresh && membership.epoch != 0 &&
         replica.facts->sample->epoch == membership.epoch &&
         replica.facts->sample->digest != membership.digest;
}

std::optional<Membership> next_membership(const Picture& picture) {
  const Membership& stored = picture.observed.membership;
  std::uint64_t highest = stored.epoch;
  bool conflict = false;
  for (const PlannedReplica& replica : picture.replicas) {
    if (replica.facts->sample) highest = std::max(highest, replica.facts->sample->epoch);
    conflict = conflict || in_conflict(replica, stored);
  }
  const bool patience_is_over =
      picture.observed.now - picture.observed.membership_written_at >= kConflictPatience;
  std::vector<Member> members = desired_members(picture);
  const bool same = members == stored.members && highest == stored.epoch && stored.epoch != 0 &&
                    picture.observed.epoch_raised && !(conflict && patience_is_over);
  if (same) return std::nullopt;
  const std::string digest = membership_digest(members);
  return Membership{highest + 1, digest, std::move(members)};
}

// --- links, as both ends see them ---

std::uint32_t links_up(const PlannedReplica& from, const PlannedReplica& to) {
  for (const PeerSample& peer : from.facts->sample->peers) {
    if (peer.uid == to.facts->uid) return peer.links_up;
  }
  return 0;
}

std::uint32_t links_missing(const PlannedReplica& from, const PlannedReplica& to) {
  for (const PeerSample& peer : from.facts->sample->peers) {
    if (peer.uid != to.facts->uid) continue;
    return peer.links_expected > peer.links_up ? peer.links_expected - peer.links_up : 0;
  }
  return 1;
}

bool linked_both_ways(const PlannedReplica& a, const PlannedReplica& b) {
  return a.fresh && b.fresh && links_up(a, b) > 0 && links_up(b, a) > 0;
}

// Healthy, and neither leaving nor being asked to.
bool can_mesh(const PlannedReplica& replica) {
  return replica.live() && replica.facts->process == ProcessState::kRunning && replica.facts->ready;
}

// Whether most of those that we can ask say that they have no link to `subject`, which we cannot
// ask either. `asker` has no vote: it may be the one that is cut off.
bool reported_dead(const Picture& picture, const PlannedReplica& subject,
                   const PlannedReplica* asker) {
  if (subject.fresh) return false;
  int votes = 0;
  int dead = 0;
  for (const PlannedReplica& voter : picture.replicas) {
    if (&voter == &subject || &voter == asker || !voter.serving || !voter.fresh) continue;
    ++votes;
    if (links_up(voter, subject) == 0) ++dead;
  }
  return dead * 2 > votes;
}

bool may_open(const Picture& picture, const PlannedReplica& replica) {
  if (!can_mesh(replica) || !replica.fresh || replica.facts->mesh_gate == true) return false;
  // One that does not know the present list cannot know whom it must be linked to.
  if (replica.facts->sample->epoch != picture.observed.membership.epoch) return false;
  return std::all_of(
      picture.replicas.begin(), picture.replicas.end(), [&](const PlannedReplica& peer) {
        return &peer == &replica || !can_mesh(peer) || linked_both_ways(replica, peer) ||
               reported_dead(picture, peer, &replica);
      });
}

SetMeshGate gate(const PlannedReplica& replica, bool open) {
  return {replica.facts->name, replica.facts->uid, open};
}

// Takes out at most one replica that its peers report dead, while most keep theirs.
void plan_fence(const Picture& picture, std::vector<Step>& steps) {
  const auto serving = std::count_if(picture.replicas.begin(), picture.replicas.end(),
                                     [](const PlannedReplica& r) { return r.serving; });
  for (const PlannedReplica& replica : picture.replicas) {
    if (!replica.serving || !reported_dead(picture, replica, nullptr)) continue;
    if ((serving - 1) * 2 <= serving) return;
    steps.push_back({gate(replica, false),
                     Event{Event::Type::kWarning, "ReplicaFenced", replica.facts->name,
                           "most other replicas have no link to it and it does not answer: it gets "
                           "no new visitors until it does"}});
    return;
  }
}

}  // namespace

std::uint64_t plan_membership(const Picture& picture, std::vector<Step>& steps) {
  const std::optional<Membership> next = next_membership(picture);
  if (next) steps.push_back({PersistMembership{*next}, std::nullopt});
  const std::uint64_t epoch = next ? next->epoch : picture.observed.membership.epoch;
  for (const PlannedReplica& replica : picture.replicas) {
    // Only where the last answer is young: a hung replica must not hold up the others.
    if (!replica.fresh || replica.facts->sample->epoch >= epoch) continue;
    steps.push_back({PushMembership{replica.facts->name, replica.facts->uid}, std::nullopt});
  }
  return epoch;
}

void plan_endpoints_and_gates(const Picture& picture, std::vector<Step>& steps) {
  std::vector<std::string> serving;
  for (const PlannedReplica& replica : picture.replicas) {
    if (replica.serving) serving.push_back(replica.facts->uid);
  }
  std::sort(serving.begin(), serving.end());
  if (serving != picture.observed.endpoints) steps.push_back({UpdateEndpoints{serving}, {}});

  for (const PlannedReplica& replica : picture.replicas) {
    const bool leaving = replica.facts->drain && !replica.is(ReplicaState::kDeleting);
    if (leaving && replica.facts->mesh_gate == true && !replica.ended()) {
      steps.push_back({gate(replica, false), std::nullopt});
    }
    if (may_open(picture, replica)) {
      steps.push_back(
          {gate(replica, true), Event{Event::Type::kNormal, "ReplicaJoined", replica.facts->name,
                                      "is linked to every other replica and takes visitors"}});
    }
  }
  plan_fence(picture, steps);
}

std::string mesh_fault(const Picture& picture) {
  const Membership& membership = picture.observed.membership;
  std::string fault;
  const auto add = [&](const std::string& sentence) {
    fault += (fault.empty() ? "" : "; ") + sentence;
  };
  for (const PlannedReplica& replica : picture.replicas) {
    if (!can_mesh(replica)) continue;
    const std::string& name = replica.facts->name;
    if (!replica.fresh) {
      add(name + " does not answer");
      continue;
    }
    if (in_conflict(replica, membership)) {
      add(name + " holds another list under the same epoch");
    } else if (replica.facts->sample->epoch != membership.epoch) {
      add(name + " does not hold the present list");
    }
    for (const PlannedReplica& peer : picture.replicas) {
      if (&peer == &replica || !can_mesh(peer) || !peer.fresh) continue;
      const std::uint32_t missing = links_missing(replica, peer);
      if (missing > 0) add(name + " misses links to " + peer.facts->name);
    }
    for (const PeerSample& peer : replica.facts->sample->peers) {
      const bool known = std::any_of(membership.members.begin(), membership.members.end(),
                                     [&](const Member& m) { return m.uid == peer.uid; });
      if (!known && peer.links_up > 0) add(name + " has links to " + peer.uid + ", no member");
    }
  }
  return fault;
}

}  // namespace fairlead::op
