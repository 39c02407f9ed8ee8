// The agents homed at this replica: their links, their registration, and what they are told.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fairlead/link/credit_pool.h"
#include "link/asio/link_listener.h"
#include "mesh/directory.h"
#include "routes/route_table.h"
#include "socket/link_sessions.h"

namespace fairlead::dataplane {

class AgentLink;

// All calls on the io_context's one thread.
class AgentGate {
 public:
  // A link must register within this time.
  static constexpr std::chrono::seconds kRegisterTimeout{10};
  static constexpr std::size_t kMaxLinks = 20'000;

  struct Options {
    std::string replica_uid, replica_name, version;
    std::string min_version;  // "" or "1.2.3"
    std::function<const RouteTable&()> routes;
    std::function<std::uint32_t()> target_homes;  // for every agent, now
    // One line a minute per cause and source: the caller limits.
    std::function<void(std::string_view cause, const std::string& source, const std::string& text)>
        stranger;
    std::function<void()> changed;  // an agent came or went
  };

  AgentGate(boost::asio::io_context& io, Directory& directory, Options options);
  ~AgentGate();

  bool listen(link::ListenOptions options, std::string& error);
  void stop_listening();

  // The link of that very instance with the fewest sessions; null when there is none that takes a
  // visit.
  LinkSessions* find(std::string_view tenant, std::string_view agent_id,
                     std::string_view instance) const;

  // --- what the directory said ---
  void superseded(AgentLinkId link, const std::string& text);
  void evicted(AgentLinkId link, const std::string& text);

  // --- telling agents ---
  void tell_homes();
  // New registrations are refused for now; the agents here shall move.
  void drain(const std::string& reason);
  void goaway();
  // Ends every link in order.
  void close(const std::string& why);

  std::size_t links() const { return links_.size(); }
  // Of the registered agents those for which `elsewhere` says no.
  std::uint32_t count_without(
      const std::function<bool(const Registration& registration)>& elsewhere) const;

 private:
  friend class AgentLink;

  void accepted(std::shared_ptr<link::LinkSocket> socket);
  void over(AgentLinkId id);

  boost::asio::io_context& io_;
  Directory& directory_;
  Options options_;
  std::shared_ptr<link::LinkListener> listener_;
  std::map<AgentLinkId, std::shared_ptr<AgentLink>> links_;
  AgentLinkId next_id_ = 1;
  bool draining_ = false;
};

// Compares dotted decimal versions; text after a '-' does not count. "1.10.0" is newer than "1.9".
bool version_at_least(std::string_view version, std::string_view least);

}  // namespace fairlead::dataplane
