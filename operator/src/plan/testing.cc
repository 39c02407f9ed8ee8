#include "plan/testing.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace fairlead::op::testing {
namespace {

using std::chrono::seconds;

constexpr const char* kLetters[] = {"A", "B", "C"};

seconds seconds_of(const std::string& text) {
  return seconds(std::atoi(text.c_str()));
}

RelayClusterSpec spec_of(RelayClusterSpec spec, const std::string& letter) {
  spec.image = "fairlead:" + letter;
  return spec;
}

void serve(ObservedReplica& replica) {
  replica.ready = true;
  replica.ready_since = kNow - seconds(1000);
  replica.mesh_gate = true;
  replica.mesh_gate_since = kNow - seconds(1000);
}

void drain(ObservedReplica& replica, DrainPhase phase) {
  serve(replica);
  replica.mesh_gate = false;
  replica.drain = DrainIntent{"rollout", kNow - seconds(100), kNow + seconds(3500), false};
  DrainSample& sample = replica.sample->drain;
  sample.phase = phase;
  sample.visits = phase == DrainPhase::kDraining ? 3 : 0;
  sample.elapsed = seconds(100);
  sample.deadline = seconds(3600);
}

}  // namespace

Scene::Scene(const std::string& replicas, const std::string& update_revision, int wanted) {
  cluster.name = "demo";
  cluster.uid = "cluster-uid";
  cluster.generation = 1;
  cluster.spec.replicas = wanted;
  observed.now = kNow;
  observed.epoch_raised = true;
  std::stringstream list(replicas);
  for (std::string one; std::getline(list, one, ';');) add(one);
  for (const char* letter : kLetters) {
    const bool used = std::any_of(observed.replicas.begin(), observed.replicas.end(),
                                  [&](const auto& r) { return r.revision == revision(letter); });
    if (!used) continue;
    observed.revisions.push_back(
        {revision(letter), render_intent(spec_of({}, letter)), kNow - seconds(5000)});
  }
  cluster.spec = spec_of(cluster.spec, update_revision);
  settle();
}

void Scene::add(const std::string& text) {
  std::stringstream words(text);
  ObservedReplica replica;
  words >> replica.uid;
  const std::size_t dot = replica.uid.find('.');
  replica.slot = std::atoi(replica.uid.substr(1, dot - 1).c_str());
  if (dot != std::string::npos) replica.attempt = std::atoi(replica.uid.substr(dot + 1).c_str());
  replica.revision = revision(replica.uid.substr(0, 1));
  replica.name = "demo-" + replica.revision + "-" + std::to_string(replica.slot) + "-" +
                 std::to_string(replica.attempt);
  replica.created_at = kNow - seconds(20);
  replica.process = ProcessState::kRunning;
  replica.process_since = kNow - seconds(20);
  replica.peer_address = "127.0.0.9:7001";
  replica.sample.emplace();
  for (std::string word; words >> word;) apply_word(word, replica);
  observed.replicas.push_back(std::move(replica));
}

void Scene::apply_word(const std::string& word, ObservedReplica& replica) {
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (key == "visits") {
    replica.sample->visits = static_cast<std::uint64_t>(std::atoi(value.c_str()));
  } else if (key == "lost" && !value.empty()) {
    replica.sample->drain.lost = static_cast<std::uint64_t>(std::atoi(value.c_str()));
  } else if (key == "old") {
    replica.created_at = kNow - seconds_of(value);
  } else if (key == "node") {
    replica.node = value;
  } else if (key == "nodedrain") {
    replica.node_draining = true;
  } else if (key == "linked") {
    unlinked_.erase(replica.uid);
  } else if (key == "silent") {
    replica.sample->age = seconds(60);
  } else if (key == "endedfor") {
    replica.process_since = kNow - seconds_of(value);
  } else if (key == "unreadyfor") {
    replica.ready_since = kNow - seconds_of(value);
  } else if (key == "deadline") {
    replica.drain->deadline = kNow + seconds_of(value);
  } else if (key == "drainnow") {
    replica.drain_now = true;
  } else {
    apply_state(key, value, replica);
  }
}

void Scene::apply_state(const std::string& state, const std::string& value,
                        ObservedReplica& replica) {
  if (state == "creating") {
    replica.process = ProcessState::kPending;
  } else if (state == "starting") {
    return;
  } else if (state == "joining") {
    replica.ready = true;
    replica.ready_since = kNow;
    unlinked_.insert(replica.uid);
  } else if (state == "active") {
    serve(replica);
  } else if (state == "settling") {
    serve(replica);
    replica.mesh_gate_since = kNow - seconds(1);
  } else if (state == "unready") {
    serve(replica);
    replica.ready = false;
    replica.ready_since = kNow - seconds(1);
  } else if (state == "failing") {
    replica.process = ProcessState::kPending;
    replica.process_reason = value;
    replica.process_message = "no such image";
  } else if (state == "overdue") {
    replica.created_at = kNow - seconds(700);
  } else if (state == "crashed") {
    replica.process = ProcessState::kEnded;
    replica.process_reason = kContainerCrashing;
    replica.process_message = "exited 1";
    replica.process_since = kNow - seconds(1);
  } else if (state == "killed") {
    serve(replica);
    apply_state("crashed", "", replica);
  } else if (state == "notstarted") {
    replica.process = ProcessState::kEnded;
    replica.process_reason = kNotStarted;
  } else if (state == "drainrequested") {
    drain(replica, DrainPhase::kNone);
  } else if (state == "draining") {
    drain(replica, DrainPhase::kDraining);
  } else if (state == "drained") {
    drain(replica, DrainPhase::kDrained);
  } else if (state == "forced") {
    drain(replica, DrainPhase::kForced);
  } else if (state == "deleting") {
    serve(replica);
    replica.deletion_requested = kNow - seconds(1);
  } else if (state == "nodelost") {
    serve(replica);
    replica.process = ProcessState::kNodeLost;
  } else {
    throw std::invalid_argument("unknown word in a scene: " + state);
  }
}

ObservedReplica& Scene::at(const std::string& uid) {
  for (ObservedReplica& replica : observed.replicas) {
    if (replica.uid == uid) return replica;
  }
  throw std::invalid_argument("no such replica in the scene: " + uid);
}

bool Scene::reachable(const ObservedReplica& replica) const {
  return replica.process == ProcessState::kRunning && replica.sample->age < seconds(5) &&
         !unlinked_.contains(replica.uid);
}

void Scene::settle() {
  for (ObservedReplica& replica : observed.replicas) {
    replica.sample->peers.clear();
    for (const ObservedReplica& peer : observed.replicas) {
      const bool linked = peer.uid != replica.uid && reachable(peer) && reachable(replica);
      if (linked) replica.sample->peers.push_back({peer.uid, 4, 4});
    }
  }
  for (const Step& step : plan().steps) {
    if (const auto* persist = std::get_if<PersistMembership>(&step.action)) {
      observed.membership = persist->membership;
      observed.membership_written_at = kNow - seconds(1000);
    }
    if (const auto* endpoints = std::get_if<UpdateEndpoints>(&step.action)) {
      observed.endpoints = endpoints->uids;
    }
  }
  for (ObservedReplica& replica : observed.replicas) {
    replica.sample->epoch = observed.membership.epoch;
    replica.sample->digest = observed.membership.digest;
  }
}

namespace {

bool is_mesh_step(const Action& action) {
  return std::holds_alternative<PersistMembership>(action) ||
         std::holds_alternative<PushMembership>(action) ||
         std::holds_alternative<UpdateEndpoints>(action) ||
         std::holds_alternative<SetMeshGate>(action);
}

std::vector<std::string> texts(const Plan& plan, bool mesh) {
  std::vector<std::string> found;
  for (const Step& step : plan.steps) {
    if (is_mesh_step(step.action) == mesh) {
      found.push_back(Scene::with_letters(to_string(step.action)));
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> Scene::steps() const {
  return texts(plan(), false);
}
std::vector<std::string> Scene::mesh_steps() const {
  return texts(plan(), true);
}

std::string Scene::condition(const std::string& type) const {
  const ClusterStatus status = plan().status;
  const Condition* found = find_condition(status, type);
  if (found == nullptr) return "none";
  const char* value = found->status == ConditionStatus::kTrue    ? "True "
                      : found->status == ConditionStatus::kFalse ? "False "
                                                                 : "Unknown ";
  return with_letters(value + found->reason +
                      (found->message.empty() ? "" : ": " + found->message));
}

std::vector<std::string> Scene::event_reasons() const {
  std::vector<std::string> reasons;
  const Plan made = plan();
  for (const Step& step : made.steps) {
    if (step.event) reasons.push_back(step.event->reason);
  }
  for (const Event& event : made.events) reasons.push_back(event.reason);
  return reasons;
}

std::string Scene::revision(const std::string& letter) {
  return revision_of(render_intent(spec_of({}, letter)));
}

std::string Scene::with_letters(std::string text) {
  for (const char* letter : kLetters) {
    for (const std::string& long_form : {"demo-" + revision(letter), revision(letter)}) {
      for (std::size_t at = text.find(long_form); at != std::string::npos;
           at = text.find(long_form)) {
        text.replace(at, long_form.size(), letter);
      }
    }
  }
  return text;
}

}  // namespace fairlead::op::testing
