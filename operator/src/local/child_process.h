// Processes that outlive the one that started them.
//
// A process started here is detached (own session, own log file) and inherits exactly one file
// descriptor: an open lock file whose flock it thereby holds for as long as it lives, as kLockFd.
// So whoever can take the lock knows that the process is gone, and whoever cannot knows that it
// exists, even if the process id was never written down.
//
// A process id alone says little, since numbers are used again: with the start time and the boot id
// it names one process for ever. Linux only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "local/unique_fd.h"

namespace fairlead::op {

inline constexpr int kLockFd = 3;

struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/<pid>/stat
  std::string boot_id;            // /proc/sys/kernel/random/boot_id
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

// Of the process that has this number now; nullopt when there is none, or only a zombie.
std::optional<ProcessId> identify(pid_t pid);
bool is_alive(const ProcessId& process);

// Sends the signal to this very process; false when it is gone already.
bool send_signal(const ProcessId& process, int signal);

// How a child of ours ended: "exit code 2", "killed by signal 9"; nullopt while it runs, or when it
// is no child of this process (it was started by an earlier one). Reaps it.
std::optional<std::string> reap(pid_t pid);
// Whether it is a child of this process that was not reaped. One whose reap() gave nothing has not
// ended, whatever /proc says: the first thread of a process may be a zombie while others still end.
bool is_own_child(pid_t pid);

// An exclusive flock on a file, taken without waiting.
class LockFile {
 public:
  // nullopt with `error` empty: somebody else holds it. With `error`: the file cannot be opened.
  static std::optional<LockFile> take(const std::filesystem::path& path, std::string& error);

  int fd() const { return fd_.get(); }
  // Writes who holds the lock into the file, for messages.
  void write_owner(const std::string& text) const;

 private:
  explicit LockFile(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// A process of ours that holds `lock` open as kLockFd, found by looking through /proc; nullopt when
// there is none that this user may see.
std::optional<ProcessId> find_holder(const std::filesystem::path& lock);

struct SpawnRequest {
  std::vector<std::string> argv;  // argv[0] is the path of the binary
  std::filesystem::path folder;   // to run in
  std::filesystem::path log;      // output and errors are appended to it
};

// Starts the process with the lock. nullopt with `error` when it could not be started. The caller
// drops its own LockFile once it has written the process id down.
std::optional<ProcessId> spawn(const SpawnRequest& request, const LockFile& lock,
                               std::string& error);

// The last lines of a log, at most `lines` and about `bytes`; "" when there are none.
std::string log_tail(const std::filesystem::path& log, int lines, std::size_t bytes);

}  // namespace fairlead::op
