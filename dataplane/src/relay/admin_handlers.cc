#include "relay/admin_handlers.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <memory>

#include "fairlead/admin.pb.h"
#include "socket/steady_now.h"

namespace fairlead::dataplane {

namespace asio = boost::asio;
namespace pb = admin::v1;

namespace {

// Runs `ask` on the byte thread. Nothing when it did not answer in time; a late answer is dropped.
template <typename Ask>
auto ask_relay(asio::io_context& io, Ask ask) -> std::optional<decltype(ask())> {
  auto promise = std::make_shared<std::promise<decltype(ask())>>();
  auto answer = promise->get_future();
  asio::post(io, [promise, ask = std::move(ask)] { promise->set_value(ask()); });
  if (answer.wait_for(kAnswerTimeout) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

pb::MemberState to_member_state(const std::string& name) {
  if (name == "joining") return pb::JOINING;
  if (name == "active") return pb::ACTIVE;
  if (name == "draining") return pb::DRAINING;
  return pb::LEAVING;
}

pb::DrainStatus::State to_drain_state(const std::string& name) {
  if (name == "delay") return pb::DrainStatus::DELAY;
  if (name == "draining") return pb::DrainStatus::DRAINING;
  if (name == "drained") return pb::DrainStatus::DRAINED;
  if (name == "forced") return pb::DrainStatus::FORCED;
  return pb::DrainStatus::NONE;
}

void fill_drain(const RelayStatus& status, pb::DrainStatus& reply) {
  reply.set_state(to_drain_state(status.drain.state));
  reply.set_reason(status.drain.reason);
  for (const auto& [kind, n] : status.drain.visits_by_kind) {
    (*reply.mutable_visits_by_kind())[kind] = n;
  }
  reply.set_agents(status.drain.agents);
  reply.set_keepalive_sockets(status.drain.keepalive_sockets);
  reply.set_elapsed_ms(status.drain.elapsed_ms);
  reply.set_deadline_ms(status.drain.deadline_ms);
  reply.set_lost(status.drain.lost);
  reply.set_process_id(status.process_id);
}

void fill_status(const RelayStatus& status, pb::StatusReply& reply) {
  reply.set_uid(status.uid);
  reply.set_name(status.name);
  reply.set_version(status.version);
  reply.set_process_id(status.process_id);
  reply.set_state(to_member_state(status.state));
  reply.set_epoch(status.epoch);
  reply.set_digest(status.digest);
  for (const PeerRow& row : status.peers) {
    pb::PeerStatus& peer = *reply.add_peers();
    peer.set_uid(row.uid);
    peer.set_name(row.name);
    peer.set_links_up(row.links_up);
    peer.set_links_expected(row.links_expected);
    peer.set_links_draining(row.links_draining);
    peer.set_rtt_us(row.rtt_us);
  }
  for (const auto& [kind, counters] : status.counters) {
    pb::VisitCounts& counts = *reply.add_visits();
    counts.set_kind(kind);
    counts.set_opened(counters.opened());
    counts.set_forwarded(counters.forwarded());
    counts.set_finished(counters.finished);
    for (const auto& [cause, n] : counters.lost) (*counts.mutable_lost_by_cause())[cause] = n;
    counts.set_live(counters.live);
  }
  for (const AgentRow& agent : status.agents) {
    if (agent.here) reply.set_agents(reply.agents() + 1);
  }
  fill_drain(status, *reply.mutable_drain());
  reply.set_certificate_serial(status.certificate_serial);
  reply.set_forwarding(status.forwarding);
}

using Answer = AdminHandlers::Answer;
using AdminOutcome = AdminHandlers::Outcome;

constexpr auto kBusy = [] { return Answer{AdminOutcome::kBusy, {}}; };

}  // namespace

AdminHandlers admin_handlers(asio::io_context& io, Relay& relay) {
  AdminHandlers handlers;
  handlers.set_membership = [&io, &relay](const pb::Membership& list, pb::MembershipReply& reply) {
    const auto done = ask_relay(io, [&relay, list] {
      const Membership::Answer answer = relay.set_membership(list);
      return std::pair(answer, relay.status());
    });
    if (!done) return kBusy();
    reply.set_epoch(done->second.epoch);
    reply.set_digest(done->second.digest);
    if (done->first.verdict == Membership::Verdict::kRefused) {
      return Answer{AdminOutcome::kRefused, done->first.text};
    }
    return Answer{};
  };
  handlers.drain = [&io, &relay](const pb::DrainRequest& request, pb::DrainStatus& reply) {
    const auto done = ask_relay(io, [&relay, request] {
      std::string refusal = relay.check_epoch(request.epoch());
      if (refusal.empty()) {
        relay.drain({request.reason(), std::chrono::milliseconds(request.deadline_ms()),
                     std::chrono::milliseconds(request.endpoint_delay_ms()), request.final()});
      }
      return std::pair(std::move(refusal), relay.status());
    });
    if (!done) return kBusy();
    if (!done->first.empty()) return Answer{AdminOutcome::kRefused, done->first};
    fill_drain(done->second, reply);
    return Answer{};
  };
  handlers.status = [&io, &relay](const pb::StatusRequest& request, pb::StatusReply& reply) {
    const auto done = ask_relay(io, [&relay, epoch = request.epoch()] {
      // Epoch 0 asks without leading anything.
      return std::pair(epoch == 0 ? std::string() : relay.check_epoch(epoch), relay.status());
    });
    if (!done) return kBusy();
    if (!done->first.empty()) return Answer{AdminOutcome::kRefused, done->first};
    fill_status(done->second, reply);
    return Answer{};
  };
  return handlers;
}

HealthServer::Respond health_responder(asio::io_context& io, Relay& relay) {
  // When the byte thread last answered; it is asked again at each probe.
  auto heard = std::make_shared<std::atomic<link::Instant>>(steady_now());
  return [&io, &relay, heard](const std::string& method, const std::string& path,
                              const std::string& query, bool from_this_host) {
    HealthReply reply;
    if (path == "/healthz") {
      asio::post(io, [heard] { heard->store(steady_now()); });
      const bool alive = steady_now() - heard->load() < std::chrono::minutes(1);
      return HealthReply{alive ? 200u : 503u, reply.content_type,
                         alive ? "ok\n" : "the byte thread has not answered for a minute\n"};
    }
    if (path == "/drain") {
      if (method != "POST" || !from_this_host) {
        return HealthReply{403, reply.content_type, "POST, and from this host only\n"};
      }
      asio::post(io, [&relay] { relay.drain_as_configured("POST /drain"); });
      return HealthReply{202, reply.content_type, "draining\n"};
    }
    const bool known = path == "/readyz" || path == "/metrics" || path == "/statusz" || path == "/";
    if (!known) return HealthReply{404, reply.content_type, "not found\n"};
    const auto status = ask_relay(io, [&relay] { return relay.status(); });
    if (!status) return HealthReply{503, reply.content_type, "the byte thread is busy\n"};
    if (path == "/readyz") {
      return HealthReply{status->ready ? 200u : 503u, reply.content_type,
                         status->ready ? "ready\n" : "not ready: " + status->state + "\n"};
    }
    if (path == "/metrics") {
      return HealthReply{200, "text/plain; version=0.0.4; charset=utf-8", to_metrics(*status)};
    }
    if (query == "format=json") return HealthReply{200, "application/json", to_json(*status)};
    return HealthReply{200, "text/html; charset=utf-8", to_html(*status)};
  };
}

}  // namespace fairlead::dataplane
