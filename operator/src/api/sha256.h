#pragma once

#include <string>
#include <string_view>

namespace fairlead::op {

// SHA-256 of the bytes as 64 lower-case hex digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace fairlead::op
