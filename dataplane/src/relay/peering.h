// What one replica holds with one peer: its links, and the one control session of the pair.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "control/message_stream.h"
#include "link/asio/asio_pool.h"
#include "relay/peer_mesh.h"
#include "routes/ip_address.h"

namespace fairlead::dataplane {

class Peering final : public link::PoolHandler,
                      public link::LinkHandler,
                      public std::enable_shared_from_this<Peering> {
 public:
  Peering(PeerMesh& mesh, Peer peer);

  // Dials, when this replica is the one that dials.
  void start();
  // The peer may have moved or changed its state.
  void update(const Peer& peer);
  // It is no member any more: lets its links end.
  void stop();
  // A link that the peer dialled.
  void adopt(std::shared_ptr<link::LinkSocket> socket);

  const Member& member() const { return peer_.member; }
  bool draining() const { return draining_; }
  bool empty() const { return links_.empty(); }
  LinkSessions* pick() const;
  PeerLinks count() const;
  std::uint32_t rtt_us() const;
  void send(const control::v1::PeerMessage& message);
  void goaway();
  void close(const std::string& why);

  // From the pool, for links that were dialled here.
  void on_event(link::LinkSocket& link, link::Event&& event) override;
  void on_news(const link::PoolAction& news) override;
  // From links that the peer dialled; on_event is the same.
  void on_closed(link::LinkSocket& link) override;

 private:
  struct Link {
    std::shared_ptr<link::LinkSocket> keep;  // of an adopted one
    std::unique_ptr<LinkSessions> sessions;
    bool up = false;
  };

  void link_up(link::LinkSocket& link);
  void link_over(link::LinkSocket& link, const link::Cut& cut);
  void on_opened(Link& link, const link::event::Opened& opened);
  void open_control();
  void begin_control(LinkSessions& sessions, link::SessionId id);
  void on_control(const link::Event& event);
  void end_control(const std::string& why);
  void on_message(const control::v1::PeerMessage& message);
  void applied(Directory::Applied result);

  PeerMesh& mesh_;
  Peer peer_;
  std::shared_ptr<link::AsioPool> pool_;  // null when the peer dials
  std::map<link::LinkSocket*, Link> links_;
  std::uint32_t up_ = 0;

  LinkSessions* control_link_ = nullptr;  // of the control session; null when there is none
  link::SessionId control_ = 0;
  ControlReader reader_;
  bool draining_ = false;
  bool stopped_ = false;
};

}  // namespace fairlead::dataplane
