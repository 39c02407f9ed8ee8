// What the driver asks of a TCP socket beyond reading and writing; Linux.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fairlead::link {

// Buffers of one thread, used within one turn and never across: an idle link owns none of them.
struct Scratch {
  std::array<std::byte, 64 * 1024> cipher_in;
  std::array<std::byte, 16 * 1024> plain_in;  // one TLS record
  std::array<std::byte, 64 * 1024> plain_out;
  std::vector<std::byte> cipher_out;

  static Scratch& of_thread();
};

// The kernel reports a socket writable while it holds less than this unsent: what goes next is then
// chosen late, and an urgent frame waits behind this much at most.
inline constexpr int kNotSentLowWater = 16 * 1024;

// Non-blocking, TCP_NODELAY, TCP_NOTSENT_LOWAT.
void set_link_options(boost::asio::ip::tcp::socket& socket, boost::system::error_code& error);
// Unacknowledged data for this long ends the connection.
void set_user_timeout(boost::asio::ip::tcp::socket& socket, std::chrono::milliseconds timeout);
// The kernel's smoothed round trip; zero when it has none.
std::chrono::microseconds smoothed_rtt(boost::asio::ip::tcp::socket& socket);
// The kernel holds less than kNotSentLowWater unsent.
bool has_room(boost::asio::ip::tcp::socket& socket);
// Closes with RST.
void close_with_reset(boost::asio::ip::tcp::socket& socket);

// How long a closing end waits for the other.
inline constexpr std::chrono::seconds kLinger{1};

// Says FIN, drops what still comes until the peer's FIN or kLinger, closes, calls `done`. Closing
// with unread bytes at once would send RST, and that may overtake what was said last.
void linger_and_close(boost::asio::ip::tcp::socket socket, std::function<void()> done);

std::string to_text(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace fairlead::link
