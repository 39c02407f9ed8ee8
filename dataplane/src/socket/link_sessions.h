// The sessions of one link: commands go in here, each session's events go out to its owner.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "link/asio/link_socket.h"
#include "visit/session_port.h"

namespace fairlead::dataplane {

// The session that an event is about; nothing for Up, LinkDraining and Closed.
std::optional<link::SessionId> session_of(const link::Event& event);

// Commands wake the link, so that no caller forgets. Belongs to the thread of its link and must be
// kept until the link's on_closed. Every owner gets SessionCut when the link ends, and must then
// release its session like any other.
class LinkSessions final : public LinkPort {
 public:
  using OnEvent = std::function<void(const link::Event&)>;

  explicit LinkSessions(link::LinkSocket& socket) : socket_(socket) {}
  LinkSessions(const LinkSessions&) = delete;
  LinkSessions& operator=(const LinkSessions&) = delete;

  link::LinkSocket& socket() { return socket_; }

  // Opens a session whose events go to `on_event`.
  link::OpenResult open(const link::OpenRequest& request, OnEvent on_event);
  // Who gets the events of a session that the peer opened. Until then, and after release(), they
  // are dropped.
  void own(link::SessionId id, OnEvent on_event);
  // Gives a session's event to its owner. False when the event is not a session's; event::Opened is
  // the caller's too.
  bool dispatch(const link::Event& event);
  // The process drops the link: every owner gets SessionCut now, the peer hears nothing.
  void cut_all();
  // Sessions with an owner.
  std::size_t owned() const { return owners_.size(); }

  bool accept(link::SessionId id, link::Slice meta, std::uint32_t path_rtt_us, link::Instant now,
              std::optional<std::uint64_t> credit_cap) override;
  bool write(link::SessionId id, link::Slice bytes) override;
  bool finish(link::SessionId id) override;
  bool reset(link::SessionId id, link::Code code) override;
  bool stop(link::SessionId id, link::Code code) override;
  bool consume(link::SessionId id, std::uint64_t n, link::Instant now) override;
  bool relay_credit(link::SessionId id, std::uint64_t cap, std::uint64_t received,
                    link::Instant now) override;
  bool acknowledge_fin(link::SessionId id, link::Instant now) override;
  bool release(link::SessionId id, link::Instant now, link::Code code) override;

  std::uint64_t send_room(link::SessionId id) const override;
  std::uint64_t peer_limit(link::SessionId id) const override;
  std::uint32_t rtt_us() const override;

 private:
  link::Connection& core() { return socket_.connection(); }
  bool woken(bool done);

  link::LinkSocket& socket_;
  // Shared, since an owner may release its session, and with it itself, while it is being called.
  std::unordered_map<link::SessionId, std::shared_ptr<OnEvent>> owners_;
};

}  // namespace fairlead::dataplane
