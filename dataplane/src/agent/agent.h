// The agent: keeps homes at relay replicas and serves visits from upstreams beside it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/homes.h"
#include "fairlead/link/credit_pool.h"
#include "fairlead/link/liveness.h"
#include "link/asio/tls.h"
#include "socket/upstream_dial.h"
#include "visit/replay_budget.h"

namespace fairlead::dataplane {

struct AgentService {
  std::string kind;  // "tcp" or "http"
  std::string name;
  Upstream upstream;
};

struct AgentOptions {
  struct Relay {
    std::string host, port;
  };
  std::vector<Relay> relays;  // at least one; resolved at each dial
  std::string server_name;    // that the relay's certificate must carry; empty: the relay's host
  std::shared_ptr<link::TlsIdentity> identity;
  std::string token;
  std::string agent_id;
  std::string version;
  std::vector<AgentService> services;
  std::uint32_t homes = 2;
  link::Liveness liveness = link::kDefault;
};

// Exit codes of the process, for whoever restarts it.
enum class AgentExit : int {
  kEnded = 0,    // asked to end
  kRetry = 1,    // failed here; trying again may help
  kRefused = 2,  // the relay said no for good: the text says what to change
};

// Reconnects for as long as it runs; only an order to end, or a relay's final refusal, ends it. All
// calls on the io_context's one thread.
class Agent {
 public:
  // Most bytes of sent data held until the other end has them, over all visits.
  static constexpr std::uint64_t kReplayBytes = 64ull << 20;
  // Credit that visits' readers may hold above their floors, over all links.
  static constexpr std::uint64_t kCreditBytes = 64ull << 20;
  // How long stop() lets live visits go on.
  static constexpr std::chrono::seconds kStopGrace{30};

  struct Callbacks {
    // The number of standing homes changed.
    std::function<void(std::uint32_t standing, std::uint32_t target,
                       const std::vector<std::string>& urls)>
        homes;
    std::function<void(AgentExit, std::string text)> exit;  // the last one
  };

  Agent(boost::asio::io_context& io, AgentOptions options, Callbacks callbacks);
  // Once `io` runs no more, and before `io` is destroyed. What still lives ends as if the process
  // had been killed: upstreams see RST, relays the end of their links.
  ~Agent();

  void start();
  // Takes no new visits and ends when the live ones have, or after kStopGrace. A second call ends
  // at once: what lives then is cut.
  void stop();

 private:
  class Home;
  friend class Home;

  void carry_out();
  std::shared_ptr<Home> find_home(HomeId id) const;
  void dial(HomeId id, std::size_t relay);
  void arm_timer();
  void tell_homes();
  void home_over(HomeId id);
  void refused(std::string text);
  void maybe_finish_stop();
  void exit(AgentExit code, std::string text);
  const AgentService* find_service(const std::string& kind, const std::string& name) const;

  boost::asio::io_context& io_;
  AgentOptions options_;
  Callbacks callbacks_;
  std::string instance_;  // 16 random bytes
  std::uint64_t generation_ = 0;
  Homes homes_;
  link::CreditPool credit_{kCreditBytes};
  ReplayBudget replay_{kReplayBytes, kReplayBytes};
  std::map<HomeId, std::shared_ptr<Home>> links_;
  std::vector<std::string> urls_;
  std::uint32_t told_standing_ = 0;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer stop_timer_;
  bool carrying_out_ = false;
  bool stopping_ = false;
  bool exited_ = false;
};

}  // namespace fairlead::dataplane
