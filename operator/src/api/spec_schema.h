// The one place that knows the fields of a spec: read from a resource and from a stored intent.
#pragma once

#include <string>
#include <vector>

#include "api/field_reader.h"
#include "api/relay_cluster.h"

namespace fairlead::op {

// Fields of `spec`; unknown ones and broken cross-field rules are errors.
void read_spec(FieldReader reader, RelayClusterSpec& spec);

// Fields of an intent (render_intent()) into the hashed members of `spec`.
void read_intent(FieldReader reader, RelayClusterSpec& spec);

// nullopt when fine, else what the name must be.
std::optional<std::string> refuse_cluster_name(std::string_view name);

}  // namespace fairlead::op
