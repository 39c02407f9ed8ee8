// What a visit needs of a link: the commands of one session. The byte path's only seam: the driver
// implements LinkPort over a live link, tests record what was asked.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "fairlead/link/connection.h"

namespace fairlead::dataplane {

// Commands of link::Connection with the same names, meaning and return values (false: the session
// has ended, and nothing happened). None may call back into the caller: what they cause comes as
// events, after the call. Called on the link's owner thread only.
class LinkPort {
 public:
  virtual ~LinkPort() = default;

  virtual bool accept(link::SessionId id, link::Slice meta, std::uint32_t path_rtt_us,
                      link::Instant now, std::optional<std::uint64_t> credit_cap) = 0;
  virtual bool write(link::SessionId id, link::Slice bytes) = 0;
  virtual bool finish(link::SessionId id) = 0;
  virtual bool reset(link::SessionId id, link::Code code) = 0;
  virtual bool stop(link::SessionId id, link::Code code) = 0;
  virtual bool consume(link::SessionId id, std::uint64_t n, link::Instant now) = 0;
  virtual bool relay_credit(link::SessionId id, std::uint64_t cap, std::uint64_t received,
                            link::Instant now) = 0;
  virtual bool acknowledge_fin(link::SessionId id, link::Instant now) = 0;
  virtual bool release(link::SessionId id, link::Instant now, link::Code code) = 0;

  virtual std::uint64_t send_room(link::SessionId id) const = 0;
  virtual std::uint64_t peer_limit(link::SessionId id) const = 0;
  // The link's own smoothed round trip; 0 while unknown.
  virtual std::uint32_t rtt_us() const = 0;
};

// One session of one link. A value of two words; the LinkPort must live until release() was called.
class SessionPort {
 public:
  SessionPort() = default;
  SessionPort(LinkPort* port, link::SessionId session) : port_(port), id_(session) {}

  explicit operator bool() const { return port_ != nullptr; }
  link::SessionId id() const { return id_; }

  bool accept(link::Slice meta, std::uint32_t path_rtt_us, link::Instant now,
              std::optional<std::uint64_t> credit_cap = std::nullopt) {
    return port_->accept(id_, std::move(meta), path_rtt_us, now, credit_cap);
  }
  bool write(link::Slice bytes) { return port_->write(id_, std::move(bytes)); }
  bool finish() { return port_->finish(id_); }
  bool reset(link::Code code) { return port_->reset(id_, code); }
  bool stop(link::Code code) { return port_->stop(id_, code); }
  bool consume(std::uint64_t n, link::Instant now) { return port_->consume(id_, n, now); }
  bool relay_credit(std::uint64_t cap, std::uint64_t received, link::Instant now) {
    return port_->relay_credit(id_, cap, received, now);
  }
  bool acknowledge_fin(link::Instant now) { return port_->acknowledge_fin(id_, now); }
  // The last call on this session: what is alive of it is reset and stopped with `code`. Forgets
  // the port, so that a second release does nothing.
  void release(link::Instant now, link::Code code) {
    if (port_ == nullptr) return;
    std::exchange(port_, nullptr)->release(id_, now, code);
  }

  std::uint64_t send_room() const { return port_->send_room(id_); }
  std::uint64_t peer_limit() const { return port_->peer_limit(id_); }
  std::uint32_t rtt_us() const { return port_->rtt_us(); }

 private:
  LinkPort* port_ = nullptr;
  link::SessionId id_ = 0;
};

}  // namespace fairlead::dataplane
