// Points in time and optional members in the JSON files of the state folder: milliseconds since the
// Unix epoch, and null for none.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/status.h"

namespace fairlead::op {

inline std::int64_t to_millis(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

inline WallTime from_millis(std::int64_t millis) {
  return WallTime(std::chrono::milliseconds(millis));
}

// Calls `read` with the member of that name, if it is there and not null.
template <class Read>
void read_member(const nlohmann::json& object, const char* name, Read read) {
  const auto member = object.find(name);
  if (member != object.end() && !member->is_null()) read(*member);
}

}  // namespace fairlead::op
