#include "net.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <exception>
#include <memory>
#include <stdexcept>

namespace fairlead::e2e {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

tcp::endpoint parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::uint16_t port = 0;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, result] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (result == std::errc{} && end == digits.data() + digits.size()) {
      error_code error;
      const auto address = asio::ip::make_address(std::string(text.substr(0, colon)), error);
      if (!error) return {address, port};
    }
  }
  throw std::invalid_argument("\"" + std::string(text) +
                              "\" is not an address; write IP:PORT, for example 127.0.0.1:8080");
}

std::string to_text(const tcp::endpoint& endpoint) {
  return endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
}

std::string cause_of(const error_code& error) {
  if (error == asio::error::connection_reset || error == asio::error::broken_pipe) return "reset";
  if (error == asio::error::eof || error == http::error::end_of_stream ||
      error == http::error::partial_message) {
    return "ended early";
  }
  if (error == asio::error::connection_refused) return "refused";
  if (error == asio::error::operation_aborted || error == asio::error::timed_out ||
      error == beast::error::timeout) {
    return "timeout";
  }
  return error.message();
}

Task<std::size_t> read_some(tcp::socket& socket, std::span<std::byte> into, error_code& error) {
  const auto buffer = asio::buffer(into.data(), into.size());
  const std::size_t n = co_await socket.async_read_some(buffer, catching(error));
  co_return n;
}

Task<std::size_t> write_some(tcp::socket& socket, std::span<const std::byte> bytes,
                             error_code& error) {
  const auto buffer = asio::buffer(bytes.data(), bytes.size());
  const std::size_t n = co_await socket.async_write_some(buffer, catching(error));
  co_return n;
}

Task<std::size_t> write_all(tcp::socket& socket, std::string_view text, error_code& error) {
  const auto buffer = asio::buffer(text.data(), text.size());
  const std::size_t n = co_await asio::async_write(socket, buffer, catching(error));
  co_return n;
}

Task<> wait_until(asio::steady_timer& timer, Clock::time_point when) {
  error_code ignored;
  timer.expires_at(when);
  co_await timer.async_wait(catching(ignored));
}

void start(const asio::any_io_executor& executor, Task<> task) {
  asio::co_spawn(executor, std::move(task), [](std::exception_ptr escaped) {
    if (escaped) std::rethrow_exception(escaped);
  });
}

tcp::acceptor listen_on(const asio::any_io_executor& executor, const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(executor);
  acceptor.open(endpoint.protocol());
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  acceptor.bind(endpoint);
  acceptor.listen();
  return acceptor;
}

void reset_on_close(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
}

namespace {

Task<> get_once(tcp::endpoint server, std::string target, std::chrono::milliseconds timeout,
                std::shared_ptr<HttpAnswer> answer) {
  error_code error;
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  stream.expires_after(timeout);
  co_await stream.async_connect(server, catching(error));
  http::request<http::empty_body> request(http::verb::get, target, 11);
  request.set(http::field::host, to_text(server));
  request.set(http::field::connection, "close");
  if (!error) co_await http::async_write(stream, request, catching(error));
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(256ULL << 20U);
  if (!error) co_await http::async_read(stream, buffer, parser, catching(error));
  if (error) {
    answer->error = "GET http://" + to_text(server) + target + ": " + cause_of(error);
    co_return;
  }
  answer->status = parser.get().result_int();
  answer->body = std::move(parser.get().body());
}

}  // namespace

HttpAnswer http_get(const tcp::endpoint& server, const std::string& target,
                    std::chrono::milliseconds timeout) {
  asio::io_context io(1);
  auto answer = std::make_shared<HttpAnswer>();
  start(io.get_executor(), get_once(server, target, timeout, answer));
  io.run();
  return *answer;
}

}  // namespace fairlead::e2e
