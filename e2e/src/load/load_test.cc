// The generator against the upstreams, directly and through a proxy that does harm: every claim of
// zero has its twin here in which the counter must rise.
#include "load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <thread>

#include "../pattern.h"
#include "../upstream/upstream.h"

namespace fairlead::e2e {
namespace {

using boost::system::error_code;
using std::chrono::milliseconds;

enum class Harm { kNone, kReset, kEnd, kFlip, kStall };

// Forwards connections to `target`; does `harm` to each after `after` bytes towards the visitor.
struct Proxy {
  tcp::endpoint target;
  Harm harm = Harm::kNone;
  std::uint64_t after = 0;
};

Task<> forward(std::shared_ptr<tcp::socket> from, std::shared_ptr<tcp::socket> to, Proxy plan,
               bool to_visitor) {
  std::vector<std::byte> block(1000);
  std::uint64_t passed = 0;
  error_code error;
  while (!error) {
    const std::size_t n = co_await read_some(*from, block, error);
    if (to_visitor && plan.harm != Harm::kNone && passed + n > plan.after) {
      if (plan.harm == Harm::kReset) {
        reset_on_close(*to);
        to->close(error);
        from->close(error);
      }
      if (plan.harm == Harm::kEnd) to->shutdown(tcp::socket::shutdown_send, error);
      if (plan.harm == Harm::kReset || plan.harm == Harm::kEnd) co_return;
      if (plan.harm == Harm::kStall) co_return;
      block[0] ^= std::byte{1};
      plan.harm = Harm::kNone;
    }
    passed += n;
    error_code write_error;
    const std::string text(reinterpret_cast<const char*>(block.data()), n);
    co_await write_all(*to, text, write_error);
    if (write_error) error = write_error;
  }
  error_code ignored;
  to->shutdown(tcp::socket::shutdown_send, ignored);
}

Task<> proxy_loop(std::shared_ptr<tcp::acceptor> acceptor, Proxy plan) {
  const auto executor = co_await asio::this_coro::executor;
  while (true) {
    error_code error;
    auto visitor = std::make_shared<tcp::socket>(co_await acceptor->async_accept(catching(error)));
    auto upstream = std::make_shared<tcp::socket>(executor);
    co_await upstream->async_connect(plan.target, catching(error));
    start(executor, forward(visitor, upstream, plan, false));
    start(executor, forward(upstream, visitor, plan, true));
  }
}

// Answers one request, promises to keep the connection, and closes it 2 ms later.
Task<> answer_once(std::shared_ptr<tcp::socket> socket) {
  namespace http = boost::beast::http;
  error_code error;
  boost::beast::flat_buffer buffer;
  http::request<http::string_body> request;
  co_await http::async_read(*socket, buffer, request, catching(error));
  http::response<http::string_body> response(http::status::ok, 11);
  std::uint64_t size = 0;
  std::uint64_t seed = 0;
  const std::string target(request.target());
  std::sscanf(target.c_str(), "%*[^=]=%lu&seed=%lu", &size, &seed);
  response.body() = request.body().empty() ? pattern_text(seed, 0, size) : request.body();
  response.prepare_payload();
  co_await http::async_write(*socket, response, catching(error));
  asio::steady_timer timer(co_await asio::this_coro::executor);
  co_await wait_until(timer, Clock::now() + milliseconds(2));
}

Task<> one_answer_server(std::shared_ptr<tcp::acceptor> acceptor) {
  const auto executor = co_await asio::this_coro::executor;
  while (true) {
    error_code error;
    auto visitor = std::make_shared<tcp::socket>(co_await acceptor->async_accept(catching(error)));
    start(executor, answer_once(visitor));
  }
}

class LoadTest : public ::testing::Test {
 protected:
  LoadTest() : thread_([this] { io_.run(); }) {}
  ~LoadTest() override {
    io_.stop();
    thread_.join();
  }

  static tcp::endpoint local(std::uint16_t port) { return {loopback(), port}; }
  static asio::ip::address loopback() { return asio::ip::make_address("127.0.0.1"); }

  tcp::endpoint proxy(std::uint16_t target, Harm harm, std::uint64_t after) {
    auto acceptor = std::make_shared<tcp::acceptor>(listen_on(io_.get_executor(), local(0)));
    start(io_.get_executor(), proxy_loop(acceptor, {local(target), harm, after}));
    return acceptor->local_endpoint();
  }

  EchoVisit::Options echo(const tcp::endpoint& server) {
    EchoVisit::Options options;
    options.server = server;
    options.bytes_per_second = 64 * 1024;
    options.stall_limit = milliseconds(700);
    return options;
  }

  Download::Options download(const tcp::endpoint& server) {
    Download::Options options;
    options.server = server;
    options.size = 1'000'000;
    options.seed = 9;
    options.sha256 = pattern_digest(9, options.size);
    options.stall_limit = milliseconds(700);
    return options;
  }

  HttpLoad::Options http(const tcp::endpoint& server) {
    HttpLoad::Options options;
    options.server = server;
    options.host = "web.example";
    options.per_second = 200;
    options.limit = milliseconds(700);
    return options;
  }

  template <typename Condition>
  Load::Snapshot wait(Load& load, Condition condition) {
    Load::Snapshot s = load.snapshot();
    for (const auto end = Clock::now() + std::chrono::seconds(10);
         !condition(s) && Clock::now() < end; s = load.snapshot()) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_EQ(s.broken, "");
    return s;
  }

  static bool all_ended(const Load::Snapshot& s) { return live_in(s) == 0; }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Upstream upstream_{io_.get_executor(), loopback(), {}};
  std::thread thread_;
};

TEST_F(LoadTest, EchoVisitsFinishWhenClosed) {
  Load load;
  load.open_echoes(5, echo(local(upstream_.ports().echo)));
  wait(load, [](const auto& s) { return s.echo_bytes > 5 * 32 * 1024; });
  EXPECT_EQ(load.live_visitors(Kind::kTcp).size(), 5U);
  load.close_echoes();
  const auto s = wait(load, all_ended);
  EXPECT_EQ(s.tcp.opened, 5U);
  EXPECT_EQ(s.tcp.finished, 5U) << (load.lost().empty() ? "" : load.lost()[0].cause);
}

TEST_F(LoadTest, EchoVisitsAreLostByTheirCause) {
  const std::uint16_t port = upstream_.ports().echo;
  const std::map<Harm, std::string> causes = {{Harm::kReset, "reset"},
                                              {Harm::kEnd, "ended early"},
                                              {Harm::kFlip, "wrong byte"},
                                              {Harm::kStall, "stalled"}};
  for (const auto& [harm, cause] : causes) {
    Load load;
    load.open_echoes(3, echo(proxy(port, harm, 20'000)));
    const auto s = wait(load, all_ended);
    EXPECT_EQ(s.tcp.lost_by_cause, (std::map<std::string, std::uint64_t>{{cause, 3}}));
    ASSERT_EQ(load.lost().size(), 3U);
    EXPECT_TRUE(load.lost()[0].visitor.starts_with("127.0.0.1:"));
  }
}

TEST_F(LoadTest, ARefusedConnectIsALostVisit) {
  tcp::acceptor closed = listen_on(io_.get_executor(), local(0));
  const auto server = closed.local_endpoint();
  closed.close();
  Load load;
  load.open_echoes(1, echo(server));
  load.open_downloads(1, download(server));
  const auto s = wait(load, all_ended);
  EXPECT_EQ(s.tcp.lost_by_cause.count("connect: refused"), 1U);
  EXPECT_EQ(s.download.lost_by_cause.count("connect: refused"), 1U);
}

TEST_F(LoadTest, DownloadsKeepTheirRateThenFinish) {
  Load load;
  auto options = download(local(upstream_.ports().file));
  options.bytes_per_second = 400'000;
  const auto began = Clock::now();
  load.open_downloads(2, options);
  wait(load, [](const auto& s) { return s.download_bytes > 2 * 200'000; });
  EXPECT_GT(Clock::now() - began, milliseconds(250));
  load.set_download_rate(0);
  std::this_thread::sleep_for(milliseconds(900));  // longer than the stall limit
  EXPECT_EQ(load.snapshot().download.live, 2U);
  load.set_download_rate(Download::kUnlimited);
  const auto s = wait(load, all_ended);
  EXPECT_EQ(s.download.finished, 2U);
  EXPECT_EQ(s.download_bytes, 2'000'000U);
}

TEST_F(LoadTest, DownloadsAreLostByTheirCause) {
  const std::uint16_t port = upstream_.ports().file;
  const std::map<Harm, std::string> causes = {{Harm::kReset, "reset"},
                                              {Harm::kEnd, "short"},
                                              {Harm::kFlip, "wrong byte"},
                                              {Harm::kStall, "stalled"}};
  for (const auto& [harm, cause] : causes) {
    Load load;
    load.open_downloads(2, download(proxy(port, harm, 500'000)));
    const auto s = wait(load, all_ended);
    EXPECT_EQ(s.download.lost_by_cause, (std::map<std::string, std::uint64_t>{{cause, 2}}));
  }
  Load load;
  auto wrong = download(local(port));
  wrong.sha256 = "no such hash";
  load.open_downloads(1, wrong);
  EXPECT_EQ(wait(load, all_ended).download.lost_by_cause.count("wrong hash"), 1U);
}

TEST_F(LoadTest, HttpRequestsAllSucceed) {
  Load load;
  load.start_http(http(local(upstream_.ports().http)));
  wait(load, [](const auto& s) { return s.http.finished >= 60; });
  load.stop_http();
  const auto s = wait(load, all_ended);
  EXPECT_EQ(s.http.lost, 0U) << (load.lost().empty() ? "" : load.lost()[0].cause);
  EXPECT_EQ(s.http_reopened, 0U);
}

TEST_F(LoadTest, HttpRequestsAreLostByTheirCause) {
  const std::uint16_t port = upstream_.ports().http;
  const std::map<Harm, std::vector<std::string>> causes = {
      {Harm::kReset, {"answer: reset", "body: reset", "write: reset"}},
      {Harm::kEnd, {"answer: ended early", "body: ended early"}},
      {Harm::kStall, {"timeout"}}};
  for (const auto& [harm, expected] : causes) {
    Load load;
    // The third answer of a kept connection and no answer of a new one is cut.
    load.start_http(http(proxy(port, harm, 5000)));
    wait(load, [](const auto& s) { return s.http.lost >= 3; });
    load.stop_http();
    const auto s = wait(load, all_ended);
    EXPECT_GE(s.http.lost, 3U);
    EXPECT_GE(s.http.finished, 3U);
    for (const auto& [cause, n] : s.http.lost_by_cause) {
      EXPECT_NE(std::find(expected.begin(), expected.end(), cause), expected.end()) << cause;
    }
  }
}

TEST_F(LoadTest, AKeptConnectionClosedWhileIdleIsNoFailure) {
  auto acceptor = std::make_shared<tcp::acceptor>(listen_on(io_.get_executor(), local(0)));
  start(io_.get_executor(), one_answer_server(acceptor));
  Load load;
  auto options = http(acceptor->local_endpoint());
  options.per_second = 40;
  load.start_http(options);
  wait(load, [](const auto& s) { return s.http.finished >= 20; });
  load.stop_http();
  const auto s = wait(load, all_ended);
  EXPECT_EQ(s.http.lost, 0U) << (load.lost().empty() ? "" : load.lost()[0].cause);
  EXPECT_GE(s.http_reopened, 5U);
}

TEST(LoadText, OneLine) {
  Load::Snapshot s;
  s.tcp.live = 40;
  s.download.live = 8;
  s.download_bytes = 5U << 20U;
  s.http.finished = 12;
  s.http.lost = 1;
  EXPECT_EQ(one_line(s), "tcp 40 live | downloads 8 live, 5 MiB | http 12 done | lost 1");
}

}  // namespace
}  // namespace fairlead::e2e
