#include "relay/version.h"

#include <filesystem>
#include <fstream>

namespace fairlead::dataplane {

std::string relay_version() {
  std::error_code error;
  const auto binary = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string line;
  if (!error) {
    std::ifstream in(binary.parent_path() / "VERSION");
    std::getline(in, line);
  }
  return line.empty() ? FAIRLEAD_VERSION : line;
}

}  // namespace fairlead::dataplane
