// What upstreams and visits share: coroutines over Asio sockets, addresses, and names for errors.
#pragma once

#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fairlead::e2e {

namespace asio = boost::asio;
using asio::ip::tcp;
template <typename T = void>
using Task = asio::awaitable<T>;
using Clock = std::chrono::steady_clock;

// Completion token: `co_await op(..., catching(error))` reports in `error` and throws nothing.
inline auto catching(boost::system::error_code& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

// "127.0.0.1:80". Throws std::invalid_argument with a text for people.
tcp::endpoint parse_endpoint(std::string_view text);
std::string to_text(const tcp::endpoint& endpoint);

// "reset", "ended early", "refused", "timeout" or the system's words: the causes by which visits
// and connections are counted.
std::string cause_of(const boost::system::error_code& error);

// All of them return what was moved before the error; none throws.
Task<std::size_t> read_some(tcp::socket& socket, std::span<std::byte> into,
                            boost::system::error_code& error);
Task<std::size_t> write_some(tcp::socket& socket, std::span<const std::byte> bytes,
                             boost::system::error_code& error);
Task<std::size_t> write_all(tcp::socket& socket, std::string_view text,
                            boost::system::error_code& error);

// Returns early, without an error, when `timer` is cancelled.
Task<> wait_until(asio::steady_timer& timer, Clock::time_point when);

// Starts a coroutine that reports its own errors; what escapes it ends the program.
void start(const asio::any_io_executor& executor, Task<> task);

// The listening socket, bound and with SO_REUSEADDR; throws boost::system::system_error.
tcp::acceptor listen_on(const asio::any_io_executor& executor, const tcp::endpoint& endpoint);

// Makes close() send RST instead of FIN; a destructor alone still sends FIN, by Asio's doing.
void reset_on_close(tcp::socket& socket);

// One blocking GET by HTTP/1.1 with a deadline, for readers of metrics and status pages.
struct HttpAnswer {
  int status = 0;  // 0: no answer, see error
  std::string body;
  std::string error;
};
HttpAnswer http_get(const tcp::endpoint& server, const std::string& target,
                    std::chrono::milliseconds timeout);

}  // namespace fairlead::e2e
