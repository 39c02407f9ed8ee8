// One HTTP/1.1 visitor connection, and the visits of its exchanges.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <memory>

#include "http/exchange_edge.h"
#include "relay/http_front.h"
#include "socket/stream_socket.h"
#include "socket/visit_driver.h"
#include "socket/visit_outbox.h"

namespace fairlead::dataplane {

// The visit of one exchange. Outlives its exchange until the agent end has finished it.
class HttpVisit final : public VisitDriver, public std::enable_shared_from_this<HttpVisit> {
 public:
  HttpVisit(Visits& visits, VisitOpen open, ReplayLease lease,
            std::shared_ptr<HttpConnection> connection);

  const VisitEnd& end() const override { return end_; }
  void path_opened(SessionPort path, Outcome if_cut) override;
  void path_event(const link::Event& event) override;
  void abort(link::Code code, std::optional<Outcome> as = std::nullopt) override;

 private:
  friend class HttpConnection;

  // Takes what the visit says; the connection, if it still is in this exchange, acts on it.
  void pump();
  void write(link::Slice bytes);
  void finish();
  // `n` bytes of the visit left for the visitor.
  void consumed(std::uint64_t n);
  // The exchange is over: what still comes is dropped.
  void detach();

  Visits& visits_;
  VisitEnd end_;
  std::shared_ptr<HttpConnection> connection_;  // null once detached
  VisitOutbox outbox_;
  std::deque<link::Slice> inbox_;  // for the connection
  bool fin_ = false;               // came
};

// Owned by its HttpFront until both halves are over.
class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  // Bytes waiting for the visitor's socket above which the visit is not read.
  static constexpr std::size_t kMaxQueued = 64 * 1024;
  // How long a visitor that has its last answer may go on sending.
  static constexpr std::chrono::seconds kLinger{3};

  HttpConnection(HttpFront& front, Visitor visitor, const ExchangeEdge::Config& config);

  void start();
  void drain();
  bool carries_visit() const { return visit_ != nullptr; }
  // Closes unless an exchange is under way; what was not taken of a last answer is cut.
  void close();

 private:
  friend class HttpVisit;

  void pump();
  bool feed_edge();
  bool carry_out();
  bool act(EdgeAction& action);
  void route(const edge_action::RouteRequest& request);
  void visit_over(Outcome outcome);
  void on_written(std::size_t n);
  void close_after_visitor();
  void linger();
  void broken();
  void over();
  void arm_timer();

  HttpFront& front_;
  std::string visitor_;  // for logs
  std::shared_ptr<StreamSocket> socket_;
  link::Slice early_;
  ExchangeEdge edge_;
  std::shared_ptr<HttpVisit> visit_;  // of the exchange that runs
  boost::asio::steady_timer timer_;

  // Bytes of visits that are in the socket's queue: reported when everything up to `mark` left.
  static constexpr std::uint64_t kNotMarked = UINT64_MAX;  // not queued yet
  struct Unreported {
    std::shared_ptr<HttpVisit> visit;
    std::uint64_t bytes;
    std::uint64_t mark;
  };
  std::deque<Unreported> unreported_;
  std::uint64_t queued_total_ = 0;
  std::uint64_t written_total_ = 0;

  bool pumping_ = false;
  bool lingering_ = false;  // CloseVisitor was given: what comes is dropped
  bool over_ = false;
};

}  // namespace fairlead::dataplane
