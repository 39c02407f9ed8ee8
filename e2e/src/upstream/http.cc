// The HTTP/1.1 services. Requests are parsed by Beast; answers are written by hand, so that what
// was handed to the kernel is counted to the byte also when the connection breaks in the middle.
#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../pattern.h"
#include "upstream.h"

namespace fairlead::e2e {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t kBlock = 64 * 1024;
constexpr std::size_t kEchoLimit = 1024 * 1024;

using Parser = http::request_parser<http::buffer_body>;

struct Exchange {
  ConnectionPtr connection;
  beast::flat_buffer buffer;
  std::string path;
  std::string query;
  bool keep_alive = true;
};

std::uint64_t number_in(const Exchange& x, std::string_view name, std::uint64_t fallback) {
  const std::string key = std::string(name) + "=";
  for (std::size_t at = 0; at < x.query.size();) {
    const std::size_t end = std::min(x.query.find('&', at), x.query.size());
    if (x.query.compare(at, key.size(), key) == 0) {
      std::uint64_t value = fallback;
      std::from_chars(x.query.data() + at + key.size(), x.query.data() + end, value);
      return value;
    }
    at = end + 1;
  }
  return fallback;
}

Task<bool> send_text(ConnectionPtr connection, std::string text) {
  const auto bytes = std::as_bytes(std::span(text));
  const bool sent = co_await send(std::move(connection), bytes);
  co_return sent;
}

std::string head(const Exchange& x, int status, const std::string& fields) {
  return "HTTP/1.1 " + std::to_string(status) + " " +
         std::string(http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)))) +
         "\r\n" + (x.keep_alive ? "" : "Connection: close\r\n") + fields + "\r\n";
}

Task<bool> send_body(Exchange& x, int status, std::string type, std::string body,
                     std::string fields = "") {
  std::string text =
      head(x, status,
           "Content-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
               fields);
  text += body;
  const bool sent = co_await send_text(x.connection, std::move(text));
  co_return sent;
}

Task<bool> send_chunk(ConnectionPtr connection, std::string data) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  std::string text = size + data + "\r\n";
  const bool sent = co_await send_text(std::move(connection), std::move(text));
  co_return sent;
}

Task<> pause_for(std::uint64_t ms) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  co_await wait_until(timer, Clock::now() + std::chrono::milliseconds(ms));
}

Task<bool> file(Exchange& x) {
  const std::uint64_t size = number_in(x, "size", 1024);
  const std::uint64_t seed = number_in(x, "seed", 1);
  std::string first = head(
      x, 200,
      "Content-Type: application/octet-stream\r\nContent-Length: " + std::to_string(size) + "\r\n");
  bool going = co_await send_text(x.connection, std::move(first));
  for (std::uint64_t at = 0; going && at < size;) {
    std::string block = pattern_text(seed, at, std::min<std::uint64_t>(kBlock, size - at));
    at += block.size();
    going = co_await send_text(x.connection, std::move(block));
  }
  co_return going;
}

Task<bool> chunked(Exchange& x) {
  const std::uint64_t size = number_in(x, "size", 64 * 1024);
  const std::uint64_t seed = number_in(x, "seed", 1);
  const std::uint64_t chunk = std::clamp<std::uint64_t>(number_in(x, "chunk", 16384), 1, kBlock);
  const std::uint64_t delay_ms = number_in(x, "delay_ms", 0);
  std::string first =
      head(x, 200, "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n");
  bool going = co_await send_text(x.connection, std::move(first));
  for (std::uint64_t at = 0; going && at < size;) {
    std::string block = pattern_text(seed, at, std::min(chunk, size - at));
    at += block.size();
    going = co_await send_chunk(x.connection, std::move(block));
    if (going && delay_ms > 0) co_await pause_for(delay_ms);
  }
  if (going) going = co_await send_chunk(x.connection, "");
  co_return going;
}

Task<bool> sse(Exchange& x) {
  const std::uint64_t count = number_in(x, "count", 10);
  const std::uint64_t interval_ms = number_in(x, "interval_ms", 1000);
  std::string first = head(x, 200,
                           "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n"
                           "Transfer-Encoding: chunked\r\n");
  bool going = co_await send_text(x.connection, std::move(first));
  for (std::uint64_t i = 1; going && i <= count; ++i) {
    std::string event = "id: " + std::to_string(i) + "\ndata: event " + std::to_string(i) + "\n\n";
    going = co_await send_chunk(x.connection, std::move(event));
    if (going && i < count) co_await pause_for(interval_ms);
  }
  if (going) going = co_await send_chunk(x.connection, "");
  co_return going;
}

// Reads the next part of the body into `block`; 0 at its end or when the connection broke.
Task<std::size_t> read_body(Exchange& x, Parser& parser, std::vector<char>& block) {
  while (!parser.is_done()) {
    parser.get().body().data = block.data();
    parser.get().body().size = block.size();
    error_code error;
    co_await http::async_read_some(x.connection->socket, x.buffer, parser, catching(error));
    if (error == http::error::need_buffer) error = {};
    if (error) {
      x.connection->inbound_ended(error == http::error::partial_message ? asio::error::eof : error);
      co_return 0;
    }
    const std::size_t n = block.size() - parser.get().body().size;
    x.connection->bytes_in += n;
    if (n > 0) co_return n;
  }
  co_return 0;
}

Task<bool> post(Exchange& x, Parser& parser) {
  const bool keep = x.path == "/echo";
  std::string body;
  std::uint64_t size = 0;
  Digest digest;
  std::vector<char> block(kBlock);
  while (const std::size_t n = co_await read_body(x, parser, block)) {
    digest.update(std::as_bytes(std::span(block).first(n)));
    size += n;
    if (keep && size <= kEchoLimit) body.append(block.data(), n);
  }
  if (!parser.is_done()) co_return false;
  ++x.connection->requests_complete;
  const std::string hash = digest.hex();
  bool sent = false;
  if (!keep) {
    std::string text = nlohmann::json{{"size", size}, {"sha256", hash}}.dump() + "\n";
    sent = co_await send_body(x, 200, "application/json", std::move(text));
  } else if (size > kEchoLimit) {
    sent = co_await send_body(x, 413, "text/plain", "/echo takes at most 1 MiB; use /sink\n");
  } else {
    std::string fields = "X-Body-SHA256: " + hash + "\r\n";
    sent =
        co_await send_body(x, 200, "application/octet-stream", std::move(body), std::move(fields));
  }
  co_return sent;
}

Task<bool> get(Exchange& x) {
  bool sent = false;
  if (x.path == "/file") {
    sent = co_await file(x);
  } else if (x.path == "/chunked") {
    sent = co_await chunked(x);
  } else if (x.path == "/sse") {
    sent = co_await sse(x);
  } else if (x.path.starts_with("/status/")) {
    int status = 0;
    std::from_chars(x.path.data() + 8, x.path.data() + x.path.size(), status);
    if (status < 200 || status > 599) status = 400;
    sent = co_await send_body(x, status, "text/plain", "status " + std::to_string(status) + "\n");
  } else {
    sent = co_await send_body(x, 404, "text/plain", "no such path: " + x.path + "\n");
  }
  co_return sent;
}

Task<bool> answer(Exchange& x, Parser& parser) {
  bool sent = false;
  if (x.path == "/echo" || x.path == "/sink") {
    sent = co_await post(x, parser);
    co_return sent;
  }
  std::vector<char> block(kBlock);
  while (co_await read_body(x, parser, block) > 0) {
  }
  if (!parser.is_done()) co_return false;
  ++x.connection->requests_complete;
  sent = co_await get(x);
  co_return sent;
}

// One request. False when the connection is to be closed.
Task<bool> exchange(Exchange& x, Ledger* book) {
  Parser parser;
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  error_code error;
  co_await http::async_read_header(x.connection->socket, x.buffer, parser, catching(error));
  if (error) {
    x.connection->inbound_ended(error == http::error::end_of_stream ? asio::error::eof : error);
    co_return false;
  }
  const auto& request = parser.get();
  const std::string target(request.target());
  const std::size_t mark = std::min(target.find('?'), target.size());
  x.path = target.substr(0, mark);
  x.query = mark < target.size() ? target.substr(mark + 1) : "";
  x.keep_alive = request.keep_alive();
  x.connection->request = std::string(request.method_string()) + " " + target;
  ++x.connection->requests;
  bool sent = false;
  if (book != nullptr && x.path == "/connections") {
    std::string text = book->to_json().dump() + "\n";
    sent = co_await send_body(x, 200, "application/json", std::move(text));
  } else {
    sent = co_await answer(x, parser);
  }
  co_return sent&& x.keep_alive;
}

Task<> serve(ConnectionPtr connection, Ledger* book) {
  Exchange x;
  x.connection = connection;
  while (co_await exchange(x, book)) {
  }
  error_code error;
  if (connection->in != HalfEnd::kReset) {
    connection->socket.shutdown(tcp::socket::shutdown_send, error);
    connection->outbound_ended(error);
    // Until the peer's end is seen, a close could turn what it still has to read into RST.
    std::vector<std::byte> rest(4096);
    while (connection->in == HalfEnd::kLive) {
      error = {};
      co_await read_some(connection->socket, rest, error);
      if (error) connection->inbound_ended(error);
    }
  }
  connection->look_at_kernel();
  connection->socket.close(error);
}

}  // namespace

Task<> serve_http(ConnectionPtr connection, Ledger* /*ledger*/) {
  co_await serve(std::move(connection), nullptr);
}

Task<> serve_control(ConnectionPtr connection, Ledger* ledger) {
  co_await serve(std::move(connection), ledger);
}

}  // namespace fairlead::e2e
