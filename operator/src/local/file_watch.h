// Tells when a file may have changed: written in place, replaced by rename, created or removed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "local/unique_fd.h"

namespace fairlead::op {

// Watches the folder of the file with inotify, so that editors which write beside and rename are
// seen. A hint, not a promise: inotify does not see changes made elsewhere on a network file
// system, so a caller looks at the file once in a while anyway. Not for several threads at once.
class FileWatch {
 public:
  // nullopt with `error` when the folder cannot be watched.
  static std::optional<FileWatch> open(const std::filesystem::path& file, std::string& error);

  // Readable when something happened in the folder; non-blocking.
  int fd() const { return fd_.get(); }

  // Takes what has been reported so far; true when any of it concerned the file.
  bool take();

 private:
  FileWatch(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  UniqueFd fd_;
  std::string name_;
};

}  // namespace fairlead::op
