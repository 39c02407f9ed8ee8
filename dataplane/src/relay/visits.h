// The visits of one replica: those whose visitor is here, and those of other replicas that pass
// through to an agent homed here.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "mesh/waiting_visits.h"
#include "relay/status.h"
#include "socket/link_sessions.h"
#include "socket/visit_driver.h"
#include "visit/replay_budget.h"
#include "visit/splice.h"

namespace fairlead::dataplane {

// One way to an agent: a link to it, or a link to a replica that is its home.
struct Route {
  LinkSessions* link;
  bool forwarded;    // by a peer link
  std::string home;  // the replica's name
  std::string agent_id;
  std::string instance;  // 16 bytes
};

// All calls on the io_context's one thread.
class Visits {
 public:
  struct Options {
    std::string edge;  // this replica's name
    // Ways to the service now, best first; empty when there is none.
    std::function<std::vector<Route>(const std::string& kind, const std::string& tenant,
                                     const std::string& service)>
        routes;
    std::function<void()> changed;  // a visit began or ended
  };

  Visits(boost::asio::io_context& io, ReplayBudget& replay, Options options);

  // --- a visitor of this replica ---

  // Memory for one visit; nothing when the process is full (count it with refuse()).
  std::optional<ReplayLease> admit(const std::string& tenant) { return replay_.admit(tenant); }
  // A new visit's own data: id and secret at random.
  VisitOpen describe(std::string kind, std::string tenant, std::string service,
                     std::string visitor) const;
  // Finds a path for it, now or within WaitingVisits::kWait. The driver must tell path_refused()
  // and ended().
  void begin(std::shared_ptr<VisitDriver> visit);
  void path_refused(const VisitId& id, link::Code code);
  void ended(const VisitRecord& record);
  // A visitor that was turned away before a visit began.
  void refuse(const std::string& cause) { ++refused_[cause]; }

  // --- a visit of another replica ---

  // Joins a session that a peer opened with one on an agent's link.
  void forward(LinkSessions& inbound, const link::event::Opened& opened, LinkSessions& agent);

  // --- the replica ---

  // Agents or links came: visits that wait for a route are tried again.
  void routes_changed();
  // The drain deadline: visitors' visits end as lost with kDrainTimeout, passing ones are dropped.
  // Returns how many.
  std::size_t reset_all();

  std::size_t live() const { return visits_.size(); }
  std::size_t forwarding() const { return forwardings_.size(); }
  std::map<std::string, std::uint32_t> live_by_kind() const;
  void fill(RelayStatus& status) const;

 private:
  struct Visit {
    std::shared_ptr<VisitDriver> driver;
    std::string home;
    std::set<std::string> tried;                  // homes that refused it
    bool counted = false;                         // as opened
    std::optional<WaitingVisits::Ticket> ticket;  // waits for a route
    bool waited = false;                          // once, which is enough
    link::Code last_refusal = link::code::kOk;
    link::Instant began;
  };
  struct Forwarding {
    Forwarding(SessionPort inbound, SessionPort outbound, std::string visit_kind, link::Instant now)
        : splice(inbound, outbound, now), kind(std::move(visit_kind)) {}
    Splice splice;
    std::string kind;
  };

  void find_path(Visit& visit);
  void no_route(Visit& visit);
  void stop_waiting(Visit& visit);
  void expire();
  void count_opened(Visit& visit, bool forwarded);
  void arm_timer();
  void forwarding_event(std::uint64_t key, Splice::Side side, const link::Event& event);

  boost::asio::io_context& io_;
  ReplayBudget& replay_;
  Options options_;
  boost::asio::steady_timer timer_;
  std::unordered_map<VisitId, Visit> visits_;
  WaitingVisits waiting_;
  std::unordered_map<WaitingVisits::Ticket, VisitId> tickets_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Forwarding>> forwardings_;
  std::uint64_t next_forwarding_ = 1;
  std::map<std::string, VisitCounters> counters_;  // by kind
  std::map<std::string, std::uint64_t> refused_;
};

}  // namespace fairlead::dataplane
