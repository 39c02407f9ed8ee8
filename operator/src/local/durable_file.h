// Small files that survive a crash at any moment: a reader sees the old contents or the new, whole.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace fairlead::op {

enum class Durability {
  kVisible,  // replaced by rename; after a power loss the old contents may be back
  kSynced,   // file and folder are fsynced too: what was returned from is on the disk
};

// Writes `path` through a temporary file beside it, `<path>.new`, and a rename. One writer per
// path. `mode` applies to a new file as to a replaced one, whatever the umask. nullopt when done,
// else what failed with the path and the system's reason.
std::optional<std::string> replace_file(const std::filesystem::path& path,
                                        std::string_view contents, Durability durability,
                                        unsigned mode = 0644);

// The whole file; nullopt with `error` when it cannot be read. `missing`, where given, tells a file
// that is not there from one that is but cannot be read.
std::optional<std::string> read_file(const std::filesystem::path& path, std::string& error,
                                     bool* missing = nullptr);

// Removes a file and makes the removal durable. A file that is not there is removed already.
std::optional<std::string> remove_file(const std::filesystem::path& path);

}  // namespace fairlead::op
