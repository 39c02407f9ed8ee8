#include "relay/visits.h"

#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "socket/steady_now.h"

namespace fairlead::dataplane {

namespace {

std::string random_bytes(std::size_t n) {
  std::string bytes(n, '\0');
  // Fails only when the system has no randomness at all.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(n)) != 1) {
    throw std::runtime_error("no random numbers from the system");
  }
  return bytes;
}

}  // namespace

Visits::Visits(boost::asio::io_context& io, ReplayBudget& replay, Options options)
    : io_(io), replay_(replay), options_(std::move(options)), timer_(io) {}

VisitOpen Visits::describe(std::string kind, std::string tenant, std::string service,
                           std::string visitor) const {
  VisitOpen open;
  open.id = *VisitId::from_bytes(random_bytes(VisitId::kSize));
  open.secret = random_bytes(kSecretSize);
  open.kind = std::move(kind);
  open.tenant = std::move(tenant);
  open.service = std::move(service);
  open.visitor = std::move(visitor);
  open.edge = options_.edge;
  return open;
}

void Visits::begin(std::shared_ptr<VisitDriver> driver) {
  const VisitId id = driver->end().visit().id;
  Visit& visit = visits_[id];
  visit.driver = std::move(driver);
  visit.began = steady_now();
  find_path(visit);
  options_.changed();
}

// Opens the visit on the best home that did not refuse it yet.
void Visits::find_path(Visit& visit) {
  VisitOpen open = visit.driver->end().visit();
  open.attempt = visit.driver->end().attempt();
  const auto driver = visit.driver;
  for (const Route& route : options_.routes(open.kind, open.tenant, open.service)) {
    if (visit.tried.contains(route.home)) continue;
    open.agent_id = route.agent_id;
    open.instance = route.instance;
    const link::OpenRequest request{.meta = encode_open(open), .visit = true};
    const auto opened = route.link->open(
        request, [driver](const link::Event& event) { driver->path_event(event); });
    if (opened.error != link::OpenError::kNone) {
      spdlog::debug("visit {}: home {}: {}", open.id.hex(), route.home,
                    link::open_error_name(opened.error));
      visit.tried.insert(route.home);
      continue;
    }
    visit.home = route.home;
    stop_waiting(visit);
    count_opened(visit, route.forwarded);
    return driver->path_opened(SessionPort(route.link, opened.id),
                               route.forwarded ? Outcome::kPeerLost : Outcome::kAgentLost);
  }
  no_route(visit);
}

void Visits::count_opened(Visit& visit, bool forwarded) {
  if (visit.counted) return;
  visit.counted = true;
  const VisitOpen& open = visit.driver->end().visit();
  VisitCounters& counters = counters_[open.kind];
  ++(forwarded ? counters.opened_forwarded : counters.opened_local)[open.service];
  ++counters.live;
}

// Waits for the directory to change, once; then the visit is over.
void Visits::no_route(Visit& visit) {
  const VisitOpen& open = visit.driver->end().visit();
  if (visit.ticket) return;
  if (!visit.waited) {
    visit.waited = true;
    visit.ticket = waiting_.add(open.tenant, steady_now());
    if (visit.ticket) {
      tickets_[*visit.ticket] = open.id;
      return arm_timer();
    }
  }
  const auto driver = visit.driver;
  const bool refused = visit.last_refusal != link::code::kOk;
  driver->abort(refused ? visit.last_refusal : link::code::kNotHere,
                refused ? std::nullopt : std::optional(Outcome::kNoAgent));
}

void Visits::stop_waiting(Visit& visit) {
  if (!visit.ticket) return;
  waiting_.remove(*visit.ticket);
  tickets_.erase(*visit.ticket);
  visit.ticket.reset();
}

void Visits::path_refused(const VisitId& id, link::Code code) {
  const auto found = visits_.find(id);
  if (found == visits_.end()) return;
  found->second.tried.insert(found->second.home);
  found->second.last_refusal = code;
  find_path(found->second);
}

void Visits::ended(const VisitRecord& record) {
  const auto found = visits_.find(record.id);
  if (found == visits_.end()) return;
  Visit& visit = found->second;
  if (record.outcome == Outcome::kFinished) {
    spdlog::debug("{}", to_string(record));
  } else {
    spdlog::warn("{}", to_string(record));
  }
  const std::string outcome(outcome_name(record.outcome));
  if (visit.counted) {
    VisitCounters& counters = counters_[record.kind];
    --counters.live;
    if (record.outcome == Outcome::kFinished) {
      ++counters.finished;
    } else {
      ++counters.lost[outcome];
    }
  } else {
    refuse(outcome);
  }
  stop_waiting(visit);
  // The driver may be running below this call.
  boost::asio::post(io_, [old = visit.driver] {});
  visits_.erase(found);
  options_.changed();
}

void Visits::routes_changed() {
  for (const WaitingVisits::Ticket ticket : waiting_.waiting()) {
    const auto id = tickets_.find(ticket);
    if (id == tickets_.end()) continue;
    const auto found = visits_.find(id->second);
    if (found == visits_.end()) continue;
    // What refused it may have another link, or know better, by now.
    found->second.tried.clear();
    find_path(found->second);
  }
}

void Visits::expire() {
  for (const WaitingVisits::Ticket ticket : waiting_.expire(steady_now())) {
    const auto id = tickets_.find(ticket);
    if (id == tickets_.end()) continue;
    const auto found = visits_.find(id->second);
    tickets_.erase(id);
    if (found == visits_.end()) continue;
    found->second.ticket.reset();
    found->second.tried.clear();
    find_path(found->second);  // a last time
  }
  arm_timer();
}

void Visits::arm_timer() {
  const auto at = waiting_.next_deadline();
  if (!at) return;
  timer_.expires_at(*at);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) expire();
  });
}

void Visits::forward(LinkSessions& inbound, const link::event::Opened& opened,
                     LinkSessions& agent) {
  SessionPort from(&inbound, opened.id);
  const std::uint64_t key = next_forwarding_++;
  const auto result =
      agent.open(relay_request(opened, from), [this, key](const link::Event& event) {
        forwarding_event(key, Splice::Side::kOutbound, event);
      });
  if (result.error != link::OpenError::kNone) {
    // Nothing was passed on: the visitor's replica may try another home.
    inbound.reset(opened.id, link::code::kRefused);
    inbound.stop(opened.id, link::code::kRefused);
    from.release(steady_now(), link::code::kRefused);
    return;
  }
  std::string error;
  const auto meta = parse_open(opened.meta.bytes(), error);
  const auto* visit = meta ? std::get_if<VisitOpen>(&*meta) : nullptr;
  auto forwarding = std::make_unique<Forwarding>(from, SessionPort(&agent, result.id),
                                                 visit ? visit->kind : "", steady_now());
  forwardings_.emplace(key, std::move(forwarding));
  inbound.own(opened.id, [this, key](const link::Event& event) {
    forwarding_event(key, Splice::Side::kInbound, event);
  });
  options_.changed();
}

void Visits::forwarding_event(std::uint64_t key, Splice::Side side, const link::Event& event) {
  const auto found = forwardings_.find(key);
  if (found == forwardings_.end()) return;
  found->second->splice.on_event(side, event, steady_now());
  if (!found->second->splice.done()) return;
  forwardings_.erase(found);
  options_.changed();
}

std::size_t Visits::reset_all() {
  const std::size_t count = visits_.size() + forwardings_.size();
  std::vector<std::shared_ptr<VisitDriver>> drivers;
  for (const auto& [id, visit] : visits_) drivers.push_back(visit.driver);
  for (const auto& driver : drivers) {
    driver->abort(link::code::kDrainTimeout, Outcome::kDrainTimeout);
  }
  for (auto& [key, forwarding] : forwardings_) forwarding->splice.drop(steady_now());
  std::erase_if(forwardings_, [](const auto& each) { return each.second->splice.done(); });
  return count;
}

std::map<std::string, std::uint32_t> Visits::live_by_kind() const {
  std::map<std::string, std::uint32_t> kinds;
  for (const auto& [id, visit] : visits_) ++kinds[visit.driver->end().visit().kind];
  for (const auto& [key, forwarding] : forwardings_) ++kinds[forwarding->kind];
  return kinds;
}

void Visits::fill(RelayStatus& status) const {
  const auto now = steady_now();
  for (const auto& [id, visit] : visits_) {
    const VisitOpen& open = visit.driver->end().visit();
    VisitRow row;
    row.id = id.hex();
    row.kind = open.kind;
    row.service = open.service;
    row.edge = options_.edge;
    row.home = visit.home;
    row.visitor = open.visitor;
    row.seconds = std::chrono::duration<double>(now - visit.began).count();
    status.visits.push_back(std::move(row));
  }
  status.forwarding = static_cast<std::uint32_t>(forwardings_.size());
  status.counters = counters_;
  status.refused = refused_;
  status.replay_held = replay_.used();
  status.replay_capacity = replay_.capacity();
}

}  // namespace fairlead::dataplane
