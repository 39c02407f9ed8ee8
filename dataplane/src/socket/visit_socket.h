// A raw TCP connection as one end of a visit: a visitor's at the edge replica, an upstream's at the
// agent.
#pragma once

#include <functional>
#include <memory>

#include "socket/stream_socket.h"
#include "socket/visit_driver.h"

namespace fairlead::dataplane {

// Joins a StreamSocket and a VisitEnd. Destroyed when both are over and the owner let go. All calls
// and callbacks on the io_context's one thread.
class VisitSocket final : public VisitDriver, public std::enable_shared_from_this<VisitSocket> {
 public:
  struct Callbacks {
    // Visitor end: no agent got anything by the path that was tried; open another with
    // path_opened() or call abort() with the code.
    std::function<void(link::Code)> path_refused;
    // Visitor end: the agent accepted.
    std::function<void()> accepted;
    std::function<void(const VisitRecord&)> ended;  // the last one
  };

  VisitSocket(boost::asio::ip::tcp::socket socket, VisitRole role, VisitOpen visit,
              ReplayLease lease, Callbacks callbacks, link::Instant now);

  // The local connection stands. At the agent this answers the OPEN. `early`: bytes that were read
  // from it already.
  void local_opened(link::Slice early = {});
  boost::asio::ip::tcp::socket& raw() { return socket_->raw(); }

  const VisitEnd& end() const override { return end_; }
  void path_opened(SessionPort path, Outcome if_cut) override;
  void path_event(const link::Event& event) override;
  void abort(link::Code code, std::optional<Outcome> as = std::nullopt) override;

 private:
  void pump();

  std::shared_ptr<StreamSocket> socket_;
  VisitEnd end_;
  Callbacks callbacks_;
};

}  // namespace fairlead::dataplane
