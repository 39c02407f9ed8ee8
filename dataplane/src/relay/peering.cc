#include "relay/peering.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "fairlead/admin.pb.h"
#include "fairlead/control.pb.h"
#include "socket/steady_now.h"
#include "visit/visit_meta.h"

namespace fairlead::dataplane {

namespace pb = control::v1;

Peering::Peering(PeerMesh& mesh, Peer peer) : mesh_(mesh), peer_(std::move(peer)) {}

void Peering::start() {
  if (!peer_.dial) return;
  const SocketAddress address =
      SocketAddress::parse(peer_.member.peer_address).value_or(SocketAddress{});
  link::AsioPoolOptions options;
  options.dial.host = to_string(address.ip);
  options.dial.port = std::to_string(address.port);
  options.dial.identity = mesh_.options_.identity;
  options.dial.policy.check = link::require_uri(mesh_.uri(peer_.member.uid));
  options.dial.config.liveness = mesh_.options_.liveness;
  options.dial.config.software = "fairlead-relay/" + mesh_.options_.version;
  options.dial.config.role = "relay";
  options.dial.config.name = mesh_.options_.name;
  options.dial.config.pool = mesh_.options_.credit;
  options.pool.size = mesh_.options_.pool_size;
  pool_ = link::AsioPool::create(mesh_.io_, std::move(options), this);
  pool_->start();
}

void Peering::update(const Peer& peer) {
  const bool moved = peer.member.peer_address != peer_.member.peer_address;
  peer_ = peer;
  if (!pool_) return;
  if (moved) {
    if (const auto address = SocketAddress::parse(peer.member.peer_address)) {
      pool_->set_target(to_string(address->ip), std::to_string(address->port));
    }
  }
  pool_->start();
}

void Peering::stop() {
  stopped_ = true;
  if (pool_) pool_->stop();
  close("no member any more");
}

void Peering::adopt(std::shared_ptr<link::LinkSocket> socket) {
  link::LinkSocket& link = *socket;
  links_[&link] = Link{socket, std::make_unique<LinkSessions>(link), false};
  socket->start(this);
}

void Peering::on_event(link::LinkSocket& link, link::Event&& event) {
  const auto self = shared_from_this();
  auto found = links_.find(&link);
  if (found == links_.end()) {
    found = links_.emplace(&link, Link{nullptr, std::make_unique<LinkSessions>(link), false}).first;
  }
  if (found->second.sessions->dispatch(event)) return;
  if (std::holds_alternative<link::event::Up>(event)) {
    found->second.up = true;
    link_up(link);
  } else if (const auto* opened = std::get_if<link::event::Opened>(&event)) {
    on_opened(found->second, *opened);
  } else if (const auto* draining = std::get_if<link::event::LinkDraining>(&event)) {
    if (draining->phase == 0) {
      spdlog::info("peer {}: goaway: {}", peer_.member.name, draining->text);
    }
  } else if (const auto* closed = std::get_if<link::event::Closed>(&event)) {
    link_over(link, closed->cut);
  }
}

void Peering::on_news(const link::PoolAction& news) {
  if (const auto* failed = std::get_if<link::action::DialFailed>(&news)) {
    mesh_.options_.stranger("peer-dial", peer_.member.name,
                            "peer " + peer_.member.name + ": " + failed->cause);
  }
}

void Peering::on_closed(link::LinkSocket&) {}

void Peering::link_up(link::LinkSocket&) {
  if (up_++ == 0) {
    spdlog::info("peer {}: the first link stands", peer_.member.name);
    mesh_.directory_.peer_up(peer_.member.uid);
  }
  if (peer_.dial && control_link_ == nullptr) open_control();
  mesh_.options_.changed();
}

void Peering::link_over(link::LinkSocket& link, const link::Cut& cut) {
  const auto found = links_.find(&link);
  if (found == links_.end()) return;
  const bool was_up = found->second.up;
  if (control_link_ == found->second.sessions.get()) control_link_ = nullptr;
  // The link is in a callback; its sessions are kept until that is over.
  auto old = std::make_shared<Link>(std::move(found->second));
  boost::asio::post(mesh_.io_, [old] {});
  links_.erase(found);
  const bool clean = cut.code == link::code::kOk &&
                     (cut.kind == link::CutKind::kClosed || cut.kind == link::CutKind::kPeerClosed);
  spdlog::log(clean ? spdlog::level::info : spdlog::level::warn, "peer {}: link ended: {}",
              peer_.member.name, link::to_string(cut));
  if (was_up && --up_ == 0) {
    spdlog::warn("peer {}: no link stands", peer_.member.name);
    mesh_.directory_.peer_down(peer_.member.uid);
  } else if (peer_.dial && control_link_ == nullptr && up_ > 0) {
    open_control();
  }
  mesh_.options_.changed();
}

void Peering::on_opened(Link& link, const link::event::Opened& opened) {
  std::string error;
  const auto meta = parse_open(opened.meta.bytes(), error);
  if (meta && std::holds_alternative<VisitOpen>(*meta) && opened.visit) {
    return mesh_.options_.on_visit(*link.sessions, opened);
  }
  if (meta && std::holds_alternative<PeerControlOpen>(*meta) && !peer_.dial) {
    if (control_link_ != nullptr) end_control("a newer control session");
    link.sessions->accept(opened.id, {}, 0, steady_now(), std::nullopt);
    link.sessions->own(opened.id, [this](const link::Event& event) { on_control(event); });
    return begin_control(*link.sessions, opened.id);
  }
  spdlog::warn("peer {}: an OPEN is refused: {}", peer_.member.name,
               error.empty() ? "not for peers" : error);
  link.sessions->reset(opened.id, link::code::kProtocol);
  link.sessions->stop(opened.id, link::code::kProtocol);
  link.sessions->release(opened.id, steady_now(), link::code::kProtocol);
}

void Peering::open_control() {
  for (auto& [socket, link] : links_) {
    if (!link.up || socket->connection().closed() || socket->connection().draining()) continue;
    const link::OpenRequest request{.meta = encode_open(PeerControlOpen{mesh_.options_.boot_id}),
                                    .priority = link::Priority::kUrgent};
    const auto opened =
        link.sessions->open(request, [this](const link::Event& event) { on_control(event); });
    if (opened.error != link::OpenError::kNone) continue;
    return begin_control(*link.sessions, opened.id);
  }
}

void Peering::begin_control(LinkSessions& sessions, link::SessionId id) {
  control_link_ = &sessions;
  control_ = id;
  reader_ = ControlReader();
  pb::PeerMessage hello;
  hello.mutable_hello()->set_uid(mesh_.options_.uid);
  hello.mutable_hello()->set_name(mesh_.options_.name);
  hello.mutable_hello()->set_boot_id(mesh_.options_.boot_id);
  hello.mutable_hello()->set_epoch(mesh_.membership_.epoch());
  send(hello);
  pb::PeerMessage state;
  state.mutable_state()->set_state(static_cast<std::uint32_t>(mesh_.state_));
  state.mutable_state()->set_epoch(mesh_.membership_.epoch());
  send(state);
  pb::PeerMessage snapshot;
  *snapshot.mutable_snapshot() = to_wire(mesh_.directory_.snapshot());
  send(snapshot);
}

void Peering::send(const pb::PeerMessage& message) {
  if (control_link_ != nullptr) control_link_->write(control_, encode_message(message));
}

void Peering::end_control(const std::string& why) {
  if (control_link_ == nullptr) return;
  spdlog::info("peer {}: control session ends: {}", peer_.member.name, why);
  std::exchange(control_link_, nullptr)
      ->release(std::exchange(control_, 0), steady_now(), link::code::kCancel);
}

void Peering::on_control(const link::Event& event) {
  const auto id = session_of(event);
  if (control_link_ == nullptr || id != control_) return;
  if (const auto* data = std::get_if<link::event::Data>(&event)) {
    control_link_->consume(control_, data->bytes.size(), steady_now());
    reader_.feed(data->bytes.bytes());
    while (control_link_ != nullptr) {
      const auto bytes = reader_.next();
      if (!bytes) break;
      pb::PeerMessage message;
      if (!message.ParseFromString(*bytes)) return end_control("a message is garbled");
      on_message(message);
    }
    if (reader_.failed()) end_control("a message is too long");
  } else if (std::holds_alternative<link::event::Reset>(event) ||
             std::holds_alternative<link::event::Finished>(event) ||
             std::holds_alternative<link::event::NotProcessed>(event) ||
             std::holds_alternative<link::event::SessionCut>(event)) {
    const bool cut = std::holds_alternative<link::event::SessionCut>(event);
    end_control("its session ended");
    // The link that is being cut is still in the table: link_over() opens anew.
    if (!cut && peer_.dial && !stopped_) open_control();
  }
}

void Peering::on_message(const pb::PeerMessage& message) {
  std::string error;
  switch (message.what_case()) {
    case pb::PeerMessage::kHello:
      if (message.hello().epoch() < mesh_.membership_.epoch()) {
        pb::PeerMessage newer;
        newer.set_membership(mesh_.membership_.to_wire().SerializeAsString());
        send(newer);
      }
      break;
    case pb::PeerMessage::kSnapshot:
      if (const auto snapshot = from_wire(message.snapshot(), error)) {
        return applied(mesh_.directory_.apply(peer_.member.uid, *snapshot));
      }
      end_control("a snapshot is not acceptable: " + error);
      break;
    case pb::PeerMessage::kDelta:
      if (const auto delta = from_wire(message.delta(), error)) {
        return applied(mesh_.directory_.apply(peer_.member.uid, *delta));
      }
      end_control("a delta is not acceptable: " + error);
      break;
    case pb::PeerMessage::kState:
      draining_ = message.state().state() >= static_cast<std::uint32_t>(MemberState::kDraining);
      mesh_.options_.changed();
      break;
    case pb::PeerMessage::kMembership:
      mesh_.options_.on_membership(message.membership());
      break;
    case pb::PeerMessage::WHAT_NOT_SET:
      break;  // of a later version: not for us
  }
}

void Peering::applied(Directory::Applied result) {
  switch (result) {
    case Directory::Applied::kDone:
      return mesh_.options_.changed();
    case Directory::Applied::kResync:
      end_control("versions do not join");
      break;
    case Directory::Applied::kNotMember:
      end_control("not in the membership yet");
      break;
    case Directory::Applied::kForged:
      return close("it speaks for another replica");
  }
  if (peer_.dial && !stopped_) open_control();
}

LinkSessions* Peering::pick() const {
  LinkSessions* best = nullptr;
  std::pair<bool, std::size_t> best_load;
  const auto now = steady_now();
  for (const auto& [socket, link] : links_) {
    const link::Connection& core = socket->connection();
    if (!link.up || core.closed() || core.draining()) continue;
    const std::pair load(core.probe_overdue(now), std::size_t{core.session_count()});
    if (best == nullptr || load < best_load) {
      best = link.sessions.get();
      best_load = load;
    }
  }
  return best;
}

PeerLinks Peering::count() const {
  PeerLinks count;
  for (const auto& [socket, link] : links_) {
    if (!link.up || socket->connection().closed()) continue;
    ++(socket->connection().draining() ? count.draining : count.up);
  }
  return count;
}

std::uint32_t Peering::rtt_us() const {
  for (const auto& [socket, link] : links_) {
    if (link.up) return socket->connection().rtt_us();
  }
  return 0;
}

void Peering::goaway() {
  for (auto& [socket, link] : links_) {
    socket->connection().goaway(link::GoawayReason::kLeave, std::chrono::seconds(0),
                                "the replica ends", steady_now());
    socket->wake();
  }
}

void Peering::close(const std::string& why) {
  for (auto& [socket, link] : links_) {
    socket->connection().close(link::code::kOk, why, steady_now());
    socket->wake();
  }
}

}  // namespace fairlead::dataplane
