// Blocking sockets for tests, each wait bounded, and loopback addresses of a test's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "local/unique_fd.h"

namespace fairlead::op {

// Polls until the condition holds; false when it did not within the time.
bool eventually(std::chrono::milliseconds limit, const std::function<bool()>& condition);

// A new empty folder under the system's temporary folder.
std::filesystem::path make_test_folder(std::string_view name);

// A random 127.x.y.0/24, so that tests which run side by side do not meet.
class TestNet {
 public:
  static TestNet pick();
  std::string address(int host) const;
  std::string cidr() const;
  // A port that was free a moment ago on the first `hosts` addresses.
  std::uint16_t free_port(int hosts) const;

 private:
  explicit TestNet(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string prefix_;
};

enum class End { kFin, kReset, kNothing };

class TestSocket {
 public:
  TestSocket() = default;
  explicit TestSocket(int fd);
  static TestSocket dial(const std::string& address, std::uint16_t port);
  static TestSocket dial_without_waiting(const std::string& address, std::uint16_t port);

  bool valid() const { return fd_.valid(); }
  void write(std::string_view bytes);
  // Writes pattern(0, ...) until no byte was taken for 200 ms; how many were.
  std::size_t write_until_blocked();
  // Fewer when the stream ends or nothing comes for 5 s.
  std::string read_exactly(std::size_t size);
  std::string read_all();
  // Skips bytes until the stream ends; kNothing after 5 s without any.
  End read_end();
  void send_fin();
  void reset();  // closes with RST

  std::string local_address_bytes() const;
  std::string remote_address_bytes() const;
  std::string local_port_bytes() const;
  std::string remote_port_bytes() const;

 private:
  UniqueFd fd_;
};

class TestListener {
 public:
  TestListener(const std::string& address, std::uint16_t port, int backlog = 64);
  TestSocket accept();   // invalid after 5 s
  bool pending() const;  // a connection waits, looked at for 100 ms

 private:
  UniqueFd fd_;
};

// `size` bytes of a fixed stream from `offset`.
std::string pattern(std::size_t offset, std::size_t size);

}  // namespace fairlead::op
