#include "local/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "local/durable_file.h"

namespace fairlead::op {
namespace {

const std::string& boot_id() {
  static const std::string id = [] {
    std::string error;
    std::string text = read_file("/proc/sys/kernel/random/boot_id", error).value_or("unknown");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }();
  return id;
}

// State and start time out of /proc/<pid>/stat. The name in the second field may hold anything, so
// the fields are counted from the last parenthesis.
bool read_stat(pid_t pid, char& state, std::uint64_t& start_ticks) {
  std::string error;
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat", error);
  const std::size_t end_of_name = text ? text->rfind(')') : std::string::npos;
  if (end_of_name == std::string::npos) return false;
  std::istringstream fields(text->substr(end_of_name + 1));
  std::string skipped;
  fields >> state;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  return static_cast<bool>(fields >> start_ticks);
}

UniqueFd open_pid(const ProcessId& process) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  // The number may have passed to another process before the descriptor was opened, not after.
  if (fd.valid() && identify(process.pid) != process) fd.reset();
  return fd;
}

class SpawnActions {
 public:
  SpawnActions() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void prepare(const SpawnRequest& request, int lock_fd) {
    posix_spawn_file_actions_addchdir_np(&actions_, request.folder.c_str());
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, 1, request.log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&actions_, 1, 2);
    // Also takes the close-on-exec flag off when both numbers are the same.
    posix_spawn_file_actions_adddup2(&actions_, lock_fd, kLockFd);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kLockFd + 1);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

std::optional<ProcessId> identify(pid_t pid) {
  char state = 'Z';
  ProcessId process{pid, 0, boot_id()};
  if (pid <= 0 || !read_stat(pid, state, process.start_ticks)) return std::nullopt;
  if (state == 'Z' || state == 'X') return std::nullopt;
  return process;
}

bool is_alive(const ProcessId& process) {
  return process.boot_id == boot_id() && identify(process.pid) == process;
}

bool send_signal(const ProcessId& process, int signal) {
  if (process.boot_id != boot_id()) return false;
  const UniqueFd fd = open_pid(process);
  return fd.valid() && ::syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) == 0;
}

std::optional<std::string> reap(pid_t pid) {
  int status = 0;
  if (pid <= 0 || ::waitpid(pid, &status, WNOHANG) != pid) return std::nullopt;
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  return "killed by signal " + std::to_string(WTERMSIG(status));
}

bool is_own_child(pid_t pid) {
  siginfo_t info{};
  return pid > 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

std::optional<LockFile> LockFile::take(const std::filesystem::path& path, std::string& error) {
  error.clear();
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    error = "cannot open " + path.string() + ": " + std::strerror(errno);
    return std::nullopt;
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) error = "cannot lock " + path.string() + ": " + std::strerror(errno);
    return std::nullopt;
  }
  return LockFile(std::move(fd));
}

void LockFile::write_owner(const std::string& text) const {
  if (::ftruncate(fd_.get(), 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(fd_.get(), text.data(), text.size(), 0);
}

std::optional<ProcessId> find_holder(const std::filesystem::path& lock) {
  struct stat wanted {};
  if (::stat(lock.c_str(), &wanted) != 0) return std::nullopt;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ec)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc() || end != name.data() + name.size() || pid == ::getpid()) continue;
    struct stat held {};
    const std::string fd = "/proc/" + name + "/fd/" + std::to_string(kLockFd);
    if (::stat(fd.c_str(), &held) != 0) continue;
    if (held.st_dev == wanted.st_dev && held.st_ino == wanted.st_ino) return identify(pid);
  }
  return std::nullopt;
}

std::optional<ProcessId> spawn(const SpawnRequest& request, const LockFile& lock,
                               std::string& error) {
  std::vector<char*> argv;
  for (const std::string& argument : request.argv) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  SpawnActions spawning;
  spawning.prepare(request, lock.fd());
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, argv[0], spawning.actions(), spawning.attributes(), argv.data(), environ);
  if (failed != 0) {
    error = "cannot start " + request.argv[0] + ": " + std::strerror(failed);
    return std::nullopt;
  }
  // A process that has ended already is still a child of ours and not reaped: its start time can
  // be read, even though identify() would not call it alive.
  char state = 0;
  ProcessId process{pid, 0, boot_id()};
  read_stat(pid, state, process.start_ticks);
  return process;
}

std::string log_tail(const std::filesystem::path& log, int lines, std::size_t bytes) {
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::size_t>(file.tellg());
  const std::size_t from = size - std::min(size, bytes);
  file.seekg(static_cast<std::streamoff>(from));
  std::string text(size - from, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  std::size_t at = text.size();
  for (int line = 0; line < lines && at != std::string::npos; ++line) {
    at = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  }
  if (at != std::string::npos) text.erase(0, at + 1);
  // What was cut off may begin with the end of a line.
  text.erase(0, text.find_first_not_of('\n'));
  return text;
}

}  // namespace fairlead::op
