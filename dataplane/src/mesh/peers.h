// What the membership means for this replica's links to its peers. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/membership.h"

namespace fairlead::dataplane {

// One peer that links are to be held with.
struct Peer {
  Member member;
  bool dial = false;  // this replica dials; else it waits for the peer's links

  bool operator==(const Peer&) const = default;
};

// Every member but this replica, by uid: for each pair the replica with the smaller uid dials, once
// the other has an address. Of a list that lacks this replica the peers are none: it is not in the
// mesh.
std::vector<Peer> desired_peers(const std::vector<Member>& members, std::string_view self_uid);

// Links of one peer's pool now.
struct PeerLinks {
  std::uint32_t up = 0;        // HELLO exchanged, not draining
  std::uint32_t draining = 0;  // still carry sessions

  bool operator==(const PeerLinks&) const = default;
};

struct MeshReadiness {
  bool ready = false;
  std::vector<std::string> missing;  // names of the peers that hold readiness back
};

// Ready when this replica is a member and at least one link stands to every joining or active peer;
// draining and leaving ones do not count. Without peers: at once. A half-full pool is ready, since
// it serves, and shows in the status as fewer links than expected. `links` is by uid.
MeshReadiness mesh_readiness(const std::vector<Member>& members, std::string_view self_uid,
                             const std::map<std::string, PeerLinks>& links);

}  // namespace fairlead::dataplane
