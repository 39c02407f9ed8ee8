#include "client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <future>
#include <ostream>

namespace fairlead::dataplane::testing {

namespace {

constexpr timeval kTimeout{10, 0};

void set_timeouts(int fd) {
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

std::uint16_t bound_port(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, End end) {
  return out << (end == End::kFin ? "FIN" : end == End::kReset ? "RST" : "timeout");
}

Client::Client(const Tcp::endpoint& to, int receive_buffer) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  set_timeouts(fd_);
  if (receive_buffer > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  if (::connect(fd_, to.data(), static_cast<socklen_t>(to.size())) != 0) close();
}

Client::Client(int fd) : fd_(fd) {
  set_timeouts(fd_);
}

Client::~Client() {
  close();
}

Tcp::endpoint Client::local() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  return {boost::asio::ip::address_v4(ntohl(address.sin_addr.s_addr)), ntohs(address.sin_port)};
}

bool Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::size_t Client::send_what_fits() {
  const std::string part(16 * 1024, 'x');
  std::size_t total = 0;
  for (int idle = 0; idle < 20; ++idle) {
    for (ssize_t n = 0; (n = ::send(fd_, part.data(), part.size(), MSG_DONTWAIT)) > 0; idle = 0) {
      total += static_cast<std::size_t>(n);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return total;
}

void Client::finish() {
  ::shutdown(fd_, SHUT_WR);
}

void Client::reset() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

void Client::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

// One read into the buffer; false at the end.
bool Client::fill() {
  if (end_) return false;
  char part[64 * 1024];
  const ssize_t n = ::recv(fd_, part, sizeof part, 0);
  if (n > 0) {
    buffer_.append(part, static_cast<std::size_t>(n));
    return true;
  }
  const bool timeout = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  end_ = n == 0 ? End::kFin : timeout ? End::kTimeout : End::kReset;
  return false;
}

std::string Client::read_all(End& end) {
  while (fill()) {
  }
  end = *end_;
  return std::exchange(buffer_, {});
}

std::string Client::read(std::size_t n) {
  while (buffer_.size() < n && fill()) {
  }
  std::string bytes = buffer_.substr(0, n);
  buffer_.erase(0, n);
  return bytes;
}

std::string Client::read_some() {
  if (buffer_.empty()) fill();
  return std::exchange(buffer_, {});
}

std::string Client::read_until(std::string_view mark) {
  std::size_t at = 0;
  while ((at = buffer_.find(mark)) == std::string::npos && fill()) {
  }
  if (at == std::string::npos) return std::exchange(buffer_, {});
  std::string bytes = buffer_.substr(0, at + mark.size());
  buffer_.erase(0, bytes.size());
  return bytes;
}

End Client::wait_end() {
  while (fill()) buffer_.clear();
  return *end_;
}

Upstream::Upstream(std::function<void(Client&)> serve) : serve_(std::move(serve)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(0);
  ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::listen(listener_, 128);
  port_ = bound_port(listener_);
  accepting_ = std::thread([this] { accept(); });
}

void Upstream::accept() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    ++accepted_;
    serving_.emplace_back([this, fd] {
      Client visitor(fd);
      serve_(visitor);
    });
  }
}

Upstream::~Upstream() {
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  ::close(listener_);
  for (std::thread& each : serving_) each.join();
}

void Upstream::echo(Client& visitor) {
  for (;;) {
    const std::string bytes = visitor.read_some();
    if (bytes.empty() || !visitor.send(bytes)) break;
  }
}

std::size_t system_holds(int receive_buffer) {
  std::promise<std::size_t> held;
  Upstream upstream([&](Client& peer) { held.set_value(peer.send_what_fits()); });
  const Client stuck({boost::asio::ip::address_v4::loopback(), upstream.port()}, receive_buffer);
  return held.get_future().get();
}

std::uint16_t refused_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(0);
  ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const std::uint16_t port = bound_port(fd);
  ::close(fd);
  return port;
}

int HttpMessage::status() const {
  int status = 0;
  if (start.size() > 12) std::from_chars(start.data() + 9, start.data() + 12, status);
  return status;
}

std::string HttpMessage::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

namespace {

bool read_chunks(Client& from, std::string& body) {
  for (;;) {
    const std::string line = from.read_until("\r\n");
    if (!line.ends_with("\r\n")) return false;
    const std::size_t size = std::strtoul(line.c_str(), nullptr, 16);
    if (size == 0) return from.read(2) == "\r\n";
    const std::string part = from.read(size);
    body += part;
    if (part.size() < size || from.read(2) != "\r\n") return false;
  }
}

}  // namespace

HttpMessage read_http(Client& from, bool response, bool head_only) {
  HttpMessage message;
  std::string head = from.read_until("\r\n\r\n");
  if (!head.ends_with("\r\n\r\n")) return message;
  head.resize(head.size() - 2);
  std::size_t at = head.find("\r\n");
  message.start = head.substr(0, at);
  for (at += 2; at < head.size();) {
    const std::size_t end = head.find("\r\n", at), colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    message.fields[name] = head.substr(head.find_first_not_of(' ', colon + 1),
                                       end - head.find_first_not_of(' ', colon + 1));
    at = end + 2;
  }
  if (head_only) {
    message.complete = true;
  } else if (message.field("transfer-encoding") == "chunked") {
    message.complete = read_chunks(from, message.body);
  } else if (const std::string length = message.field("content-length"); !length.empty()) {
    const std::size_t size = std::stoul(length);
    message.body = from.read(size);
    message.complete = message.body.size() == size;
  } else if (response) {
    End end = End::kTimeout;
    message.body = from.read_all(end);
    message.complete = end == End::kFin;
  } else {
    message.complete = true;
  }
  return message;
}

std::string chunk(std::string_view bytes) {
  char size[20];
  const auto end = std::to_chars(size, size + sizeof size, bytes.size(), 16).ptr;
  return std::string(size, end) + "\r\n" + std::string(bytes) + "\r\n";
}

std::string pattern(std::size_t n, std::uint32_t seed) {
  std::string bytes(n, '\0');
  std::uint32_t state = seed * 2654435761u + 1;
  for (char& each : bytes) {
    state = state * 1664525u + 1013904223u;
    each = static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace fairlead::dataplane::testing
