// Child processes of a demo or scenario: started, signalled and reaped by their own id only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fairlead::e2e {

// "exit 0", "exit 2", "signal 9".
struct ExitStatus {
  int code = 0;    // valid when signal is 0
  int signal = 0;  // that killed it
};
std::string to_text(const ExitStatus& status);

class Process {
 public:
  struct Options {
    std::string name;               // for messages
    std::vector<std::string> argv;  // argv[0] is the path of the binary
    std::filesystem::path log;      // standard output and error are appended to it
  };

  // Throws std::runtime_error when the binary cannot be started. The child is killed by the kernel
  // when the thread that calls this ends.
  explicit Process(Options options);
  ~Process();  // kills what still runs
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  const std::string& name() const { return options_.name; }
  const Options& options() const { return options_; }
  pid_t pid() const { return pid_; }
  bool running() { return !poll(); }
  void send(int signal);
  std::optional<ExitStatus> poll();
  // Waits that long; nothing when it still runs then.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds limit);
  // SIGTERM, then SIGKILL after `grace`.
  ExitStatus stop(std::chrono::milliseconds grace);

  std::string output() const;  // the log so far

 private:
  Options options_;
  pid_t pid_ = -1;
  std::optional<ExitStatus> ended_;
};

// From now on processes that descend from this one and lose their parent become its children, so
// that nothing that was started here can outlive kill_descendants().
void adopt_orphans();

// SIGKILLs and reaps every process that descends from this one.
void kill_descendants();

// SIGINT and SIGTERM set this; whoever waits looks at it.
void watch_interrupts();
bool interrupted();

std::string read_file(const std::filesystem::path& path);  // "" when it cannot be read

// Resident memory in KiB, 0 when the process is gone.
std::uint64_t resident_kib(pid_t pid);

}  // namespace fairlead::e2e
