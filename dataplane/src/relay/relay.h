// One relay replica: what it consists of, and in which order that starts and ends.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/relay_config.h"
#include "link/asio/tls.h"
#include "mesh/directory.h"
#include "mesh/membership.h"
#include "relay/agent_gate.h"
#include "relay/drain.h"
#include "relay/http_front.h"
#include "relay/log_limiter.h"
#include "relay/peer_mesh.h"
#include "relay/status.h"
#include "relay/tcp_front.h"
#include "relay/visits.h"
#include "routes/route_table.h"

namespace fairlead::admin::v1 {
class Membership;
}

namespace fairlead::dataplane {

// All calls on the io_context's one thread, which runs everything that carries bytes.
class Relay {
 public:
  // At its start a replica is not ready before it tried its known peers for at most this long.
  static constexpr std::chrono::seconds kMeshGrace{10};
  // After the drain is over: how long peers may take to hear of it before the links end.
  static constexpr std::chrono::seconds kLeaveGrace{5};
  // How often the TLS files and the tokens are looked at.
  static constexpr std::chrono::seconds kReloadPeriod{10};

  // `version` is what the replica says of itself. `ended` is called once, when end() has done its
  // work and the process may exit.
  Relay(boost::asio::io_context& io, RelayConfig config, std::string version,
        std::function<void()> ended);
  // Once `io` runs no more, and before `io` is destroyed. What still lives ends as if the process
  // had been killed: visitors see RST, peers and agents the end of their links.
  ~Relay();

  // Reads the files, binds the listeners and begins to serve. False with `error`: what was wrong.
  bool start(std::string& error);

  // --- Admin ---
  Membership::Answer set_membership(const admin::v1::Membership& list);
  // An order of a leader with a lower epoch than the membership's is refused: the text says why.
  std::string check_epoch(std::uint64_t epoch) const;
  void drain(const DrainOrder& order);
  // With the deadline and delay of the configuration.
  void drain_as_configured(const std::string& reason);
  RelayStatus status() const;
  bool ready() const { return ready_; }
  const Drain& drain_state() const { return drain_; }
  std::string process_id() const { return boot_id_; }

  // SIGTERM: drains, unless that is done, and then ends. A second call ends at once: what lives is
  // reset and counted as lost.
  void end();

 private:
  bool load_files(std::string& error);
  bool load_tokens(std::string& error);
  void load_membership();
  void save_membership();
  bool listen(std::string& error);
  void reload();
  void poll_directory();
  void membership_changed();
  std::vector<Route> routes(const std::string& kind, const std::string& tenant,
                            const std::string& service) const;
  void on_peer_visit(LinkSessions& link, const link::event::Opened& opened);
  void stranger(std::string_view cause, const std::string& source, const std::string& text);
  void changed();
  void update();
  void step_drain();
  void leave();
  std::uint32_t target_homes() const;
  bool other_active() const;
  bool homed_elsewhere(const Registration& registration) const;
  std::string name_of(const std::string& uid) const;
  MemberState state() const;

  boost::asio::io_context& io_;
  const RelayConfig config_;
  const std::string version_;
  const std::string boot_id_;
  const link::Instant started_at_;
  std::function<void()> ended_;

  link::CreditPool credit_;
  ReplayBudget replay_;
  std::shared_ptr<link::TlsIdentity> identity_;
  std::optional<RouteTable> routes_;
  std::string loaded_tls_, loaded_tokens_;  // the texts in force, to see a change
  Membership membership_;
  Directory directory_;
  Visits visits_;
  AgentGate agents_;
  PeerMesh mesh_;
  TcpFront tcp_;
  HttpFront http_;
  Drain drain_;
  LogLimiter limiter_;

  boost::asio::steady_timer drain_timer_;
  boost::asio::steady_timer reload_timer_;
  boost::asio::steady_timer ready_timer_;
  boost::asio::steady_timer leave_timer_;
  std::uint64_t drain_lost_ = 0;
  std::uint32_t told_homes_ = 0;
  bool serving_ = false;
  bool ready_ = false;
  bool ending_ = false;   // SIGTERM came
  bool leaving_ = false;  // the drain is over: peers are being told
  bool update_posted_ = false;
};

}  // namespace fairlead::dataplane
