// Observe, plan, apply: one pass brings a cluster one step nearer to what is asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "api/relay_cluster.h"
#include "plan/plan.h"
#include "reconcile/backend.h"

namespace fairlead::op {

struct PassResult {
  enum class Kind {
    kDone,   // all is as asked for
    kAfter,  // something was done, or is waited for
    kError,  // something failed; what did not depend on it was done all the same
  };
  Kind kind = Kind::kDone;
  // Run the next pass after this time at the latest, earlier when anything is reported. Errors come
  // back after 0.5 s, doubling up to 30 s while they last; an observation that was overtaken (a
  // conflict) at once, the first time.
  std::chrono::milliseconds after{0};
  std::string error;  // of kError: every failure of the pass, joined by "; "
};

// Not thread-safe; `backend` must outlive it. What it remembers between passes is only whether this
// process has raised the membership epoch, and how long errors have lasted: a new one in its place
// goes on with the same cluster.
class Reconciler {
 public:
  explicit Reconciler(Backend& backend) : backend_(backend) {}

  // One pass for `cluster`. `invalid` not empty: the resource was edited into something invalid,
  // `cluster` is its last valid form, and the status says so (Ready=False, InvalidSpec).
  PassResult run(const RelayCluster& cluster, const std::string& invalid = "");

  // For a resource that was never valid while this process ran: replicas are left alone, the status
  // says why. Also keeps what the previous status says.
  PassResult report_invalid(std::int64_t generation, const std::string& invalid);

 private:
  class Pass;

  PassResult conclude(const Pass& pass, const Plan& plan);
  PassResult failed(const BackendError& error);

  Backend& backend_;
  bool epoch_raised_ = false;
  int failures_ = 0;  // passes that failed in a row
};

}  // namespace fairlead::op
