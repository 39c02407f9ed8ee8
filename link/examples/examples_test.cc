// Runs the two example programs against each other.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include "link/asio/testing_certificates.h"

namespace fairlead::link {
namespace {

using ::testing::HasSubstr;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class ExamplesTest : public ::testing::Test {
 protected:
  ExamplesTest() {
    std::string pattern = ::testing::TempDir() + "echo.XXXXXX";
    folder_ = std::string(mkdtemp(pattern.data())) + "/";
    testing::TestLeaf leaf;
    leaf.ips = {"127.0.0.1"};
    const TlsMaterial material = authority_.issue(leaf);
    write_file(folder_ + "cert.pem", material.certificate);
    write_file(folder_ + "key.pem", material.key);
    write_file(folder_ + "ca.pem", material.ca);
  }
  ~ExamplesTest() override {
    if (server_ > 0) {
      kill(server_, SIGKILL);
      waitpid(server_, nullptr, 0);
    }
    const std::string remove = "rm -r '" + folder_ + "'";
    EXPECT_EQ(std::system(remove.c_str()), 0);
  }

  // Standard input and output are files of the folder; a program that hangs ends by SIGALRM.
  pid_t run(std::vector<std::string> arguments, const std::string& in, const std::string& out,
            const std::string& errors) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    dup2(open((folder_ + in).c_str(), O_RDONLY), 0);
    dup2(open((folder_ + out).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open((folder_ + errors).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    alarm(30);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }

  void start_server() {
    write_file(folder_ + "empty", "");
    server_ = run({ECHO_SERVER, "127.0.0.1", "0", folder_ + "cert.pem", folder_ + "key.pem"},
                  "empty", "server.out", "server.err");
    ASSERT_GT(server_, 0);
    for (int n = 0; n < 1000 && port_.empty(); ++n) {
      const std::string text = read_file(folder_ + "server.out");
      if (text.ends_with('\n')) port_ = text.substr(text.find_last_of(' ') + 1);
      usleep(10'000);
    }
    ASSERT_FALSE(port_.empty()) << read_file(folder_ + "server.err");
    port_.pop_back();
  }

  int run_client(const std::string& ca = "ca.pem") {
    const pid_t client =
        run({ECHO_CLIENT, "127.0.0.1", port_, folder_ + ca}, "input", "output", "client.err");
    int status = 0;
    waitpid(client, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  testing::TestAuthority authority_;
  std::string folder_, port_;
  pid_t server_ = -1;
};

TEST_F(ExamplesTest, EveryByteComesBack) {
  std::mt19937 random(3);
  std::string input(5'000'000, '\0');
  for (char& each : input) each = static_cast<char>(random());
  write_file(folder_ + "input", input);
  start_server();
  EXPECT_EQ(run_client(), 0) << read_file(folder_ + "client.err");
  EXPECT_TRUE(read_file(folder_ + "output") == input);
}

TEST_F(ExamplesTest, NothingComesBackFromNothing) {
  write_file(folder_ + "input", "");
  start_server();
  EXPECT_EQ(run_client(), 0) << read_file(folder_ + "client.err");
  EXPECT_EQ(read_file(folder_ + "output"), "");
}

TEST_F(ExamplesTest, StrangeServerIsNotTrusted) {
  testing::TestAuthority other("other CA");
  write_file(folder_ + "other.pem", other.certificate());
  write_file(folder_ + "input", "secret");
  start_server();
  EXPECT_EQ(run_client("other.pem"), 1);
  EXPECT_THAT(read_file(folder_ + "client.err"), HasSubstr("trusted CA"));
}

TEST_F(ExamplesTest, ServerLeavesOnSigterm) {
  start_server();
  kill(server_, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(server_, &status, 0), server_);
  server_ = -1;
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ExamplesTest, UnusableFilesAreNamed) {
  write_file(folder_ + "input", "");
  port_ = "1";
  EXPECT_EQ(run_client("absent.pem"), 1);
  EXPECT_THAT(read_file(folder_ + "client.err"), HasSubstr("absent.pem: No such file"));
}

}  // namespace
}  // namespace fairlead::link
