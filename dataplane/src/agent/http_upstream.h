// One HTTP exchange at the agent: a visit on one side, a connection to the upstream on the other.
#pragma once

#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>
#include <memory>

#include "http/exchange_agent.h"
#include "socket/stream_socket.h"
#include "socket/upstream_dial.h"
#include "socket/visit_driver.h"
#include "socket/visit_outbox.h"

namespace fairlead::dataplane {

// All calls on the io_context's one thread. Lives until the visit ended and the upstream is closed.
class HttpUpstream final : public VisitDriver, public std::enable_shared_from_this<HttpUpstream> {
 public:
  // Bytes waiting for the upstream's socket above which the visit is not read.
  static constexpr std::size_t kMaxQueued = 64 * 1024;

  HttpUpstream(boost::asio::io_context& io, Upstream upstream, VisitOpen visit, ReplayLease lease,
               std::function<void(const VisitRecord&)> ended);

  const VisitEnd& end() const override { return end_; }
  void path_opened(SessionPort path, Outcome if_cut) override;
  void path_event(const link::Event& event) override;
  void abort(link::Code code, std::optional<Outcome> as = std::nullopt) override;

 private:
  void pump();
  bool take_visit_events();
  bool feed_exchange();
  bool carry_out();
  void dial();
  void dialled(boost::asio::ip::tcp::socket socket, link::Code code, const std::string& error);
  bool report_consumed();

  boost::asio::io_context& io_;
  Upstream upstream_;
  VisitEnd end_;
  std::function<void(const VisitRecord&)> ended_;
  ExchangeAgent exchange_;
  VisitOutbox to_visit_;
  std::deque<link::Slice> from_visit_;
  std::uint64_t unreported_ = 0;  // bytes fed on whose consumption the visit does not know of
  std::shared_ptr<StreamSocket> socket_;
  bool pumping_ = false;
  bool over_ = false;
};

}  // namespace fairlead::dataplane
