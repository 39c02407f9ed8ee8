// The TCP services: echo and file.
#include <algorithm>
#include <boost/asio/read_until.hpp>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../pattern.h"
#include "upstream.h"

namespace fairlead::e2e {

using boost::system::error_code;

namespace {

constexpr std::size_t kBlock = 64 * 1024;

void finish_sending(Connection& connection) {
  error_code error;
  connection.socket.shutdown(tcp::socket::shutdown_send, error);
  connection.outbound_ended(error);
}

void close(Connection& connection) {
  connection.look_at_kernel();
  error_code ignored;
  connection.socket.close(ignored);
}

// Reads and drops, to learn of the peer's FIN or RST while nothing else reads.
Task<> watch_inbound(ConnectionPtr connection) {
  std::vector<std::byte> block(4096);
  while (connection->in == HalfEnd::kLive) {
    error_code error;
    connection->bytes_in += co_await read_some(connection->socket, block, error);
    if (error) connection->inbound_ended(error);
  }
  if (connection->out != HalfEnd::kLive) close(*connection);
}

Task<> send_file(ConnectionPtr connection, std::uint64_t size, std::uint64_t seed) {
  start(co_await asio::this_coro::executor, watch_inbound(connection));
  std::vector<std::byte> block(kBlock);
  for (std::uint64_t at = 0; at < size;) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), size - at));
    fill_pattern(seed, at, part);
    if (!co_await send(connection, part)) break;
    at += part.size();
  }
  if (connection->out == HalfEnd::kLive) finish_sending(*connection);
  if (connection->in != HalfEnd::kLive) close(*connection);
}

Task<> take_file(ConnectionPtr connection, std::uint64_t seed, std::string head) {
  Digest digest;
  std::uint64_t size = 0;
  std::optional<std::uint64_t> bad;
  const auto take = [&](std::span<const std::byte> bytes) {
    digest.update(bytes);
    if (!bad) bad = first_difference(seed, size, bytes);
    size += bytes.size();
  };
  take(std::as_bytes(std::span(head)));
  std::vector<std::byte> block(kBlock);
  error_code error;
  while (!error) {
    const std::size_t n = co_await read_some(connection->socket, block, error);
    connection->bytes_in += n;
    take(std::span(block).first(n));
  }
  connection->inbound_ended(error);
  if (connection->in == HalfEnd::kFin) {
    ++connection->requests_complete;
    const std::string answer = bad ? "BAD " + std::to_string(*bad) + "\n"
                                   : "OK " + std::to_string(size) + " " + digest.hex() + "\n";
    if (co_await send(connection, std::as_bytes(std::span(answer)))) finish_sending(*connection);
  }
  close(*connection);
}

}  // namespace

Task<> serve_echo(ConnectionPtr connection, Ledger* /*ledger*/) {
  std::vector<std::byte> block(kBlock);
  while (true) {
    error_code error;
    const std::size_t n = co_await read_some(connection->socket, block, error);
    connection->bytes_in += n;
    if (error) {
      connection->inbound_ended(error);
      if (connection->in == HalfEnd::kFin) finish_sending(*connection);
      break;
    }
    if (!co_await send(connection, std::span(block).first(n))) break;
  }
  close(*connection);
}

Task<> serve_file(ConnectionPtr connection, Ledger* /*ledger*/) {
  std::string head;
  error_code error;
  const std::size_t line = co_await asio::async_read_until(
      connection->socket, asio::dynamic_buffer(head, 4096), '\n', catching(error));
  connection->bytes_in += head.size();
  if (error) {
    connection->inbound_ended(error);
    close(*connection);
    co_return;
  }
  connection->request = head.substr(0, line - 1);
  ++connection->requests;
  std::istringstream words(connection->request);
  std::string verb;
  std::uint64_t size = 0;
  std::uint64_t seed = 0;
  words >> verb;
  if (verb == "GET" && words >> size >> seed) {
    ++connection->requests_complete;
    co_await send_file(connection, size, seed);
  } else if (verb == "PUT" && words >> seed) {
    co_await take_file(connection, seed, head.substr(line));
  } else {
    const std::string_view help = "ERROR want \"GET <size> <seed>\" or \"PUT <seed>\"\n";
    if (co_await send(connection, std::as_bytes(std::span(help)))) finish_sending(*connection);
    close(*connection);
  }
}

}  // namespace fairlead::e2e
