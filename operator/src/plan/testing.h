// Observed clusters in a line of text, for tests of the plan.
//
//   Scene scene("A0 active; A1 active visits=7; B0 starting", "B");
//
// reads: revisions are letters (image fairlead:<letter>), a replica is <letter><slot>[.<attempt>],
// its uid is the same text, and the spec asks for the second argument's revision. By default every
// replica is old enough to be available, answers, and is linked to every other one, the stored
// membership and endpoints are what the plan would make of them, and the operator leads already:
// only what a test is about leads to a step.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace fairlead::op::testing {

class Scene {
 public:
  explicit Scene(const std::string& replicas, const std::string& update_revision = "A",
                 int wanted = 3);

  // Words after the replica are its state (see apply_state() for each) and then facts about it:
  // visits=N old=SECONDS node=NAME nodedrain silent (its admin endpoint does not answer) linked (a
  // joining one has its links) endedfor=SECONDS unreadyfor=SECONDS deadline=SECONDS (of its drain,
  // from now) drainnow lost=N.
  void add(const std::string& replica);
  ObservedReplica& at(const std::string& uid);

  // Stores what the plan would store: afterwards only other things lead to steps.
  void settle();

  Plan plan() const { return make_plan(cluster, observed); }
  // Creates, deletes and drains of the plan, revisions as letters: "Create B-0-1",
  // "RequestDrain A-2-1 rollout".
  std::vector<std::string> steps() const;
  // Those of membership, gates and endpoints.
  std::vector<std::string> mesh_steps() const;
  // "Progressing" -> "WaitingForDrain: <message>" with letters for revisions.
  std::string condition(const std::string& type) const;
  std::vector<std::string> event_reasons() const;

  static std::string revision(const std::string& letter);
  static std::string with_letters(std::string text);

  RelayCluster cluster;
  Observed observed;

 private:
  bool reachable(const ObservedReplica& replica) const;
  void apply_word(const std::string& word, ObservedReplica& replica);
  void apply_state(const std::string& word, const std::string& value, ObservedReplica& replica);

  std::set<std::string> unlinked_;
};

inline constexpr WallTime kNow{std::chrono::seconds(1700000000)};

}  // namespace fairlead::op::testing
