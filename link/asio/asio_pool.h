// The pool of the core, driven: keeps `size` links to one peer up and hands them out.
//
//   auto pool = AsioPool::create(io, {.dial = ...}, &handler);
//   pool->start();
//   if (auto opened = pool->open(request); opened.link) opened.link->connection().write(opened.id,
//   ...)
//
// A link counts as up when the peer's HELLO arrived: a server that refuses our certificate, or
// closes at once, is a failed dial with its words as the cause, and is retried with growing pauses.
//
// Belongs to the thread of its io_context, as LinkSocket does.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fairlead/link/pool.h"
#include "link/asio/dial.h"
#include "link/asio/link_socket.h"

namespace fairlead::link {

class PoolHandler {
 public:
  virtual ~PoolHandler() = default;
  // Every event of every link from event::Up to event::Closed; pick() and open() already know of
  // it. A link that ended before Up is not seen here but as action::DialFailed. event::NotProcessed
  // says that a session is safe to open again with open(); nothing else is.
  virtual void on_event(LinkSocket& link, Event&& event) = 0;
  // action::Up, Draining, Down and DialFailed; never Dial or Close. LinkIds name links in them.
  virtual void on_news(const PoolAction& news) = 0;
};

struct AsioPoolOptions {
  DialOptions dial;
  PoolConfig pool;
  std::optional<std::uint64_t> seed;  // of the jitter; by default from the system
};

class AsioPool : public std::enable_shared_from_this<AsioPool> {
 public:
  // `handler` must outlive the pool or stop() and everything that was up then.
  static std::shared_ptr<AsioPool> create(boost::asio::io_context& io, AsioPoolOptions options,
                                          PoolHandler* handler);
  // Cuts what is still up; no callback.
  ~AsioPool();

  // Dials every empty slot; also those that a peer's `leave` closed, and again after stop().
  void start();
  // Cancels dials and closes every link in order. event::Closed and action::Down still come.
  void stop();
  // Dials from now on go here: the peer moved. Links that stand are left alone.
  void set_target(std::string host, std::string port);

  // The link for a new session as Pool::pick() chooses it; null when none can take one.
  std::shared_ptr<LinkSocket> pick() const;

  struct Opened {
    std::shared_ptr<LinkSocket> link;  // null when no link took it
    SessionId id = 0;
    OpenError error = OpenError::kNone;  // of the last link that refused; kClosed when none is up
  };
  // Opens on the picked link, and on the next best when that one refuses. When none takes it, it is
  // worth trying again at action::Up: a peer that drains all links at once leaves a gap of the few
  // round trips that a dial takes.
  Opened open(const OpenRequest& request);

  // Links that are up, draining ones included.
  std::vector<std::shared_ptr<LinkSocket>> links() const;
  std::uint32_t links_up() const { return pool_.links_up(); }
  std::uint32_t links_draining() const { return pool_.links_draining(); }

 private:
  struct Private {};

 public:
  AsioPool(Private, boost::asio::io_context& io, AsioPoolOptions options, PoolHandler* handler);

 private:
  class Member;

  void carry_out();
  void begin_dial(SlotIndex slot);
  void dialled(SlotIndex slot, std::shared_ptr<LinkSocket> link, std::string error);
  void on_member_event(Member& member, Event&& event);
  void forget(LinkId id);
  void arm_timer();
  std::shared_ptr<LinkSocket> pick_except(const std::vector<LinkSocket*>& tried) const;

  boost::asio::io_context& io_;
  AsioPoolOptions options_;
  PoolHandler* handler_;
  Pool pool_;
  boost::asio::steady_timer timer_;
  LinkId next_id_ = 1;
  std::unordered_map<SlotIndex, std::shared_ptr<Dial>> dials_;
  std::unordered_map<LinkId, std::unique_ptr<Member>> members_;
};

}  // namespace fairlead::link
