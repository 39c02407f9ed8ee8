// The one clock of the data plane's drivers.
#pragma once

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

inline link::Instant steady_now() {
  return std::chrono::steady_clock::now();
}

}  // namespace fairlead::dataplane
