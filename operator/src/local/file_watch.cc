#include "local/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fairlead::op {

std::optional<FileWatch> FileWatch::open(const std::filesystem::path& file, std::string& error) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  UniqueFd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  constexpr std::uint32_t kMask =
      IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE;
  if (!fd.valid() || ::inotify_add_watch(fd.get(), folder.c_str(), kMask) < 0) {
    error = "cannot watch " + folder.string() + ": " + std::strerror(errno);
    return std::nullopt;
  }
  return FileWatch(std::move(fd), file.filename().string());
}

bool FileWatch::take() {
  bool concerned = false;
  alignas(inotify_event) char buffer[4096];
  while (true) {
    const ssize_t size = ::read(fd_.get(), buffer, sizeof buffer);
    if (size <= 0) return concerned;
    for (ssize_t at = 0; at < size;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(buffer + at);
      // After an overflow of the queue anything may have happened.
      if ((event->mask & IN_Q_OVERFLOW) != 0 || (event->len > 0 && name_ == event->name)) {
        concerned = true;
      }
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
}

}  // namespace fairlead::op
