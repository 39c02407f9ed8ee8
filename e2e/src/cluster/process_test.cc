#include "process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace fairlead::e2e {
namespace {

using std::chrono::milliseconds;

std::filesystem::path log_file() {
  return ::testing::TempDir() + "process_test.log";
}

Process shell(const std::string& script) {
  std::filesystem::remove(log_file());
  return Process({"sh", {"/bin/sh", "-c", script}, log_file()});
}

TEST(Process, TellsHowItEndedAndWhatItSaid) {
  Process process = shell("echo out; echo err >&2; exit 3");
  const auto status = process.wait_for(milliseconds(5000));
  ASSERT_TRUE(status);
  EXPECT_EQ(to_text(*status), "exit 3");
  EXPECT_EQ(process.output(), "out\nerr\n");
}

TEST(Process, StopKillsWhatIgnoresSigterm) {
  Process process = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done");
  while (process.output().empty()) ::usleep(1000);
  EXPECT_EQ(to_text(process.stop(milliseconds(100))), "signal 9");
  EXPECT_FALSE(process.running());
}

TEST(Process, AMissingBinaryIsAnError) {
  EXPECT_THROW(Process({"none", {"/no/such/binary"}, log_file()}), std::runtime_error);
}

TEST(Process, DescendantsThatLostTheirParentAreKilled) {
  adopt_orphans();
  Process process = shell("setsid sleep 1000 & echo $!");
  ASSERT_TRUE(process.wait_for(milliseconds(5000)));
  const pid_t orphan = std::stoi(process.output());
  ASSERT_EQ(::kill(orphan, 0), 0);
  kill_descendants();
  EXPECT_EQ(::kill(orphan, 0), -1);
}

TEST(Process, ResidentMemory) {
  EXPECT_GT(resident_kib(::getpid()), 100U);
  EXPECT_EQ(resident_kib(0), 0U);
}

}  // namespace
}  // namespace fairlead::e2e
