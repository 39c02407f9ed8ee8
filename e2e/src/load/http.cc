#include "http.h"

#include <sys/socket.h>

#include <boost/beast/http.hpp>
#include <cerrno>
#include <utility>

#include "../pattern.h"
#include "visits.h"
#include "watchdog.h"

namespace fairlead::e2e {

namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

// Whether the server has closed, or sent what nobody asked for, since the last answer.
bool still_quiet(tcp::socket& socket) {
  char byte = 0;
  const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace

HttpLoad::HttpLoad(const asio::any_io_executor& executor, Tally& tally, Options options)
    : executor_(executor), tally_(tally), options_(std::move(options)), timer_(executor) {}

void HttpLoad::start() {
  e2e::start(executor_, tick(shared_from_this()));
}

void HttpLoad::stop() {
  stopped_ = true;
  timer_.cancel();
}

Task<> HttpLoad::tick(std::shared_ptr<HttpLoad> self) {
  const auto interval = std::chrono::nanoseconds(std::chrono::seconds(1)) / options_.per_second;
  auto due = Clock::now();
  for (std::uint64_t number = 0; !stopped_; ++number) {
    e2e::start(executor_, request(self, number));
    due += interval;
    co_await wait_until(timer_, due);
  }
  idle_.clear();
}

HttpLoad::LinkPtr HttpLoad::idle_link() {
  while (!idle_.empty()) {
    LinkPtr link = std::move(idle_.front());
    idle_.pop_front();
    if (still_quiet(link->socket)) return link;
    ++reopened_;
  }
  return nullptr;
}

HttpLoad::Expected HttpLoad::make(std::uint64_t number, bool keep) const {
  // Three shapes of exchange; `number` halves first, so that both kinds of connection see all
  // three.
  const std::uint64_t seed = number + 1;
  const std::string query =
      "?size=" + std::to_string(options_.body) + "&seed=" + std::to_string(seed);
  Request request;
  request.version(11);
  switch (number / 2 % 3) {
    case 0:
      request.method(http::verb::get);
      request.target("/file" + query);
      break;
    case 1:
      request.method(http::verb::get);
      request.target("/chunked" + query + "&chunk=700");
      break;
    default:
      request.method(http::verb::post);
      request.target("/echo");
      request.body() = pattern_text(seed, 0, options_.body);
  }
  request.set(http::field::host, options_.host);
  request.keep_alive(keep);
  request.prepare_payload();
  return {std::move(request), seed};
}

Task<> HttpLoad::request(std::shared_ptr<HttpLoad> /*keeps it alive*/, std::uint64_t number) {
  const VisitId id = tally_.open(Kind::kHttp);
  const bool keep = number % 2 == 0;
  std::string lost;
  LinkPtr link = keep ? idle_link() : nullptr;
  const bool fresh = link == nullptr;
  if (fresh) link = std::make_shared<Link>(executor_);
  Watchdog watchdog(link->socket, options_.limit);
  watchdog.feed();
  if (fresh) {
    lost = co_await connect_visit(link->socket, options_.server, tally_, id, std::nullopt);
  } else {
    error_code error;
    const auto local = link->socket.local_endpoint(error);
    if (!error) tally_.connected(id, to_text(local));
  }
  if (lost.empty()) {
    Expected expected = make(number, keep);
    lost = co_await exchange(link, std::move(expected));
  }
  watchdog.stop();
  if (watchdog.fired()) lost = "timeout";
  if (lost.empty()) {
    tally_.finish(id);
  } else {
    tally_.lose(id, lost);
  }
  if (keep && lost.empty() && !stopped_) {
    if (!link->reusable) {
      ++reopened_;
    } else if (idle_.size() < options_.kept) {
      idle_.push_back(link);
    }
  }
}

Task<std::string> HttpLoad::exchange(LinkPtr link, Expected expected) {
  error_code error;
  co_await http::async_write(link->socket, expected.request, catching(error));
  if (error) co_return "write: " + cause_of(error);
  http::response_parser<http::string_body> parser;
  co_await http::async_read(link->socket, link->buffer, parser, catching(error));
  if (error) {
    co_return (parser.is_header_done() ? "body: " : "answer: ") + cause_of(error);
  }
  const auto& response = parser.get();
  if (response.result_int() != 200) {
    const std::string code(response["X-Fairlead-Error"]);
    co_return "status " + std::to_string(response.result_int()) + (code.empty() ? "" : " " + code);
  }
  if (response.body().size() != options_.body) co_return "short";
  if (first_difference(expected.seed, 0, std::as_bytes(std::span(response.body())))) {
    co_return "wrong byte";
  }
  link->reusable = response.keep_alive();
  co_return "";
}

}  // namespace fairlead::e2e
