#include "mesh/peers.h"

#include <algorithm>

namespace fairlead::dataplane {
namespace {

bool contains(const std::vector<Member>& members, std::string_view uid) {
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.uid == uid; });
}

}  // namespace

std::vector<Peer> desired_peers(const std::vector<Member>& members, std::string_view self_uid) {
  std::vector<Peer> peers;
  if (!contains(members, self_uid)) return peers;
  for (const Member& member : members) {
    if (member.uid == self_uid) continue;
    peers.push_back({member, self_uid < member.uid && !member.peer_address.empty()});
  }
  std::sort(peers.begin(), peers.end(),
            [](const Peer& a, const Peer& b) { return a.member.uid < b.member.uid; });
  return peers;
}

MeshReadiness mesh_readiness(const std::vector<Member>& members, std::string_view self_uid,
                             const std::map<std::string, PeerLinks>& links) {
  MeshReadiness readiness{contains(members, self_uid), {}};
  for (const Peer& peer : desired_peers(members, self_uid)) {
    if (peer.member.state != MemberState::kJoining && peer.member.state != MemberState::kActive) {
      continue;
    }
    const auto found = links.find(peer.member.uid);
    if (found != links.end() && found->second.up > 0) continue;
    readiness.ready = false;
    readiness.missing.push_back(peer.member.name);
  }
  return readiness;
}

}  // namespace fairlead::dataplane
