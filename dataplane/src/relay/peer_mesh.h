// The links between this replica and its peers, and what replicas tell each other over them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fairlead/link/credit_pool.h"
#include "link/asio/link_listener.h"
#include "mesh/directory.h"
#include "mesh/membership.h"
#include "mesh/peers.h"
#include "socket/link_sessions.h"

namespace fairlead::control::v1 {
class PeerMessage;
}

namespace fairlead::dataplane {

class Peering;

// Keeps a pool of links to every member with a larger uid, takes those of the others, and speaks
// the control session of each pair: the directory, the membership, the peer's state. All calls on
// the io_context's one thread.
class PeerMesh {
 public:
  struct Options {
    std::string cluster_uid, uid, name, boot_id, version;
    std::shared_ptr<link::TlsIdentity> identity;  // see set_identity()
    link::Liveness liveness;
    std::uint32_t pool_size = 4;
    link::CreditPool* credit = nullptr;
    // A session that a peer opened for a visit.
    std::function<void(LinkSessions&, const link::event::Opened&)> on_visit;
    std::function<void(std::string_view membership)> on_membership;  // a serialised list of a peer
    std::function<void(std::string_view cause, const std::string& source, const std::string& text)>
        stranger;
    std::function<void()> changed;  // a link came or went
  };

  PeerMesh(boost::asio::io_context& io, Membership& membership, Directory& directory,
           Options options);
  ~PeerMesh();

  // Before listen() and membership_changed().
  void set_identity(std::shared_ptr<link::TlsIdentity> identity) {
    options_.identity = std::move(identity);
  }
  bool listen(const boost::asio::ip::tcp::endpoint& endpoint, std::string& error);

  // The membership changed: dials who is new, lets go of who left, tells everybody.
  void membership_changed();
  // Sends to every peer whose control session is open.
  void announce(const DirectoryDelta& delta);
  // This replica's state for its peers.
  void set_state(MemberState state);

  // The link to a peer that the next session goes by: the one with the fewest sessions that is not
  // draining and answers. Null when there is none.
  LinkSessions* pick(const std::string& uid) const;

  std::map<std::string, PeerLinks> links() const;  // by uid
  std::uint32_t rtt_us(const std::string& uid) const;
  // The peer said that it drains or leaves.
  bool peer_draining(const std::string& uid) const;

  // Peers shall open no more sessions here.
  void goaway();
  // Ends every link in order.
  void close(const std::string& why);

 private:
  friend class Peering;

  void accepted(std::shared_ptr<link::LinkSocket> socket);
  std::string uid_of(const link::PeerCertificate& certificate) const;
  std::string check(const link::PeerCertificate& certificate) const;
  Peering* find(const std::string& uid) const;
  std::string uri(const std::string& uid) const;

  boost::asio::io_context& io_;
  Membership& membership_;
  Directory& directory_;
  Options options_;
  MemberState state_ = MemberState::kJoining;
  std::shared_ptr<link::LinkListener> listener_;
  std::map<std::string, std::shared_ptr<Peering>> peers_;  // by uid
  std::vector<std::shared_ptr<Peering>> leaving_;          // links that still end
};

}  // namespace fairlead::dataplane
