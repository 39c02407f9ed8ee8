// One end of a visit with its local connection, whatever that is: what those who find paths need.
#pragma once

#include <optional>

#include "visit/visit_end.h"

namespace fairlead::dataplane {

// All calls on the io_context's one thread.
class VisitDriver {
 public:
  virtual ~VisitDriver() = default;

  virtual const VisitEnd& end() const = 0;
  // As the functions of VisitEnd with these names; each also lets the local connection act on it.
  virtual void path_opened(SessionPort path, Outcome if_cut) = 0;
  virtual void path_event(const link::Event& event) = 0;
  virtual void abort(link::Code code, std::optional<Outcome> as = std::nullopt) = 0;
};

}  // namespace fairlead::dataplane
