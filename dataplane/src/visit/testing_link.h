// Session ports for tests: one that records what it was told, and one over a link core in memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fairlead/link/connection.h"
#include "visit/session_port.h"

namespace fairlead::dataplane::testing {

// Writes each command as a line, e.g. "1 write abc", "1 release 10"; the answers are set by the
// test.
class RecordingPort : public LinkPort {
 public:
  std::vector<std::string> log;
  std::uint64_t room = link::kFloorWindow;
  std::uint64_t limit = link::kFloorWindow;
  std::uint32_t rtt = 0;

  // What was told since the last call.
  std::vector<std::string> take() { return std::exchange(log, {}); }

  bool accept(link::SessionId id, link::Slice meta, std::uint32_t path_rtt_us, link::Instant,
              std::optional<std::uint64_t> credit_cap) override {
    accepted = std::move(meta);
    return add(id, "accept rtt " + std::to_string(path_rtt_us) +
                       (credit_cap ? " cap " + std::to_string(*credit_cap) : ""));
  }
  bool write(link::SessionId id, link::Slice bytes) override {
    room -= std::min<std::uint64_t>(room, bytes.size());
    return add(id, "write " + std::string(bytes.text()));
  }
  bool finish(link::SessionId id) override { return add(id, "finish"); }
  bool reset(link::SessionId id, link::Code code) override {
    return add(id, "reset " + std::to_string(code));
  }
  bool stop(link::SessionId id, link::Code code) override {
    return add(id, "stop " + std::to_string(code));
  }
  bool consume(link::SessionId id, std::uint64_t n, link::Instant) override {
    return add(id, "consume " + std::to_string(n));
  }
  bool relay_credit(link::SessionId id, std::uint64_t cap, std::uint64_t received,
                    link::Instant) override {
    return add(id, "credit " + std::to_string(cap) + ' ' + std::to_string(received));
  }
  bool acknowledge_fin(link::SessionId id, link::Instant) override { return add(id, "ack-fin"); }
  bool release(link::SessionId id, link::Instant, link::Code code) override {
    return add(id, "release " + std::to_string(code));
  }
  std::uint64_t send_room(link::SessionId) const override { return room; }
  std::uint64_t peer_limit(link::SessionId) const override { return limit; }
  std::uint32_t rtt_us() const override { return rtt; }

  link::Slice accepted;

 private:
  bool add(link::SessionId id, const std::string& what) {
    log.push_back(std::to_string(id) + ' ' + what);
    return true;
  }
};

// The commands of a link core, nothing in between.
class CorePort : public LinkPort {
 public:
  explicit CorePort(link::Connection& core) : core_(core) {}

  bool accept(link::SessionId id, link::Slice meta, std::uint32_t path_rtt_us, link::Instant now,
              std::optional<std::uint64_t> credit_cap) override {
    return core_.accept(id, std::move(meta), path_rtt_us, now, credit_cap);
  }
  bool write(link::SessionId id, link::Slice bytes) override {
    return core_.write(id, std::move(bytes));
  }
  bool finish(link::SessionId id) override { return core_.finish(id); }
  bool reset(link::SessionId id, link::Code code) override { return core_.reset(id, code); }
  bool stop(link::SessionId id, link::Code code) override { return core_.stop(id, code); }
  bool consume(link::SessionId id, std::uint64_t n, link::Instant now) override {
    return core_.consume(id, n, now);
  }
  bool relay_credit(link::SessionId id, std::uint64_t cap, std::uint64_t received,
                    link::Instant now) override {
    return core_.relay_credit(id, cap, received, now);
  }
  bool acknowledge_fin(link::SessionId id, link::Instant now) override {
    return core_.acknowledge_fin(id, now);
  }
  bool release(link::SessionId id, link::Instant now, link::Code code) override {
    return core_.release(id, now, code);
  }
  std::uint64_t send_room(link::SessionId id) const override { return core_.send_room(id); }
  std::uint64_t peer_limit(link::SessionId id) const override { return core_.peer_limit(id); }
  std::uint32_t rtt_us() const override { return core_.rtt_us(); }

 private:
  link::Connection& core_;
};

}  // namespace fairlead::dataplane::testing
