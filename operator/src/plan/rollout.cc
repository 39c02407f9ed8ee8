// Which replicas are created, drained and deleted.
#include <algorithm>
#include <set>
#include <tuple>

#include "plan/picture.h"

namespace fairlead::op {
namespace {

using std::chrono::seconds;

// An old replica that is not healthy for this long is replaced out of turn: it serves nobody.
constexpr seconds kUnhealthyPatience{30};
// The reason of a drain that the operator did not ask for.
constexpr const char* kTerminated = "terminated";

class Rollout {
 public:
  Rollout(Picture& picture, std::vector<Step>& steps)
      : picture_(picture), spec_(picture.cluster.spec), steps_(steps) {}

  RolloutNotes run() {
    adopt_drains();
    remove_finished();
    remove_superseded();
    scale_down();
    retry_failed();
    create_missing();
    drain_outdated();
    forget_revisions();
    return notes_;
  }

 private:
  WallTime now() const { return picture_.observed.now; }

  template <typename Condition>
  int count(Condition condition) const {
    return static_cast<int>(
        std::count_if(picture_.replicas.begin(), picture_.replicas.end(), condition));
  }
  int live() const {
    return created_ + count([](const PlannedReplica& r) { return r.live(); });
  }
  int live_updated() const {
    return created_updated_ + count([](const PlannedReplica& r) { return r.live() && r.updated; });
  }
  int live_outdated() const { return live() - live_updated(); }
  int available() const {
    return count([](const PlannedReplica& r) { return r.live() && r.available; });
  }

  void remove(PlannedReplica& replica, std::string why, Event event) {
    replica.taken = true;
    event.about = replica.facts->name;
    steps_.push_back(
        {DeleteReplica{replica.facts->name, replica.facts->uid, std::move(why)}, std::move(event)});
  }
  void remove(PlannedReplica& replica, std::string why, Event::Type type = Event::Type::kNormal) {
    Event event{type, "ReplicaDeleted", "", why};
    remove(replica, std::move(why), std::move(event));
  }
  // The next create of that revision takes the slot of what it replaces, so that its attempt counts
  // on.
  void replace(const PlannedReplica& replica) {
    reusable_.emplace_back(replica.facts->revision, replica.facts->slot);
  }

  void request_drain(PlannedReplica& replica, const std::string& reason) {
    replica.taken = true;
    const DrainIntent intent{reason, now(), now() + spec_.drain.timeout, spec_.replicas == 0};
    steps_.push_back({RequestDrain{replica.facts->name, replica.facts->uid, intent},
                      Event{Event::Type::kNormal, "DrainRequested", replica.facts->name,
                            reason + "; ends by itself or at " + format_time(intent.deadline)}});
  }

  void create(const std::string& revision);
  std::pair<int, int> next_name(const std::string& revision);

  void adopt_drains();
  void remove_finished();
  void remove_superseded();
  void scale_down();
  void retry_failed();
  void create_missing();
  int heal_while_frozen();
  void drain_outdated();
  void forget_revisions();
  std::vector<PlannedReplica*> victims(bool outdated_only);
  bool may_drain(const PlannedReplica& victim) const;

  Picture& picture_;
  const RelayClusterSpec& spec_;
  std::vector<Step>& steps_;
  RolloutNotes notes_;
  int created_ = 0;
  int created_updated_ = 0;
  std::set<std::string> stored_;                       // revisions stored by this plan
  std::set<std::pair<std::string, int>> named_;        // (revision, slot) created by this plan
  std::vector<std::pair<std::string, int>> reusable_;  // (revision, slot)
};

// A relay that drains without our asking (someone sent SIGTERM) does not come back: the record
// follows, so that the drain has a deadline and a reason like any other.
void Rollout::adopt_drains() {
  for (PlannedReplica& replica : picture_.replicas) {
    const ObservedReplica& facts = *replica.facts;
    if (facts.drain || facts.deletion_requested || !replica.fresh) continue;
    const DrainSample& drain = facts.sample->drain;
    if (drain.phase == DrainPhase::kNone) continue;
    replica.taken = true;
    const DrainIntent intent{kTerminated, now() - drain.elapsed,
                             now() + (drain.deadline - drain.elapsed), spec_.replicas == 0};
    steps_.push_back({RequestDrain{facts.name, facts.uid, intent},
                      Event{Event::Type::kWarning, "DrainAdopted", facts.name,
                            "drains without having been asked by the operator"}});
  }
}

void Rollout::remove_finished() {
  for (PlannedReplica& replica : picture_.replicas) {
    if (replica.taken || replica.facts->deletion_requested) continue;
    const ObservedReplica& facts = *replica.facts;
    const bool wanted =
        facts.revision == picture_.update_revision || facts.revision == picture_.fallback_revision;
    if (replica.is(ReplicaState::kLost)) {
      remove(replica, "its node is lost", Event::Type::kWarning);
    } else if (facts.drain && replica.ended()) {
      // One that was told to end by someone else ends by itself once it is drained.
      const bool expected = facts.drain->reason == kTerminated;
      remove(replica, "its process ended during the drain: " + facts.process_message,
             expected ? Event::Type::kNormal : Event::Type::kWarning);
    } else if (facts.drain && replica.is(ReplicaState::kDrained)) {
      const auto took = std::chrono::duration_cast<seconds>(facts.sample->drain.elapsed);
      remove(replica, "drained",
             {Event::Type::kNormal, "DrainCompleted", "",
              "drained in " + std::to_string(took.count()) + " s, nothing was lost"});
    } else if (facts.drain && replica.is(ReplicaState::kForced)) {
      remove(
          replica, "drain deadline",
          {Event::Type::kWarning, "DrainForced", "",
           std::to_string(facts.sample->drain.lost) + " visits were reset at the drain deadline"});
    } else if (replica.ended() && replica.ever_active) {
      remove(replica, "its process ended: " + replica.assessment.detail, Event::Type::kWarning);
      replace(replica);
    } else if (replica.ended() && replica.assessment.cause == kNotStarted) {
      remove(replica, "was recorded but never started");
      if (wanted) replace(replica);
    }
  }
}

// What never served of a revision that nobody wants any more goes at once, failing ones before
// anything else: a fix is never held up by what it fixes.
void Rollout::remove_superseded() {
  for (PlannedReplica& replica : picture_.replicas) {
    if (!replica.live() || replica.ever_active || replica.updated) continue;
    const bool fallback = replica.facts->revision == picture_.fallback_revision;
    const bool failing = replica.is(ReplicaState::kFailing);
    if (fallback && (!failing || picture_.held_back())) continue;
    remove(replica, "never served, and revision " + replica.facts->revision + " was superseded");
  }
}

// Best victim first. Being unready puts a replica first; it never spares it a drain.
std::vector<PlannedReplica*> Rollout::victims(bool outdated_only) {
  std::map<std::string, int> crowd;
  for (const PlannedReplica& replica : picture_.replicas) {
    if (replica.live()) ++crowd[replica.facts->node];
  }
  const auto rank = [&](const PlannedReplica& replica) {
    const ObservedReplica& facts = *replica.facts;
    const std::uint64_t visits = facts.sample ? facts.sample->visits : 0;
    return std::make_tuple(!replica.is(ReplicaState::kFailing), replica.serving, replica.available,
                           replica.updated, !facts.node_draining, -crowd[facts.node], visits,
                           -facts.created_at.time_since_epoch().count(), facts.name);
  };
  std::vector<PlannedReplica*> found;
  for (PlannedReplica& replica : picture_.replicas) {
    if (replica.live() && !(outdated_only && replica.updated)) found.push_back(&replica);
  }
  std::sort(found.begin(), found.end(),
            [&](const PlannedReplica* a, const PlannedReplica* b) { return rank(*a) < rank(*b); });
  return found;
}

void Rollout::scale_down() {
  const bool mixed = live_updated() > 0 && live_outdated() > 0;
  const int surge = mixed && spec_.replicas > 0 ? spec_.rollout.max_surge : 0;
  int excess = live() - spec_.replicas - surge;
  for (PlannedReplica* victim : victims(false)) {
    if (excess-- <= 0) return;
    if (!victim->ever_active) {
      remove(*victim, "not needed any more");
    } else {
      request_drain(*victim, "scale-down");
    }
  }
}

// A replica that failed before it ever served is shown for a while and then tried again.
void Rollout::retry_failed() {
  for (PlannedReplica& replica : picture_.replicas) {
    if (!replica.live() || !replica.ended() || replica.ever_active) continue;
    if (now() < replica.facts->process_since + retry_pause(replica.facts->attempt)) continue;
    remove(replica, "trying again: " + replica.assessment.cause);
    replace(replica);
    create(replica.facts->revision);
  }
}

std::pair<int, int> Rollout::next_name(const std::string& revision) {
  const auto attempt_of = [&](int slot) {
    int highest = 0;
    for (const PlannedReplica& replica : picture_.replicas) {
      const ObservedReplica& facts = *replica.facts;
      if (facts.revision == revision && facts.slot == slot) {
        highest = std::max(highest, facts.attempt);
      }
    }
    return highest + 1;
  };
  for (auto it = reusable_.begin(); it != reusable_.end(); ++it) {
    if (it->first != revision || named_.contains(*it)) continue;
    const int slot = it->second;
    reusable_.erase(it);
    return {slot, attempt_of(slot)};
  }
  int slot = 0;
  while (named_.contains({revision, slot}) || attempt_of(slot) > 1) ++slot;
  return {slot, 1};
}

void Rollout::create(const std::string& revision) {
  const auto missing = picture_.observed.missing_secrets.find(revision);
  if (missing != picture_.observed.missing_secrets.end() && !missing->second.empty()) return;
  const bool update = revision == picture_.update_revision;
  const auto is_it = [&](const RevisionRecord& r) { return r.revision == revision; };
  const bool is_stored =
      std::any_of(picture_.observed.revisions.begin(), picture_.observed.revisions.end(), is_it);
  if (!is_stored && !update) return;  // its configuration is gone: nothing to make it from
  if (!is_stored && stored_.insert(revision).second) {
    steps_.push_back({PutRevision{{revision, picture_.update_intent, now()}}, std::nullopt});
  }
  const auto [slot, attempt] = next_name(revision);
  named_.emplace(revision, slot);
  const std::string name = picture_.cluster.name + "-" + revision + "-" + std::to_string(slot) +
                           "-" + std::to_string(attempt);
  steps_.push_back({CreateReplica{name, revision, slot, attempt},
                    Event{Event::Type::kNormal, "ReplicaCreated", name, "revision " + revision}});
  ++created_;
  created_updated_ += update ? 1 : 0;
}

// While a rollout is frozen, what it may not fall below is kept up with the revision that works.
int Rollout::heal_while_frozen() {
  const int healthy =
      count([](const PlannedReplica& r) { return r.live() && !r.is(ReplicaState::kFailing); });
  const int needed = spec_.replicas - spec_.rollout.max_unavailable - healthy;
  const int room = spec_.replicas + spec_.rollout.max_surge - live();
  if (needed > 0 && room <= 0) {
    for (PlannedReplica& replica : picture_.replicas) {
      if (!replica.live() || replica.ever_active || !replica.is(ReplicaState::kFailing)) continue;
      remove(replica, "makes room for a replica of revision " + picture_.fallback_revision);
      break;
    }
  }
  return std::min(needed, room);
}

void Rollout::create_missing() {
  int missing = 0;
  std::string revision = picture_.update_revision;
  if (picture_.held_back()) {
    revision = picture_.fallback_revision;
    missing = picture_.frozen() ? heal_while_frozen() : spec_.replicas - live();
  } else {
    const int surge = live_outdated() > 0 ? spec_.rollout.max_surge : 0;
    missing = std::min(spec_.replicas + surge - live(), spec_.replicas - live_updated());
  }
  for (; missing > 0; --missing) create(revision);
}

bool Rollout::may_drain(const PlannedReplica& victim) const {
  const int floor = spec_.replicas - spec_.rollout.max_unavailable;
  if (victim.available) return available() - 1 >= floor;
  // Serving, but not for long enough to be counted: it will be in a moment.
  if (victim.serving) return false;
  return now() - victim.facts->ready_since >= kUnhealthyPatience;
}

void Rollout::drain_outdated() {
  if (picture_.held_back() || spec_.rollout.paused || picture_.frozen()) return;
  const int budget =
      spec_.drain.max_draining > 0 ? spec_.drain.max_draining : std::max(spec_.replicas, 1);
  int leaving = count([](const PlannedReplica& r) {
    const bool asked = r.taken && r.ever_active && !r.ended();
    return !r.is(ReplicaState::kLost) && (r.facts->drain || r.is(ReplicaState::kDeleting) || asked);
  });
  for (PlannedReplica* victim : victims(true)) {
    if (!victim->ever_active || !may_drain(*victim)) continue;
    if (leaving >= budget) {
      notes_.waits_for_drain = true;
      return;
    }
    request_drain(*victim, "rollout");
    ++leaving;
  }
}

// A configuration goes after its last replica, except for the two that replicas may be made from.
void Rollout::forget_revisions() {
  for (const RevisionRecord& record : picture_.observed.revisions) {
    const std::string& revision = record.revision;
    if (revision == picture_.update_revision || revision == picture_.fallback_revision) continue;
    const bool used =
        count([&](const PlannedReplica& r) { return r.facts->revision == revision; }) > 0;
    if (!used) steps_.push_back({RemoveRevision{revision}, std::nullopt});
  }
}

}  // namespace

RolloutNotes plan_rollout(Picture& picture, std::vector<Step>& steps) {
  return Rollout(picture, steps).run();
}

void plan_drains(const Picture& picture, std::uint64_t epoch, std::vector<Step>& steps) {
  for (const PlannedReplica& replica : picture.replicas) {
    const ObservedReplica& facts = *replica.facts;
    // Where the admin endpoint does not answer nothing is known, and nothing is ordered.
    if (replica.taken || !facts.drain || facts.deletion_requested || !replica.fresh) continue;
    const DrainSample& drain = facts.sample->drain;
    const bool begun = drain.phase == DrainPhase::kDelay || drain.phase == DrainPhase::kDraining;
    // Within one process its own clock decides; only a person's wish shortens it.
    const bool shorten = begun && facts.drain_now && drain.deadline - drain.elapsed > seconds(1);
    if (drain.phase != DrainPhase::kNone && !shorten) continue;
    using std::chrono::milliseconds;
    const auto left =
        std::chrono::duration_cast<milliseconds>(facts.drain->deadline - picture.observed.now);
    DrainOrder order;
    order.epoch = epoch;
    order.reason = facts.drain->reason;
    order.deadline = facts.drain_now ? milliseconds(0) : std::max(left, milliseconds(0));
    order.endpoint_delay = picture.cluster.spec.drain.endpoint_delay;
    order.final = facts.drain->final;
    steps.push_back({SendDrain{facts.name, facts.uid, order}, std::nullopt});
  }
}

}  // namespace fairlead::op
