// Both machines back to back: a visitor, the edge, a visit, the agent and an upstream in memory.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "http/exchange_agent.h"
#include "http/exchange_edge.h"

namespace fairlead::dataplane {
namespace {

std::string fields_text(const Fields& fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    out.append(" ").append(fields[i].name).append("=").append(fields[i].value);
  }
  return out;
}

// What one message in `bytes` says, without how its body is split. `whole` tells whether it ended.
template <typename Reader>
std::string describe(Reader& reader, link::Bytes& bytes, bool& whole, bool clean_close = false) {
  std::string out;
  whole = false;
  const auto add = [&](const typename Reader::Event& event) {
    std::visit(Overloaded{
                   [&](const RequestHead& head) {
                     out += "<" + head.method + " " + head.target + fields_text(head.fields) + ">";
                   },
                   [&](const ResponseHead& head) {
                     out += "<" + std::to_string(head.status) + fields_text(head.fields) + ">";
                   },
                   [&](const read::Body& body) { out += link::as_text(body.bytes); },
                   [&](const read::Trailers& trailers) {
                     out += "{" + fields_text(trailers.fields) + "}";
                   },
                   [&](const read::End&) { whole = true; },
                   [&](const read::Error& error) { out += "!" + std::string(error.text); },
               },
               event);
  };
  while (auto event = reader.next(bytes)) {
    add(*event);
    if (whole) return out;
  }
  if (const auto event = reader.finish(clean_close)) add(*event);
  return out;
}

// One visit with its agent and its upstream.
struct Visit {
  ExchangeAgent agent;
  std::deque<link::Slice> to_agent;
  bool fin_to_agent = false, fin_taken = false;
  bool dead = false;  // reset by either end
  bool agent_done_cleanly = false;
  std::string request_bytes;   // as the edge wrote them
  std::string response_bytes;  // as the agent wrote them
  std::string upstream_bytes;
  bool connected = false, upstream_closed = false, upstream_aborted = false;
  std::size_t upstream_sent = 0;
  bool upstream_ended = false;
};

class World {
 public:
  explicit World(std::string upstream_response)
      : edge({.source = {.ip = *IpAddress::parse("192.0.2.1")}}, now),
        response(std::move(upstream_response)) {}

  // Moves everything but the upstream's response.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      while (auto action = edge.poll()) {
        moved = true;
        EXPECT_FALSE(edge_ended) << "an action after the last one";
        std::visit([&](auto& each) { on(each); }, *action);
      }
      if (visit != nullptr) moved = settle_agent(*visit) || moved;
    }
  }

  bool settle_agent(Visit& one) {
    bool moved = false;
    while (auto action = one.agent.poll()) {
      moved = true;
      std::visit([&](auto& each) { on_agent(one, each); }, *action);
    }
    if (one.dead) return moved;
    if (!one.to_agent.empty() && one.agent.wants_visit_bytes()) {
      one.agent.feed_visit(one.to_agent.front());
      one.to_agent.pop_front();
      return true;
    }
    if (one.fin_to_agent && !one.fin_taken && one.to_agent.empty()) {
      one.fin_taken = true;
      one.agent.visit_finished();
      return true;
    }
    return moved;
  }

  void feed(std::string_view bytes) {
    edge.feed_visitor(link::Slice::copy_of(bytes), now);
    settle();
  }
  // The upstream sends `n` bytes more of its response; its end when there are none left.
  void upstream(std::size_t n) {
    if (visit == nullptr || visit->dead || !visit->connected || visit->upstream_ended) return;
    const std::string_view part = std::string_view(response).substr(visit->upstream_sent, n);
    visit->upstream_sent += part.size();
    if (!part.empty()) {
      visit->agent.feed_upstream(link::Slice::copy_of(part));
    } else {
      visit->upstream_ended = true;
      visit->agent.upstream_finished();
    }
    settle();
  }

  void on(edge_action::RouteRequest&) {
    visits.push_back(std::make_unique<Visit>());
    visit = visits.back().get();
    edge.route_found(now);
  }
  void on(edge_action::WriteVisit& write) {
    ASSERT_FALSE(visit->fin_to_agent) << "bytes behind FIN";
    visit->request_bytes += write.bytes.text();
    visit->to_agent.push_back(std::move(write.bytes));
  }
  void on(edge_action::FinishVisit&) {
    ASSERT_FALSE(visit->fin_to_agent) << "a second FIN";
    visit->fin_to_agent = true;
    // Whatever the visitor sent: what goes into a visit is exactly one request.
    RequestReader reader;
    link::Bytes bytes = link::as_bytes(visit->request_bytes);
    bool whole = false;
    const std::string text = describe(reader, bytes, whole);
    EXPECT_TRUE(whole && bytes.empty()) << visit->request_bytes << "\nis " << text;
  }
  void on(edge_action::ResetVisit&) {
    if (visit == nullptr) return;
    visit->dead = true;
    visit->agent.visit_broken();
    settle_agent(*visit);
  }
  void on(edge_action::WriteVisitor& write) { to_visitor += write.bytes.text(); }
  void on(edge_action::ExchangeDone&) {
    if (visit != nullptr) {
      const Visit* old = visit;
      while (settle_agent(*visit)) {
      }
      ASSERT_EQ(old, visit);
    }
    ++exchanges;
    visit = nullptr;
  }
  void on(edge_action::CloseVisitor&) { edge_ended = closed = true; }
  void on(edge_action::AbortVisitor&) { edge_ended = true; }

  void on_agent(Visit& one, agent_action::Dial&) {
    one.connected = true;
    one.agent.upstream_connected();
  }
  void on_agent(Visit& one, agent_action::WriteUpstream& write) {
    EXPECT_FALSE(one.upstream_closed || one.upstream_aborted);
    one.upstream_bytes += write.bytes.text();
  }
  void on_agent(Visit& one, agent_action::WriteVisit& write) {
    EXPECT_FALSE(one.agent_done_cleanly) << "bytes behind FIN";
    one.response_bytes += write.bytes.text();
    if (&one == visit) edge.feed_visit(write.bytes, now);
  }
  void on_agent(Visit& one, agent_action::FinishVisit&) {
    EXPECT_FALSE(one.agent_done_cleanly) << "a second FIN";
    one.agent_done_cleanly = true;
    // Whatever the upstream sent: what goes into a visit is exactly one whole response.
    ResponseReader reader(one.agent.method());
    link::Bytes bytes = link::as_bytes(one.response_bytes);
    bool whole = false;
    const std::string text = describe(reader, bytes, whole);
    EXPECT_TRUE(whole && bytes.empty()) << one.response_bytes << "\nis " << text;
    if (&one == visit) edge.visit_finished(now);
  }
  void on_agent(Visit& one, agent_action::ResetVisit&) {
    EXPECT_FALSE(one.agent_done_cleanly) << "a reset behind FIN";
    one.dead = true;
    if (&one == visit) edge.visit_broken(Outcome::kUpstreamReset, now);
  }
  void on_agent(Visit& one, agent_action::CloseUpstream&) { one.upstream_closed = true; }
  void on_agent(Visit& one, agent_action::AbortUpstream&) { one.upstream_aborted = true; }

  link::Instant now{};
  ExchangeEdge edge;
  std::vector<std::unique_ptr<Visit>> visits;
  Visit* visit = nullptr;  // of the exchange that runs
  const std::string response;
  std::string to_visitor;
  int exchanges = 0;
  bool edge_ended = false, closed = false;
};

struct Exchange {
  std::string_view name;
  std::string request, response;
  std::string_view method = "GET";
};

const std::string kHost = "Host: web.test\r\n";

const std::vector<Exchange>& exchanges() {
  static const std::vector<Exchange> kAll{
      {"get", "GET /a HTTP/1.1\r\n" + kHost + "\r\n",
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
      {"post", "POST /a HTTP/1.1\r\n" + kHost + "Content-Length: 5\r\n\r\nhello",
       "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", "POST"},
      {"chunks and trailers both ways",
       "PUT /a HTTP/1.1\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n" +
           "3\r\nabc\r\n0\r\nX-Sum: 8\r\n\r\n",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nlate\r\n2\r\nr.\r\n0\r\n"
       "X-Done: yes\r\n\r\n",
       "PUT"},
      {"delete in chunks",
       "DELETE /a HTTP/1.1\r\n" + kHost + "Transfer-Encoding: chunked\r\n\r\n2\r\nid\r\n0\r\n\r\n",
       "HTTP/1.1 204 No Content\r\n\r\n", "DELETE"},
      {"head", "HEAD /a HTTP/1.1\r\n" + kHost + "\r\n",
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD"},
      {"not modified", "GET /a HTTP/1.1\r\n" + kHost + "If-None-Match: x\r\n\r\n",
       "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: x\r\n\r\n"},
      {"continue",
       "POST /a HTTP/1.1\r\n" + kHost + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "POST"},
      {"until the close", "GET /a HTTP/1.1\r\n" + kHost + "\r\n", "HTTP/1.0 200 OK\r\n\r\nhello"},
      {"http/1.0", "GET /a HTTP/1.0\r\n" + kHost + "\r\n",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
  };
  return kAll;
}

struct Seen {
  std::string upstream, visitor;
  bool whole = false;
  friend bool operator==(const Seen&, const Seen&) = default;
};

// What the upstream and the visitor have understood.
Seen seen(World& world, std::string_view method) {
  Seen out;
  bool upstream_whole = false;
  RequestReader requests;
  link::Bytes bytes = link::as_bytes(world.visits.at(0)->upstream_bytes);
  out.upstream = describe(requests, bytes, upstream_whole);
  EXPECT_TRUE(bytes.empty());
  ResponseReader responses(method);
  bytes = link::as_bytes(world.to_visitor);
  out.visitor = describe(responses, bytes, out.whole, world.closed);
  out.whole = out.whole && upstream_whole;
  return out;
}

Seen run(const Exchange& exchange, std::size_t request_split, std::size_t response_split) {
  World world(exchange.response);
  const std::string_view request = exchange.request;
  if (request_split > 0) world.feed(request.substr(0, request_split));
  world.feed(request.substr(request_split));
  if (response_split > 0) world.upstream(response_split);
  world.upstream(exchange.response.size());
  world.upstream(0);
  return seen(world, exchange.method);
}

TEST(ExchangePair, WhatEachEndUnderstands) {
  const std::string forwarded =
      " X-Forwarded-For=192.0.2.1 X-Forwarded-Proto=http X-Forwarded-Host=web.test";
  const Seen get = run(exchanges()[0], 0, 0);
  EXPECT_EQ(get.upstream, "<GET /a Host=web.test" + forwarded + " Connection=close>");
  EXPECT_EQ(get.visitor, "<200 Content-Length=5>hello");
  const Seen put = run(exchanges()[2], 0, 0);
  EXPECT_EQ(put.upstream, "<PUT /a Host=web.test" + forwarded +
                              " Transfer-Encoding=chunked Connection=close>helloabc{ X-Sum=8}");
  EXPECT_EQ(put.visitor, "<200 Transfer-Encoding=chunked>later.{ X-Done=yes}");
  const Seen old = run(exchanges()[8], 0, 0);
  EXPECT_EQ(old.visitor, "<200 Connection=close>hello");
}

TEST(ExchangePair, SplitAtEveryByteBothWays) {
  for (const Exchange& exchange : exchanges()) {
    const Seen expected = run(exchange, 0, 0);
    ASSERT_TRUE(expected.whole) << exchange.name << "\n" << expected.upstream << expected.visitor;
    for (std::size_t n = 1; n < exchange.request.size(); ++n) {
      ASSERT_EQ(run(exchange, n, 0), expected) << exchange.name << ", request split at " << n;
    }
    for (std::size_t n = 1; n < exchange.response.size(); ++n) {
      ASSERT_EQ(run(exchange, 0, n), expected) << exchange.name << ", response split at " << n;
    }
  }
}

TEST(ExchangePair, AResponseCutAtAnyByteIsNeverWhole) {
  for (const Exchange& exchange : exchanges()) {
    for (std::size_t n = 0; n < exchange.response.size(); ++n) {
      World world(exchange.response);
      world.feed(exchange.request);
      if (n > 0) world.upstream(n);
      ASSERT_FALSE(world.visits.at(0)->agent_done_cleanly) << exchange.name << " cut at " << n;
      world.visit->agent.upstream_broken();
      world.settle();
      const Seen cut = seen(world, exchange.method);
      // Either nothing had begun and there is a page, or the connection was reset.
      const bool page = cut.visitor.find("FL-1009") != std::string::npos;
      ASSERT_TRUE(page ? cut.whole : world.edge_ended && !world.closed && !cut.whole)
          << exchange.name << " cut at " << n << ": " << world.to_visitor;
    }
  }
}

TEST(ExchangePair, ARequestCutAtAnyByteNeverEndsAtTheUpstream) {
  for (const Exchange& exchange : exchanges()) {
    for (std::size_t n = 1; n < exchange.request.size(); ++n) {
      for (const bool clean : {true, false}) {
        World world(exchange.response);
        world.feed(std::string_view(exchange.request).substr(0, n));
        clean ? world.edge.visitor_finished(world.now) : world.edge.visitor_broken(world.now);
        world.settle();
        EXPECT_TRUE(world.edge_ended);
        if (world.visits.empty()) continue;
        const Visit& visit = *world.visits[0];
        EXPECT_FALSE(visit.fin_to_agent) << exchange.name << " cut at " << n;
        EXPECT_TRUE(visit.upstream_aborted) << exchange.name << " cut at " << n;
      }
    }
  }
}

TEST(ExchangePair, KeptConnectionsCarryEveryExchange) {
  World world("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  for (int i = 0; i < 100; ++i) {
    world.feed(exchanges()[0].request);
    world.upstream(1000);
  }
  EXPECT_EQ(world.exchanges, 100);
  EXPECT_TRUE(world.edge.idle());
}

// Seeded disorder: mutated bytes, random splits, ends and resets at any moment. World checks the
// invariants; a failure prints its seed.
class Disorder {
 public:
  explicit Disorder(std::uint32_t seed) : random_(seed) {}

  void run() {
    const auto& all = exchanges();
    std::string visitor;
    for (std::size_t i = 0; i < 1 + below(3); ++i) visitor += all[below(all.size())].request;
    std::string upstream = all[below(all.size())].response;
    if (below(2) == 0) mutate(visitor);
    if (below(2) == 0) mutate(upstream);
    World world(upstream);
    std::string_view left = visitor;
    for (int step = 0; step < 200 && !world.edge_ended; ++step) one_step(world, left);
    if (!world.edge_ended) {
      world.edge.visitor_broken(world.now);
      world.settle();
    }
    EXPECT_TRUE(world.edge_ended);
    EXPECT_FALSE(world.edge.wants_visitor_bytes());
    EXPECT_FALSE(world.edge.next_deadline());
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  void one_step(World& world, std::string_view& left) {
    const std::size_t choice = below(100);
    if (choice < 45) {
      if (!world.edge.wants_visitor_bytes()) return;
      const std::string_view part = left.substr(0, 1 + below(40));
      if (part.empty()) {
        world.edge.visitor_finished(world.now);
        return world.settle();
      }
      left.remove_prefix(part.size());
      world.feed(part);
    } else if (choice < 90) {
      world.upstream(below(40));
    } else if (choice < 92) {
      world.edge.set_draining(world.now);
      world.settle();
    } else if (choice < 94) {
      world.now += std::chrono::seconds(below(40));
      world.edge.on_timer(world.now);
      world.settle();
    } else if (world.visit != nullptr && !world.visit->dead) {
      disturb(world, *world.visit, choice);
    }
  }

  void disturb(World& world, Visit& visit, std::size_t choice) {
    if (choice == 94) {
      visit.agent.upstream_broken();
    } else if (choice == 95) {
      visit.agent.upstream_write_failed();
    } else if (choice == 96) {
      visit.dead = true;
      visit.agent.visit_broken();
      world.edge.visit_broken(Outcome::kPathLost, world.now);
    }
    world.settle();
  }

  void mutate(std::string& bytes) {
    static const std::vector<std::string> kPieces{"\r\n",
                                                  "\n",
                                                  "\r",
                                                  "\r\n\r\n",
                                                  " ",
                                                  ":",
                                                  "0\r\n\r\n",
                                                  "Content-Length: 3\r\n",
                                                  "Transfer-Encoding: chunked\r\n",
                                                  "Host: other\r\n",
                                                  "\x01",
                                                  "ffffffffffffffff\r\n",
                                                  "HTTP/1.1 100 Continue\r\n\r\n",
                                                  "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                                                  "Connection: close\r\n"};
    for (std::size_t i = 0; i < 1 + below(4); ++i) {
      const std::size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random_());
          break;
        case 1:
          bytes.insert(at, kPieces[below(kPieces.size())]);
          break;
        case 2:
          bytes.erase(at, 1 + below(8));
          break;
        default:
          bytes.insert(at, bytes.substr(at, 1 + below(30)));
          break;
      }
      if (bytes.empty()) bytes = "\r\n";
    }
  }

  std::mt19937 random_;
};

TEST(ExchangePair, DisorderBreaksNoInvariant) {
  for (std::uint32_t seed = 1; seed <= 5'000; ++seed) {
    Disorder(seed).run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace fairlead::dataplane
