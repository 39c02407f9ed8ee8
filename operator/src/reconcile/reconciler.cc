#include "reconcile/reconciler.h"

#include <algorithm>
#include <optional>

namespace fairlead::op {
namespace {

using std::chrono::milliseconds;

// After a change the cluster is looked at again this soon: long enough that a change that does not
// stick is no busy loop.
constexpr milliseconds kAfterChange{50};
constexpr milliseconds kFirstRetry{500};
constexpr milliseconds kLastRetry{30000};

milliseconds retry_after(int failures) {
  return std::min(kFirstRetry * (1 << std::min(failures - 1, 10)), kLastRetry);
}

// The secrets of `spec` that cannot be had, by name.
std::vector<std::string> missing_of(Backend& backend, const RelayClusterSpec& spec) {
  std::vector<std::string> missing;
  for (const std::string& name : referenced_secrets(spec)) {
    const BackendResult<bool> there = backend.has_secret(name);
    if (!there.ok()) {
      missing.push_back(name + " (not known: " + there.error().text + ")");
    } else if (!there.value()) {
      missing.push_back(name);
    }
  }
  return missing;
}

void mark_invalid(const std::string& invalid, ClusterStatus& status) {
  Condition* ready = nullptr;
  for (Condition& condition : status.conditions) {
    if (condition.type == "Ready") ready = &condition;
  }
  if (ready == nullptr) {
    ready = &status.conditions.emplace_back();
    ready->type = "Ready";
  }
  ready->status = ConditionStatus::kFalse;
  ready->reason = "InvalidSpec";
  ready->message = invalid;
  ready->observed_generation = status.observed_generation;
}

}  // namespace

// What one pass has seen and done.
class Reconciler::Pass {
 public:
  Pass(Backend& backend, const RelayCluster& cluster, bool& epoch_raised)
      : backend_(backend), cluster_(cluster), epoch_raised_(epoch_raised) {}

  BackendStatus observe();
  void apply(const Plan& plan);
  void write_status(Plan& plan, const std::string& invalid);

  const Observed& observed() const { return observed_; }
  bool changed() const { return changed_; }
  bool overtaken() const { return overtaken_; }
  const std::string& errors() const { return errors_; }

 private:
  struct Apply;

  std::optional<BackendError> create(const CreateReplica& action);
  // Whether the pass may go on after this failure.
  bool note(const Action& action, const BackendError& error);

  Backend& backend_;
  const RelayCluster& cluster_;
  bool& epoch_raised_;
  Observed observed_;
  std::string membership_version_;
  bool changed_ = false;
  bool overtaken_ = false;
  std::string errors_;
};

BackendStatus Reconciler::Pass::observe() {
  observed_.now = backend_.now();
  observed_.epoch_raised = epoch_raised_;
  const auto replicas = backend_.list_replicas();
  if (!replicas.ok()) return replicas.error();
  observed_.replicas = replicas.value();
  const auto revisions = backend_.list_revisions();
  if (!revisions.ok()) return revisions.error();
  observed_.revisions = revisions.value();
  const auto membership = backend_.membership();
  if (!membership.ok()) return membership.error();
  observed_.membership = membership.value().membership;
  observed_.membership_written_at = membership.value().written_at;
  membership_version_ = membership.value().version;
  const auto endpoints = backend_.endpoints();
  if (!endpoints.ok()) return endpoints.error();
  observed_.endpoints = endpoints.value();
  observed_.previous_status = backend_.read_status();

  const std::string update = revision_of(render_intent(cluster_.spec));
  observed_.missing_secrets[update] = missing_of(backend_, cluster_.spec);
  for (const RevisionRecord& record : observed_.revisions) {
    std::string error;
    const auto spec = spec_at_revision(cluster_.spec, record.intent, error);
    if (spec && record.revision != update) {
      observed_.missing_secrets[record.revision] = missing_of(backend_, *spec);
    }
  }
  return std::nullopt;
}

struct Reconciler::Pass::Apply {
  Pass& pass;
  Backend& backend = pass.backend_;

  BackendStatus operator()(const PutRevision& a) const {
    const BackendStatus failure = backend.put_revision(a.record);
    if (!failure) pass.observed_.revisions.push_back(a.record);
    return failure;
  }
  BackendStatus operator()(const PersistMembership& a) const {
    const BackendStatus failure = backend.put_membership(a.membership, pass.membership_version_);
    if (failure) return failure;
    pass.observed_.membership = a.membership;
    pass.epoch_raised_ = true;
    return std::nullopt;
  }
  BackendStatus operator()(const PushMembership& a) const {
    return backend.set_membership(a.uid, pass.cluster_.uid, pass.observed_.membership);
  }
  BackendStatus operator()(const UpdateEndpoints& a) const { return backend.put_endpoints(a.uids); }
  BackendStatus operator()(const SetMeshGate& a) const {
    return backend.set_mesh_gate(a.name, a.uid, a.open);
  }
  BackendStatus operator()(const DeleteReplica& a) const { return backend.remove(a.name, a.uid); }
  BackendStatus operator()(const CreateReplica& a) const { return pass.create(a); }
  BackendStatus operator()(const RequestDrain& a) const {
    return backend.annotate_drain(a.name, a.uid, a.intent);
  }
  BackendStatus operator()(const SendDrain& a) const { return backend.drain(a.uid, a.order); }
  BackendStatus operator()(const RemoveRevision& a) const {
    return backend.remove_revision(a.revision);
  }
};

BackendStatus Reconciler::Pass::create(const CreateReplica& action) {
  const auto record = std::find_if(
      observed_.revisions.begin(), observed_.revisions.end(),
      [&](const RevisionRecord& candidate) { return candidate.revision == action.revision; });
  if (record == observed_.revisions.end()) {
    return BackendError{BackendError::Kind::kFailed, "its configuration is not stored"};
  }
  NewReplica replica{action.name, action.revision, action.slot, action.attempt, {}};
  std::string error;
  std::optional<RelayClusterSpec> spec = spec_at_revision(cluster_.spec, record->intent, error);
  if (!spec) return BackendError{BackendError::Kind::kFailed, error};
  replica.spec = std::move(*spec);
  return backend_.create(replica);
}

bool Reconciler::Pass::note(const Action& action, const BackendError& error) {
  using Kind = BackendError::Kind;
  if (error.kind == Kind::kConflict || error.kind == Kind::kNotFound) {
    overtaken_ = true;
  }
  errors_ += (errors_.empty() ? "" : "; ") + to_string(action) + ": " + error.text;
  // The rest may depend on what is stored for the whole cluster, or on what was observed. A replica
  // that does not answer is no reason to leave the others alone.
  const bool shared = std::holds_alternative<PutRevision>(action) ||
                      std::holds_alternative<PersistMembership>(action) ||
                      std::holds_alternative<UpdateEndpoints>(action);
  return !overtaken_ && !shared;
}

void Reconciler::Pass::apply(const Plan& plan) {
  for (const Step& step : plan.steps) {
    const BackendStatus failure = std::visit(Apply{*this}, step.action);
    if (failure) {
      if (!note(step.action, *failure)) return;
      continue;
    }
    // The outcome of an Admin call shows in a later sample: nothing to look at yet.
    changed_ = changed_ || !(std::holds_alternative<PushMembership>(step.action) ||
                             std::holds_alternative<SendDrain>(step.action));
    if (step.event) backend_.emit(*step.event);
  }
}

void Reconciler::Pass::write_status(Plan& plan, const std::string& invalid) {
  if (!invalid.empty()) {
    mark_invalid(invalid, plan.status);
    settle_conditions(observed_.previous_status, observed_.now, plan.status);
  }
  const bool news =
      !observed_.previous_status || !same_meaning(*observed_.previous_status, plan.status);
  if (!news) return;
  if (const BackendStatus failure = backend_.write_status(plan.status)) {
    errors_ += (errors_.empty() ? "" : "; ") + ("status: " + failure->text);
    return;
  }
  for (const Event& event : plan.events) backend_.emit(event);
}

PassResult Reconciler::run(const RelayCluster& cluster, const std::string& invalid) {
  Pass pass(backend_, cluster, epoch_raised_);
  if (const BackendStatus failure = pass.observe()) return failed(*failure);
  Plan plan = make_plan(cluster, pass.observed());
  pass.apply(plan);
  pass.write_status(plan, invalid);
  return conclude(pass, plan);
}

PassResult Reconciler::conclude(const Pass& pass, const Plan& plan) {
  PassResult result;
  if (!pass.errors().empty()) {
    ++failures_;
    const bool at_once = pass.overtaken() && failures_ == 1;
    result = {PassResult::Kind::kError, at_once ? milliseconds(0) : retry_after(failures_),
              pass.errors()};
    return result;
  }
  failures_ = 0;
  const Condition* ready = find_condition(plan.status, "Ready");
  const bool done = plan.steps.empty() && plan.status.draining + plan.status.terminating == 0 &&
                    ready != nullptr && ready->reason == "AllReplicasReady";
  result.kind = done ? PassResult::Kind::kDone : PassResult::Kind::kAfter;
  result.after = pass.changed() ? std::min(kAfterChange, plan.wake_up) : plan.wake_up;
  return result;
}

PassResult Reconciler::failed(const BackendError& error) {
  ++failures_;
  return {PassResult::Kind::kError, retry_after(failures_), error.text};
}

PassResult Reconciler::report_invalid(std::int64_t generation, const std::string& invalid) {
  const std::optional<ClusterStatus> previous = backend_.read_status();
  ClusterStatus status = previous.value_or(ClusterStatus{});
  status.observed_generation = generation;
  mark_invalid(invalid, status);
  settle_conditions(previous, backend_.now(), status);
  if (!previous || !same_meaning(*previous, status)) {
    if (const BackendStatus failure = backend_.write_status(status)) return failed(*failure);
    backend_.emit({Event::Type::kWarning, "InvalidSpec", "", invalid});
  }
  return {PassResult::Kind::kAfter, kLastRetry, ""};
}

}  // namespace fairlead::op
