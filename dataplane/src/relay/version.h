// What a binary says of its own version.
#pragma once

#include <string>

namespace fairlead::dataplane {

// The first line of a file VERSION beside the running binary, where an image has one, else the
// version this was built as.
std::string relay_version();

}  // namespace fairlead::dataplane
