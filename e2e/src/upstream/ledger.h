// What an upstream knows of each connection it served: exact byte counts and how each half ended.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../net.h"

namespace fairlead::e2e {

// How one half of a connection ended, or that it has not.
enum class HalfEnd : std::uint8_t {
  kLive,
  kFin,    // inbound: the peer's FIN was read; outbound: all was written and FIN sent
  kReset,  // RST: read from the peer, or met while writing
  kError,  // any other error
};
std::string_view half_end_name(HalfEnd end);  // "live", "fin", "rst", "error"

struct Connection {
  explicit Connection(tcp::socket s) : socket(std::move(s)) {}

  tcp::socket socket;
  std::string service;  // "echo", "file", "http"
  std::string peer;
  std::string request;                  // the first line of the newest request
  std::uint64_t bytes_in = 0;           // TCP: all; HTTP: of bodies
  std::uint64_t bytes_out = 0;          // accepted by this host's kernel
  std::uint64_t unsent = 0;             // of bytes_out, still in the kernel; as of the last look
  std::uint32_t requests = 0;           // begun
  std::uint32_t requests_complete = 0;  // read to their proper end
  HalfEnd in = HalfEnd::kLive;
  HalfEnd out = HalfEnd::kLive;

  void inbound_ended(const boost::system::error_code& error);
  void outbound_ended(const boost::system::error_code& error);
  void look_at_kernel();
};
using ConnectionPtr = std::shared_ptr<Connection>;

// Writes all of `bytes` and counts what the kernel took. False when the connection broke.
Task<bool> send(ConnectionPtr connection, std::span<const std::byte> bytes);

class Ledger {
 public:
  ConnectionPtr add(tcp::socket socket, std::string service);
  // An array with one object per connection, oldest first.
  nlohmann::json to_json();

 private:
  std::vector<ConnectionPtr> connections_;
};

}  // namespace fairlead::e2e
