#include "local/test_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>

namespace fairlead::op {
namespace {

constexpr int kWaitMs = 5000;

sockaddr_in make_address(const std::string& text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) {
    throw std::runtime_error("bad test address " + text);
  }
  return address;
}

bool poll_for(int fd, short events, int wait_ms) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, wait_ms) > 0;
}

int open_socket(int flags = 0) {
  return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

bool bind_to(int fd, const sockaddr_in& address) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

sockaddr_in name_of(int fd, int (*get)(int, sockaddr*, socklen_t*)) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  get(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

bool eventually(std::chrono::milliseconds limit, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::filesystem::path make_test_folder(std::string_view name) {
  std::string path = (std::filesystem::temp_directory_path() / "fairlead-").string();
  path.append(name).append("-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp " + path);
  return path;
}

TestNet TestNet::pick() {
  std::random_device random;
  const auto one_to_254 = [&] { return std::to_string(random() % 254 + 1); };
  return TestNet("127." + one_to_254() + "." + one_to_254() + ".");
}

std::string TestNet::address(int host) const {
  return prefix_ + std::to_string(host);
}
std::string TestNet::cidr() const {
  return prefix_ + "0/24";
}

std::uint16_t TestNet::free_port(int hosts) const {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const UniqueFd first(open_socket());
    if (!bind_to(first.get(), make_address(address(1), 0))) continue;
    const std::uint16_t port = ntohs(name_of(first.get(), ::getsockname).sin_port);
    bool free = true;
    for (int host = 2; host <= hosts && free; ++host) {
      const UniqueFd other(open_socket());
      free = bind_to(other.get(), make_address(address(host), port));
    }
    if (free) return port;
  }
  throw std::runtime_error("no free port on " + cidr());
}

TestSocket::TestSocket(int fd) : fd_(fd) {
  const timeval limit{kWaitMs / 1000, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

TestSocket TestSocket::dial(const std::string& address, std::uint16_t port) {
  // The listener may be opened a moment later.
  int fd = -1;
  eventually(std::chrono::milliseconds(kWaitMs), [&] {
    fd = open_socket();
    const sockaddr_in to = make_address(address, port);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return true;
    ::close(fd);
    fd = -1;
    return false;
  });
  if (fd < 0) throw std::runtime_error("cannot dial " + address);
  return TestSocket(fd);
}

TestSocket TestSocket::dial_without_waiting(const std::string& address, std::uint16_t port) {
  const int fd = open_socket(SOCK_NONBLOCK);
  const sockaddr_in to = make_address(address, port);
  ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  return TestSocket(fd);
}

void TestSocket::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::size_t TestSocket::write_until_blocked() {
  std::size_t written = 0;
  while (poll_for(fd_.get(), POLLOUT, 200)) {
    const std::string bytes = pattern(written, 65536);
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) written += static_cast<std::size_t>(n);
  }
  return written;
}

std::string TestSocket::read_exactly(std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t n = ::recv(fd_.get(), bytes.data() + have, size - have, 0);
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

std::string TestSocket::read_all() {
  std::string all;
  char buffer[65536];
  while (true) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (n <= 0) return all;
    all.append(buffer, static_cast<std::size_t>(n));
  }
}

End TestSocket::read_end() {
  char buffer[65536];
  while (true) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (n == 0) return End::kFin;
    if (n < 0) return errno == ECONNRESET ? End::kReset : End::kNothing;
  }
}

void TestSocket::send_fin() {
  ::shutdown(fd_.get(), SHUT_WR);
}

void TestSocket::reset() {
  const linger hard{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  fd_.reset();
}

std::string TestSocket::local_address_bytes() const {
  return bytes_of(name_of(fd_.get(), ::getsockname).sin_addr);
}
std::string TestSocket::remote_address_bytes() const {
  return bytes_of(name_of(fd_.get(), ::getpeername).sin_addr);
}
std::string TestSocket::local_port_bytes() const {
  return bytes_of(name_of(fd_.get(), ::getsockname).sin_port);
}
std::string TestSocket::remote_port_bytes() const {
  return bytes_of(name_of(fd_.get(), ::getpeername).sin_port);
}

TestListener::TestListener(const std::string& address, std::uint16_t port, int backlog)
    : fd_(open_socket()) {
  if (!bind_to(fd_.get(), make_address(address, port)) || ::listen(fd_.get(), backlog) != 0) {
    throw std::runtime_error("cannot listen on " + address);
  }
}

TestSocket TestListener::accept() {
  if (!poll_for(fd_.get(), POLLIN, kWaitMs)) return {};
  return TestSocket(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

bool TestListener::pending() const {
  return poll_for(fd_.get(), POLLIN, 100);
}

std::string pattern(std::size_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = offset + i;
    bytes[i] = static_cast<char>(at ^ (at >> 8) ^ (at >> 17));
  }
  return bytes;
}

}  // namespace fairlead::op
