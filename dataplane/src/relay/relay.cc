#include "relay/relay.h"

#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "fairlead/admin.pb.h"
#include "socket/steady_now.h"
#include "visit/visit_meta.h"

namespace fairlead::dataplane {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

std::string random_id() {
  unsigned char bytes[8] = {};
  RAND_bytes(bytes, sizeof bytes);
  return to_hex({reinterpret_cast<const char*>(bytes), sizeof bytes});
}

bool read_file(const std::filesystem::path& path, std::string& text, std::string& error) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  if (in) out << in.rdbuf();
  if (!in) {
    error = "cannot read " + path.string() + ": " + std::strerror(errno);
    return false;
  }
  text = out.str();
  return true;
}

tcp::endpoint endpoint_of(const SocketAddress& address) {
  return {asio::ip::make_address(to_string(address.ip)), address.port};
}

std::string lines(const std::vector<std::string>& errors) {
  std::string text;
  for (const std::string& error : errors) text += (text.empty() ? "" : "\n") + error;
  return text;
}

}  // namespace

Relay::Relay(asio::io_context& io, RelayConfig config, std::string version,
             std::function<void()> ended)
    : io_(io),
      config_(std::move(config)),
      version_(std::move(version)),
      boot_id_(random_id()),
      started_at_(steady_now()),
      ended_(std::move(ended)),
      credit_(std::uint64_t{config_.memory_mib} << 20),
      replay_((std::uint64_t{config_.memory_mib} << 20) / 4),
      membership_(config_.cluster.uid),
      directory_(config_.replica.uid, boot_id_),
      visits_(io, replay_,
              {.edge = config_.replica.name,
               .routes = [this](const auto& kind, const auto& tenant,
                                const auto& service) { return routes(kind, tenant, service); },
               .changed = [this] { changed(); }}),
      agents_(io, directory_,
              {.replica_uid = config_.replica.uid,
               .replica_name = config_.replica.name,
               .version = version_,
               .min_version = config_.min_version,
               .routes = [this]() -> const RouteTable& { return *routes_; },
               .target_homes = [this] { return target_homes(); },
               .stranger = [this](auto cause, const auto& source,
                                  const auto& text) { stranger(cause, source, text); },
               .changed = [this] { changed(); }}),
      mesh_(io, membership_, directory_,
            {.cluster_uid = config_.cluster.uid,
             .uid = config_.replica.uid,
             .name = config_.replica.name,
             .boot_id = boot_id_,
             .version = version_,
             .identity = nullptr,
             .liveness = config_.peer_liveness,
             .pool_size = config_.pool_size,
             .credit = &credit_,
             .on_visit = [this](auto& link, const auto& opened) { on_peer_visit(link, opened); },
             .on_membership =
                 [this](std::string_view bytes) {
                   admin::v1::Membership list;
                   if (list.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
                     set_membership(list);
                   }
                 },
             .stranger = [this](auto cause, const auto& source,
                                const auto& text) { stranger(cause, source, text); },
             .changed = [this] { changed(); }}),
      tcp_(io, asio::ip::make_address(to_string(config_.listen.address)), config_.trusted_proxies,
           visits_),
      http_(io, visits_,
            {.trusted = config_.trusted_proxies,
             .routes = [this]() -> const RouteTable& { return *routes_; },
             .changed = [this] { changed(); }}),
      drain_timer_(io),
      reload_timer_(io),
      ready_timer_(io),
      leave_timer_(io) {}

Relay::~Relay() {
  visits_.reset_all();
}

bool Relay::start(std::string& error) {
  if (!load_files(error) || !load_tokens(error)) return false;
  mesh_.set_identity(identity_);
  load_membership();
  if (!listen(error)) return false;
  serving_ = true;
  membership_changed();
  reload_timer_.expires_after(kReloadPeriod);
  reload_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) reload();
  });
  ready_timer_.expires_after(kMeshGrace);
  ready_timer_.async_wait([this](const boost::system::error_code&) { update(); });
  return true;
}

bool Relay::load_files(std::string& error) {
  const auto material = link::read_tls_material(config_.tls_cert.string(), config_.tls_key.string(),
                                                config_.tls_ca.string(), error);
  if (!material) return false;
  const std::string text = material->certificate + material->key + material->ca;
  if (text == loaded_tls_) return true;
  if (!identity_) {
    identity_ = link::TlsIdentity::create(*material, error);
    if (!identity_) return false;
  } else if (!identity_->replace(*material, error)) {
    return false;
  } else {
    spdlog::info("certificate {} is served from now on", identity_->serial());
  }
  loaded_tls_ = text;
  return true;
}

bool Relay::load_tokens(std::string& error) {
  std::string text;
  if (!read_file(config_.tokens_file, text, error)) return false;
  if (routes_ && text == loaded_tokens_) return true;
  std::vector<std::string> errors;
  auto tokens = Tokens::parse(text, config_.tokens_file, config_.domain, errors);
  if (!tokens) {
    error = lines(errors);
    return false;
  }
  routes_.emplace(std::move(*tokens), config_.domain);
  loaded_tokens_ = text;
  return true;
}

void Relay::load_membership() {
  std::string text, error;
  if (!read_file(config_.state_dir / "membership", text, error)) return;  // a first start
  const Membership::Answer answer = membership_.load(text);
  if (answer.verdict == Membership::Verdict::kRefused) {
    spdlog::warn("the membership in {} is not used: {}", config_.state_dir.string(), answer.text);
  }
}

void Relay::save_membership() {
  // By rename, so that a crash leaves the old list or the new one.
  const auto path = config_.state_dir / "membership";
  const auto fresh = config_.state_dir / "membership.new";
  {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << membership_.save();
    if (!out.flush()) {
      spdlog::warn("cannot write {}: a restart will wait for the operator", fresh.string());
      return;
    }
  }
  std::error_code failed;
  std::filesystem::rename(fresh, path, failed);
  if (failed) spdlog::warn("cannot replace {}: {}", path.string(), failed.message());
}

bool Relay::listen(std::string& error) {
  if (config_.listen.peers.port != 0 && !mesh_.listen(endpoint_of(config_.listen.peers), error)) {
    return false;
  }
  if (config_.listen.agents.port != 0) {
    link::ListenOptions options;
    options.endpoint = endpoint_of(config_.listen.agents);
    options.identity = identity_;
    options.config.software = "fairlead-relay/" + version_;
    options.config.role = "relay";
    options.config.name = config_.replica.name;
    options.config.window_max = std::uint64_t{config_.window_max_kib} << 10;
    options.config.pool = &credit_;
    options.pre_tls = proxy_before_tls(config_.trusted_proxies);
    if (!agents_.listen(std::move(options), error)) return false;
  }
  if (config_.listen.http.port != 0 && !http_.listen(endpoint_of(config_.listen.http), error)) {
    return false;
  }
  return tcp_.set_routes(*routes_, error);
}

void Relay::reload() {
  std::string error;
  if (!load_files(error)) spdlog::warn("TLS files are not reloaded: {}", error);
  error.clear();
  const std::string before = loaded_tokens_;
  if (!load_tokens(error)) {
    spdlog::warn("tokens are not reloaded: {}", error);
  } else if (loaded_tokens_ != before && !drain_.started()) {
    spdlog::info("tokens reloaded");
    if (!tcp_.set_routes(*routes_, error)) spdlog::warn("{}", error);
  }
  reload_timer_.expires_after(kReloadPeriod);
  reload_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) reload();
  });
}

// --- membership and directory ---

Membership::Answer Relay::set_membership(const admin::v1::Membership& list) {
  const Membership::Answer answer = membership_.offer(list);
  if (answer.verdict == Membership::Verdict::kAdopted) {
    spdlog::info("membership epoch {}: {} members", membership_.epoch(),
                 membership_.members().size());
    save_membership();
    membership_changed();
  } else if (answer.verdict == Membership::Verdict::kRefused) {
    spdlog::warn("a membership list is refused: {}", answer.text);
  }
  return answer;
}

void Relay::membership_changed() {
  mesh_.membership_changed();
  mesh_.set_state(state());
  poll_directory();
  changed();
}

void Relay::poll_directory() {
  bool routes_changed = false;
  while (auto event = directory_.poll_event()) {
    if (const auto* announce = std::get_if<directory_event::Announce>(&*event)) {
      mesh_.announce(announce->delta);
    } else if (const auto* old = std::get_if<directory_event::Superseded>(&*event)) {
      agents_.superseded(old->link, old->text);
    } else if (const auto* rival = std::get_if<directory_event::Evicted>(&*event)) {
      agents_.evicted(rival->link, rival->text);
    } else {
      routes_changed = true;
    }
  }
  if (routes_changed) visits_.routes_changed();
}

std::string Relay::name_of(const std::string& uid) const {
  if (uid == config_.replica.uid) return config_.replica.name;
  const Member* member = membership_.find(uid);
  return member == nullptr ? uid : member->name;
}

std::vector<Route> Relay::routes(const std::string& kind, const std::string& tenant,
                                 const std::string& service) const {
  std::vector<Route> routes;
  for (const Home& home : directory_.lookup(tenant, {kind, service})) {
    LinkSessions* link = home.local ? agents_.find(tenant, home.agent_id, home.instance)
                                    : mesh_.pick(home.replica_uid);
    if (link == nullptr) continue;
    routes.push_back({link, !home.local, name_of(home.replica_uid), home.agent_id, home.instance});
  }
  return routes;
}

// A visit of another replica for an agent homed here: one hop, so nowhere else.
void Relay::on_peer_visit(LinkSessions& link, const link::event::Opened& opened) {
  std::string error;
  const auto meta = parse_open(opened.meta.bytes(), error);
  const VisitOpen& visit = std::get<VisitOpen>(*meta);
  LinkSessions* agent = agents_.find(visit.tenant, visit.agent_id, visit.instance);
  if (agent != nullptr) return visits_.forward(link, opened, *agent);
  link.reset(opened.id, link::code::kNotHere);
  link.stop(opened.id, link::code::kNotHere);
  link.release(opened.id, steady_now(), link::code::kNotHere);
}

void Relay::stranger(std::string_view cause, const std::string& source, const std::string& text) {
  const auto verdict = limiter_.ask(std::string(cause), source, steady_now());
  if (!verdict.log) return;
  const std::string more =
      verdict.suppressed == 0 ? "" : " (and " + std::to_string(verdict.suppressed) + " more)";
  spdlog::warn("{}: {} [{}]{}", source, text, cause, more);
}

std::uint32_t Relay::target_homes() const {
  const auto& members = membership_.members();
  const auto active = static_cast<std::uint32_t>(
      std::count_if(members.begin(), members.end(),
                    [](const Member& each) { return each.state == MemberState::kActive; }));
  return std::min(config_.homes, std::max(active, 1u));
}

bool Relay::other_active() const {
  const auto& members = membership_.members();
  return std::any_of(members.begin(), members.end(), [this](const Member& each) {
    return each.uid != config_.replica.uid && each.state == MemberState::kActive &&
           !mesh_.peer_draining(each.uid) && mesh_.pick(each.uid) != nullptr;
  });
}

bool Relay::homed_elsewhere(const Registration& registration) const {
  if (registration.services.empty()) return true;
  const auto homes = directory_.lookup(registration.tenant, registration.services.front());
  return std::any_of(homes.begin(), homes.end(), [&](const Home& home) {
    return !home.local && !home.leaving && home.instance == registration.instance;
  });
}

MemberState Relay::state() const {
  if (leaving_) return MemberState::kLeaving;
  if (drain_.started()) return MemberState::kDraining;
  const Member* self = membership_.find(config_.replica.uid);
  return self == nullptr ? MemberState::kJoining : self->state;
}

// --- what follows from any change ---

// Once a turn, however many changes there were.
void Relay::changed() {
  if (update_posted_) return;
  update_posted_ = true;
  asio::post(io_, [this] {
    update_posted_ = false;
    update();
  });
}

void Relay::update() {
  poll_directory();
  const auto readiness = mesh_readiness(membership_.members(), config_.replica.uid, mesh_.links());
  const bool waited = steady_now() - started_at_ >= kMeshGrace;
  const bool was_ready = ready_;
  ready_ = serving_ && (ready_ || membership_.epoch() == 0 || readiness.ready || waited) &&
           !(drain_.started() && drain_.state() != Drain::State::kDelay);
  if (ready_ != was_ready) spdlog::info("{}", ready_ ? "ready" : "not ready");
  if (const std::uint32_t homes = target_homes(); homes != told_homes_) {
    told_homes_ = homes;
    agents_.tell_homes();
  }
  step_drain();
}

// --- drain and end ---

std::string Relay::check_epoch(std::uint64_t epoch) const {
  if (epoch >= membership_.epoch()) return {};
  return "epoch " + std::to_string(epoch) + " is lower than " +
         std::to_string(membership_.epoch()) + ", which this replica was given";
}

void Relay::drain(const DrainOrder& order) {
  const bool first = !drain_.started();
  drain_.start(order, steady_now());
  if (first) {
    spdlog::info("drain: {} (deadline {} s, {} visits, {} passing through)", order.reason,
                 drain_.deadline().count() / 1000, visits_.live(), visits_.forwarding());
    directory_.leave();
    mesh_.set_state(state());
    agents_.drain(order.reason);
    http_.drain();
  }
  changed();
}

void Relay::drain_as_configured(const std::string& reason) {
  // Alone in its cluster it has nobody to wait for.
  const bool alone = desired_peers(membership_.members(), config_.replica.uid).empty();
  drain({reason, config_.drain_timeout, config_.endpoint_delay, alone});
}

void Relay::step_drain() {
  if (!drain_.started()) return;
  const auto load = [this] {
    return DrainLoad{
        .visits = static_cast<std::uint32_t>(visits_.live() + visits_.forwarding()),
        .keepalive_sockets = http_.idle(),
        .agents = agents_.count_without([this](const auto& each) { return homed_elsewhere(each); }),
        .other_active = other_active()};
  };
  const DrainActions actions = drain_.step(load(), steady_now());
  if (actions.goaway_agents) agents_.goaway();
  if (actions.close_listeners) {
    spdlog::info("drain: listeners closed");
    agents_.stop_listening();
    http_.stop();
    tcp_.stop();
    changed();
  }
  if (actions.reset_rest) {
    drain_lost_ = visits_.reset_all();
    http_.close_idle();
    spdlog::warn("drain: the deadline came, {} visits were reset", drain_lost_);
  }
  if (actions.finished) {
    spdlog::info("drain: {} after {} ms", drain_state_name(drain_.state()),
                 drain_.elapsed(steady_now()).count());
  }
  if (drain_.over() && ending_) leave();
  if (const auto at = drain_.next_deadline()) {
    // Also once a second: an agent that found another home is no event here.
    drain_timer_.expires_at(std::min(*at, steady_now() + std::chrono::seconds(1)));
    drain_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) changed();
    });
  }
}

void Relay::end() {
  if (ending_) {
    spdlog::warn("asked to end a second time: what lives is reset");
    drain_.start({"a second signal", std::chrono::milliseconds(0), {}, true}, steady_now());
    return changed();
  }
  ending_ = true;
  if (drain_.over()) return leave();
  drain_as_configured("SIGTERM");
}

// The drain is over. A visit that a peer opened before it knew is served or refused as not
// processed; then the links end.
void Relay::leave() {
  if (leaving_) return;
  leaving_ = true;
  mesh_.set_state(state());
  mesh_.goaway();
  agents_.goaway();
  const link::Instant until = steady_now() + kLeaveGrace;
  auto wait = std::make_shared<std::function<void()>>();
  *wait = [this, until, weak = std::weak_ptr(wait)] {
    const auto self = weak.lock();
    if (visits_.live() + visits_.forwarding() > 0 && steady_now() < until) {
      leave_timer_.expires_after(std::chrono::milliseconds(50));
      leave_timer_.async_wait([self](const boost::system::error_code& error) {
        if (!error) (*self)();
      });
      return;
    }
    visits_.reset_all();
    agents_.close("the replica ends");
    mesh_.close("the replica ends");
    leave_timer_.expires_after(std::chrono::milliseconds(300));
    leave_timer_.async_wait([this](const boost::system::error_code&) {
      spdlog::info("ended");
      ended_();
    });
  };
  // Two round trips of goaway, then what is left.
  leave_timer_.expires_after(std::chrono::milliseconds(200));
  leave_timer_.async_wait([wait](const boost::system::error_code& error) {
    if (!error) (*wait)();
  });
}

// --- status ---

RelayStatus Relay::status() const {
  RelayStatus status;
  status.cluster_uid = config_.cluster.uid;
  status.uid = config_.replica.uid;
  status.name = config_.replica.name;
  status.version = version_;
  status.process_id = boot_id_;
  status.state = member_state_name(state());
  status.ready = ready_;
  status.epoch = membership_.epoch();
  status.digest = membership_.digest();
  status.certificate_serial = identity_ ? identity_->serial() : "";
  const auto links = mesh_.links();
  for (const Peer& peer : desired_peers(membership_.members(), config_.replica.uid)) {
    PeerRow row{.uid = peer.member.uid,
                .name = peer.member.name,
                .address = peer.member.peer_address,
                .state = std::string(member_state_name(peer.member.state))};
    row.links_expected = config_.pool_size;
    if (const auto found = links.find(row.uid); found != links.end()) {
      row.links_up = found->second.up;
      row.links_draining = found->second.draining;
    }
    row.rtt_us = mesh_.rtt_us(row.uid);
    status.peers.push_back(std::move(row));
  }
  for (const Directory::Row& row : directory_.rows()) {
    AgentRow agent{.agent_id = row.entry.agent_id,
                   .tenant = row.entry.tenant,
                   .instance = to_hex(row.entry.instance).substr(0, 8),
                   .home = name_of(row.owner_uid),
                   .generation = row.entry.generation};
    for (const ServiceName& service : row.entry.services) {
      agent.services += (agent.services.empty() ? "" : ", ") + service.kind + "/" + service.name;
    }
    agent.here = row.owner_uid == config_.replica.uid;
    status.agents.push_back(std::move(agent));
  }
  visits_.fill(status);
  status.drain.state = drain_state_name(drain_.state());
  status.drain.reason = drain_.reason();
  status.drain.visits_by_kind = visits_.live_by_kind();
  status.drain.agents =
      agents_.count_without([this](const auto& each) { return homed_elsewhere(each); });
  status.drain.keepalive_sockets = http_.idle();
  status.drain.elapsed_ms = static_cast<std::uint64_t>(drain_.elapsed(steady_now()).count());
  status.drain.deadline_ms = static_cast<std::uint64_t>(drain_.deadline().count());
  status.drain.lost = drain_lost_;
  status.credit_lent = credit_.used();
  status.credit_capacity = credit_.capacity();
  status.uptime_seconds = std::chrono::duration<double>(steady_now() - started_at_).count();
  return status;
}

}  // namespace fairlead::dataplane
