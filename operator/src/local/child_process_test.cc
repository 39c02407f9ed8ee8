#include "local/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "local/durable_file.h"
#include "local/test_sockets.h"

namespace fairlead::op {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class ChildProcessTest : public testing::Test {
 protected:
  ChildProcessTest() : folder_(make_test_folder("child")) {}
  ~ChildProcessTest() override {
    for (const ProcessId& process : started_) {
      send_signal(process, SIGKILL);
      eventually(2s, [&] { return reap(process.pid).has_value() || !is_alive(process); });
    }
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path lock() const { return folder_ / "x.lock"; }
  std::filesystem::path log() const { return folder_ / "x.log"; }

  ProcessId start(const std::string& script) {
    std::string error;
    const std::optional<LockFile> taken = LockFile::take(lock(), error);
    EXPECT_TRUE(taken) << error;
    const auto process = spawn({{"/bin/sh", "-c", script}, folder_, log()}, *taken, error);
    EXPECT_TRUE(process) << error;
    if (process) started_.push_back(*process);
    return process.value_or(ProcessId{});
  }

  std::string logged() {
    std::string error;
    return read_file(log(), error).value_or("");
  }

  std::filesystem::path folder_;
  std::vector<ProcessId> started_;
};

TEST_F(ChildProcessTest, IdentityIsOfOneProcessForEver) {
  const auto self = identify(::getpid());
  ASSERT_TRUE(self);
  EXPECT_TRUE(is_alive(*self));
  ProcessId other = *self;
  other.start_ticks += 1;
  EXPECT_FALSE(is_alive(other));
  EXPECT_FALSE(send_signal(other, 0));
  other = *self;
  other.boot_id = "another boot";
  EXPECT_FALSE(is_alive(other));
  EXPECT_FALSE(send_signal(other, 0));
  EXPECT_FALSE(identify(0));
  EXPECT_FALSE(identify(-1));
}

TEST_F(ChildProcessTest, ChildHoldsTheLockForAsLongAsItLives) {
  const ProcessId child = start("exec sleep 60");
  EXPECT_TRUE(is_alive(child));
  std::string error;
  EXPECT_FALSE(LockFile::take(lock(), error));
  EXPECT_TRUE(error.empty()) << error;
  EXPECT_EQ(find_holder(lock()), child);

  EXPECT_TRUE(send_signal(child, SIGKILL));
  std::optional<std::string> how;
  EXPECT_TRUE(eventually(5s, [&] { return (how = reap(child.pid)).has_value(); }));
  EXPECT_EQ(how, "killed by signal 9");
  EXPECT_FALSE(is_alive(child));
  EXPECT_FALSE(find_holder(lock()));
  EXPECT_TRUE(LockFile::take(lock(), error));
}

TEST_F(ChildProcessTest, AZombieIsNotAlive) {
  const ProcessId child = start("exit 3");
  EXPECT_TRUE(eventually(5s, [&] { return !is_alive(child); }));
  EXPECT_EQ(reap(child.pid), "exit code 3");
  EXPECT_EQ(reap(child.pid), std::nullopt);
}

TEST_F(ChildProcessTest, ChildIsDetachedAndInheritsOnlyTheLock) {
  const UniqueFd leaked(::dup(1));  // without close-on-exec
  const ProcessId child = start("ls /proc/self/fd | wc -l; pwd; cat /proc/$$/stat; echo err >&2");
  EXPECT_TRUE(eventually(5s, [&] { return !is_alive(child); }));
  // 0, 1, 2, the lock, and the one through which ls reads the folder.
  EXPECT_THAT(logged(), testing::StartsWith("5\n" + folder_.string() + "\n"));
  EXPECT_THAT(logged(), HasSubstr("err\n"));
  // Its own session: field 6 of stat is its own process id.
  const std::string pid = std::to_string(child.pid);
  EXPECT_THAT(logged(), testing::ContainsRegex(pid + " \\(sh\\) . [0-9]+ " + pid + " " + pid));
}

TEST_F(ChildProcessTest, WhatCannotBeStartedSaysWhy) {
  std::string error;
  const std::optional<LockFile> taken = LockFile::take(lock(), error);
  EXPECT_FALSE(spawn({{"/nonexistent/relay"}, folder_, log()}, *taken, error));
  EXPECT_THAT(error, HasSubstr("/nonexistent/relay: No such file"));
}

TEST_F(ChildProcessTest, TailOfALog) {
  ASSERT_FALSE(replace_file(log(), "one\ntwo\nthree\n\n", Durability::kVisible));
  EXPECT_EQ(log_tail(log(), 2, 100), "two\nthree");
  EXPECT_EQ(log_tail(log(), 9, 100), "one\ntwo\nthree");
  EXPECT_EQ(log_tail(log(), 9, 8), "three");
  EXPECT_EQ(log_tail(folder_ / "none", 9, 8), "");
}

TEST_F(ChildProcessTest, FilesAreReplacedWholeWithTheirMode) {
  const std::filesystem::path path = folder_ / "secret";
  ASSERT_FALSE(replace_file(path, "old", Durability::kSynced, 0644));
  ASSERT_FALSE(replace_file(path, "new", Durability::kSynced, 0600));
  std::string error;
  EXPECT_EQ(read_file(path, error), "new");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "secret.new"));
  EXPECT_THAT(replace_file(folder_ / "no" / "x", "", Durability::kVisible).value_or(""),
              HasSubstr("cannot create"));
  bool missing = false;
  EXPECT_FALSE(read_file(folder_ / "no", error, &missing));
  EXPECT_TRUE(missing);
  EXPECT_FALSE(remove_file(path));
  EXPECT_FALSE(remove_file(path));
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace fairlead::op
