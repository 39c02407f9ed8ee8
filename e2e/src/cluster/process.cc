#include "process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace fairlead::e2e {

using std::chrono::milliseconds;

namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

ExitStatus exit_status(int raw) {
  if (WIFSIGNALED(raw)) return {0, WTERMSIG(raw)};
  return {WEXITSTATUS(raw), 0};
}

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const std::vector<char*>& argv, int log, int report, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  // A process group of its own: Ctrl-C at the terminal is for the one that started it.
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::execv(argv[0], argv.data());
  const int why = errno;
  [[maybe_unused]] const auto written = ::write(report, &why, sizeof why);
  ::_exit(127);
}

pid_t parent_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  int parent = 0;
  char state = 0;
  if (name_end == std::string::npos ||
      std::sscanf(stat.c_str() + name_end + 1, " %c %d", &state, &parent) != 2) {
    return 0;
  }
  return parent;
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return found;
  while (const dirent* entry = ::readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0 && parent_of(pid) == ::getpid()) found.push_back(pid);
  }
  ::closedir(proc);
  return found;
}

}  // namespace

std::string to_text(const ExitStatus& status) {
  return status.signal != 0 ? "signal " + std::to_string(status.signal)
                            : "exit " + std::to_string(status.code);
}

Process::Process(Options options) : options_(std::move(options)) {
  std::vector<char*> argv;
  for (std::string& arg : options_.argv) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const int log = ::open(options_.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  int pipe[2] = {-1, -1};
  if (log < 0 || ::pipe2(pipe, O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot start " + options_.name + ": " + options_.log.string() + ": " +
                             std::strerror(errno));
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(argv, log, pipe[1], parent);
  ::close(log);
  ::close(pipe[1]);
  int why = pid_ < 0 ? errno : 0;
  if (pid_ > 0 && ::read(pipe[0], &why, sizeof why) > 0) ::waitpid(pid_, nullptr, 0);
  ::close(pipe[0]);
  if (why != 0) {
    pid_ = -1;
    throw std::runtime_error("cannot start " + options_.argv[0] + ": " + std::strerror(why));
  }
}

Process::~Process() {
  if (pid_ <= 0 || poll()) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Process::Process(Process&& other) noexcept
    : options_(std::move(other.options_)),
      pid_(std::exchange(other.pid_, -1)),
      ended_(other.ended_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(options_, other.options_);
  std::swap(pid_, other.pid_);
  std::swap(ended_, other.ended_);
  return *this;
}

void Process::send(int signal) {
  if (running()) ::kill(pid_, signal);
}

std::optional<ExitStatus> Process::poll() {
  if (!ended_ && pid_ > 0) {
    int raw = 0;
    if (::waitpid(pid_, &raw, WNOHANG) == pid_) ended_ = exit_status(raw);
  }
  return ended_;
}

std::optional<ExitStatus> Process::wait_for(milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!poll() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  return ended_;
}

ExitStatus Process::stop(milliseconds grace) {
  send(SIGTERM);
  if (!wait_for(grace)) {
    send(SIGKILL);
    wait_for(milliseconds(5000));
  }
  return ended_.value_or(ExitStatus{0, SIGKILL});
}

std::string Process::output() const {
  return read_file(options_.log);
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void kill_descendants() {
  // Killing a parent hands its children to us, so this ends when none is left.
  for (std::vector<pid_t> found = children(); !found.empty(); found = children()) {
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    for (const pid_t pid : found) ::waitpid(pid, nullptr, 0);
  }
}

void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = 1; };
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() {
  return interrupt_seen != 0;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::uint64_t resident_kib(pid_t pid) {
  std::istringstream status(read_file("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(status, line);) {
    std::uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "VmRSS: %lu", &kib) == 1) return kib;
  }
  return 0;
}

}  // namespace fairlead::e2e
