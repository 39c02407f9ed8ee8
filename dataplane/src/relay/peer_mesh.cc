#include "relay/peer_mesh.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "fairlead/admin.pb.h"
#include "fairlead/control.pb.h"
#include "relay/peering.h"

namespace fairlead::dataplane {

PeerMesh::PeerMesh(boost::asio::io_context& io, Membership& membership, Directory& directory,
                   Options options)
    : io_(io), membership_(membership), directory_(directory), options_(std::move(options)) {}

PeerMesh::~PeerMesh() = default;

std::string PeerMesh::uri(const std::string& uid) const {
  return "fairlead://" + options_.cluster_uid + "/" + uid;
}

// The member that a certificate is for; empty when it is for none.
std::string PeerMesh::uid_of(const link::PeerCertificate& certificate) const {
  for (const Member& member : membership_.members()) {
    if (member.uid == options_.uid) continue;
    const auto& uris = certificate.uris;
    if (std::find(uris.begin(), uris.end(), uri(member.uid)) != uris.end()) return member.uid;
  }
  return {};
}

std::string PeerMesh::check(const link::PeerCertificate& certificate) const {
  if (!uid_of(certificate).empty()) return {};
  return "its certificate is for no member of epoch " + std::to_string(membership_.epoch());
}

bool PeerMesh::listen(const boost::asio::ip::tcp::endpoint& endpoint, std::string& error) {
  link::ListenOptions options;
  options.endpoint = endpoint;
  options.identity = options_.identity;
  options.policy.client_certificate = link::ClientCertificate::kRequired;
  options.policy.check = [this](const link::PeerCertificate& shown) { return check(shown); };
  options.config.software = "fairlead-relay/" + options_.version;
  options.config.role = "relay";
  options.config.name = options_.name;
  options.config.pool = options_.credit;
  listener_ = link::LinkListener::listen(
      io_, std::move(options),
      [this](std::shared_ptr<link::LinkSocket> socket) { accepted(std::move(socket)); },
      [this](const link::AcceptFailure& failure) {
        options_.stranger(failure.cause, failure.source.address().to_string(),
                          "peers: " + failure.text);
      },
      error);
  return listener_ != nullptr;
}

void PeerMesh::accepted(std::shared_ptr<link::LinkSocket> socket) {
  // The membership may have changed since the handshake asked.
  const std::string uid = uid_of(socket->peer());
  if (Peering* peer = find(uid)) return peer->adopt(std::move(socket));
  options_.stranger("not-a-member", socket->remote().address().to_string(),
                    "peers: a link of a replica that is no member");
}

Peering* PeerMesh::find(const std::string& uid) const {
  const auto found = peers_.find(uid);
  return found == peers_.end() ? nullptr : found->second.get();
}

void PeerMesh::membership_changed() {
  std::vector<std::string> uids;
  for (const Member& member : membership_.members()) uids.push_back(member.uid);
  directory_.set_members(uids);
  std::set<std::string> wanted;
  for (const Peer& peer : desired_peers(membership_.members(), options_.uid)) {
    wanted.insert(peer.member.uid);
    if (Peering* known = find(peer.member.uid)) {
      known->update(peer);
      continue;
    }
    const auto fresh = std::make_shared<Peering>(*this, peer);
    peers_.emplace(peer.member.uid, fresh);
    fresh->start();
  }
  std::erase_if(leaving_, [](const auto& peer) { return peer->empty(); });
  for (auto each = peers_.begin(); each != peers_.end();) {
    if (wanted.contains(each->first)) {
      ++each;
      continue;
    }
    spdlog::info("peer {}: no member any more", each->second->member().name);
    each->second->stop();
    leaving_.push_back(each->second);
    each = peers_.erase(each);
  }
  control::v1::PeerMessage message;
  message.set_membership(membership_.to_wire().SerializeAsString());
  for (const auto& [uid, peer] : peers_) peer->send(message);
}

void PeerMesh::announce(const DirectoryDelta& delta) {
  control::v1::PeerMessage message;
  *message.mutable_delta() = to_wire(delta);
  for (const auto& [uid, peer] : peers_) peer->send(message);
}

void PeerMesh::set_state(MemberState state) {
  state_ = state;
  control::v1::PeerMessage message;
  message.mutable_state()->set_state(static_cast<std::uint32_t>(state));
  message.mutable_state()->set_epoch(membership_.epoch());
  for (const auto& [uid, peer] : peers_) peer->send(message);
}

LinkSessions* PeerMesh::pick(const std::string& uid) const {
  const Peering* peer = find(uid);
  return peer == nullptr ? nullptr : peer->pick();
}

std::map<std::string, PeerLinks> PeerMesh::links() const {
  std::map<std::string, PeerLinks> links;
  for (const auto& [uid, peer] : peers_) links[uid] = peer->count();
  return links;
}

std::uint32_t PeerMesh::rtt_us(const std::string& uid) const {
  const Peering* peer = find(uid);
  return peer == nullptr ? 0 : peer->rtt_us();
}

bool PeerMesh::peer_draining(const std::string& uid) const {
  const Peering* peer = find(uid);
  return peer != nullptr && peer->draining();
}

void PeerMesh::goaway() {
  for (const auto& [uid, peer] : peers_) peer->goaway();
}

void PeerMesh::close(const std::string& why) {
  for (const auto& [uid, peer] : peers_) peer->close(why);
}

}  // namespace fairlead::dataplane
