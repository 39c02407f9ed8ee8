#include "link/asio/asio_pool.h"

#include <algorithm>
#include <random>
#include <utility>

namespace fairlead::link {

// One link of the pool, from the end of its TLS handshake to the end of its socket.
class AsioPool::Member : public LinkHandler {
 public:
  Member(AsioPool& pool, LinkId id, SlotIndex slot, std::shared_ptr<LinkSocket> link)
      : pool_(pool), id_(id), slot_(slot), link_(std::move(link)) {}
  ~Member() override { link_->set_handler(nullptr); }

  void on_event(LinkSocket&, Event&& event) override {
    pool_.on_member_event(*this, std::move(event));
  }
  void on_closed(LinkSocket&) override { pool_.forget(id_); }  // the end of *this

 private:
  friend class AsioPool;
  AsioPool& pool_;
  const LinkId id_;
  const SlotIndex slot_;
  const std::shared_ptr<LinkSocket> link_;
  bool up_ = false;    // HELLO came
  bool over_ = false;  // event::Closed came
};

std::shared_ptr<AsioPool> AsioPool::create(boost::asio::io_context& io, AsioPoolOptions options,
                                           PoolHandler* handler) {
  return std::make_shared<AsioPool>(Private(), io, std::move(options), handler);
}

AsioPool::AsioPool(Private, boost::asio::io_context& io, AsioPoolOptions options,
                   PoolHandler* handler)
    : io_(io),
      options_(std::move(options)),
      handler_(handler),
      pool_(options_.pool, options_.seed ? *options_.seed : std::random_device()()),
      timer_(io) {}

AsioPool::~AsioPool() {
  for (const auto& [slot, dial] : dials_) dial->cancel();
  for (const auto& [id, member] : members_) {
    member->link_->set_handler(nullptr);
    if (!member->over_) member->link_->abort("the pool of this link was dropped");
  }
}

void AsioPool::start() {
  pool_.start();
  carry_out();
}

void AsioPool::stop() {
  pool_.stop();
  for (const auto& [slot, dial] : std::exchange(dials_, {})) {
    dial->cancel();
    pool_.dial_failed(slot, "the pool was stopped", LinkSocket::now());
  }
  // Links that wait for HELLO are nobody's yet.
  for (const auto& [id, member] : members_) {
    if (!member->up_ && !member->over_) member->link_->abort("the pool was stopped");
  }
  carry_out();
}

void AsioPool::set_target(std::string host, std::string port) {
  options_.dial.host = std::move(host);
  options_.dial.port = std::move(port);
}

// Does what the pool wants, until it wants nothing.
void AsioPool::carry_out() {
  const auto self = shared_from_this();
  while (auto next = pool_.poll_action()) {
    if (const auto* dial = std::get_if<action::Dial>(&*next)) {
      begin_dial(dial->slot);
    } else if (const auto* close = std::get_if<action::Close>(&*next)) {
      const auto found = members_.find(close->link);
      if (found == members_.end()) continue;
      const auto link = found->second->link_;
      link->connection().close(close->code, close->text, LinkSocket::now());
      link->wake();
    } else {
      handler_->on_news(*next);
    }
  }
  arm_timer();
}

void AsioPool::begin_dial(SlotIndex slot) {
  dials_[slot] = link::dial(
      io_, options_.dial,
      [weak = weak_from_this(), slot](std::shared_ptr<LinkSocket> link, std::string error) {
        const auto self = weak.lock();
        if (self) self->dialled(slot, std::move(link), std::move(error));
      });
}

void AsioPool::dialled(SlotIndex slot, std::shared_ptr<LinkSocket> link, std::string error) {
  dials_.erase(slot);
  if (!link) {
    pool_.dial_failed(slot, std::move(error), LinkSocket::now());
    return carry_out();
  }
  const LinkId id = next_id_++;
  auto& member = members_[id] = std::make_unique<Member>(*this, id, slot, std::move(link));
  member->link_->start(member.get());
}

void AsioPool::on_member_event(Member& member, Event&& event) {
  const auto self = shared_from_this();
  const auto link = member.link_;  // on_news() may end in forgetting the member
  const Instant now = LinkSocket::now();
  if (std::holds_alternative<event::Up>(event)) {
    member.up_ = true;
    pool_.dial_succeeded(member.slot_, member.id_, now);
  } else if (const auto* draining = std::get_if<event::LinkDraining>(&event)) {
    pool_.link_draining(member.id_, draining->phase, draining->reason, now);
  } else if (const auto* closed = std::get_if<event::Closed>(&event)) {
    member.over_ = true;
    const Cut& cut = closed->cut;
    if (member.up_) {
      const bool in_order = cut.kind == CutKind::kPeerClosed || cut.kind == CutKind::kClosed;
      pool_.link_closed(member.id_, in_order && cut.code == code::kOk, to_string(cut), now);
    } else {
      pool_.dial_failed(member.slot_, "the link ended before HELLO: " + to_string(cut), now);
    }
  }
  if (member.up_) handler_->on_event(*link, std::move(event));
  carry_out();
}

void AsioPool::forget(LinkId id) {
  const auto self = weak_from_this().lock();
  members_.erase(id);
}

void AsioPool::arm_timer() {
  const std::optional<Instant> deadline = pool_.next_deadline();
  if (!deadline) return;
  timer_.expires_at(*deadline);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self) return;
    self->pool_.on_timer(LinkSocket::now());
    self->carry_out();
  });
}

std::shared_ptr<LinkSocket> AsioPool::pick() const {
  return pick_except({});
}

std::shared_ptr<LinkSocket> AsioPool::pick_except(const std::vector<LinkSocket*>& tried) const {
  const Instant now = LinkSocket::now();
  const auto chosen = pool_.pick([&](LinkId id) -> std::optional<LinkLoad> {
    const LinkSocket* link = members_.at(id)->link_.get();
    if (std::find(tried.begin(), tried.end(), link) != tried.end()) return std::nullopt;
    return LinkLoad{link->connection().session_count(), link->connection().probe_overdue(now)};
  });
  return chosen ? members_.at(*chosen)->link_ : nullptr;
}

AsioPool::Opened AsioPool::open(const OpenRequest& request) {
  Opened result;
  result.error = OpenError::kClosed;
  std::vector<LinkSocket*> tried;
  while (auto link = pick_except(tried)) {
    const OpenResult opened = link->connection().open(request, LinkSocket::now());
    result.error = opened.error;
    if (opened.error == OpenError::kNone) {
      result.id = opened.id;
      link->wake();
      result.link = std::move(link);
      break;
    }
    tried.push_back(link.get());
  }
  return result;
}

std::vector<std::shared_ptr<LinkSocket>> AsioPool::links() const {
  std::vector<std::shared_ptr<LinkSocket>> all;
  for (const auto& [id, member] : members_) {
    if (member->up_ && !member->over_) all.push_back(member->link_);
  }
  return all;
}

}  // namespace fairlead::link
