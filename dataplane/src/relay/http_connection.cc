#include "relay/http_connection.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "socket/steady_now.h"

namespace fairlead::dataplane {

namespace asio = boost::asio;

// --- HttpVisit ---

HttpVisit::HttpVisit(Visits& visits, VisitOpen open, ReplayLease lease,
                     std::shared_ptr<HttpConnection> connection)
    : visits_(visits),
      end_(VisitRole::kVisitor, std::move(open), std::move(lease), steady_now()),
      connection_(std::move(connection)) {}

void HttpVisit::path_opened(SessionPort path, Outcome if_cut) {
  end_.path_opened(path, if_cut, steady_now());
  pump();
}

void HttpVisit::path_event(const link::Event& event) {
  end_.path_event(event, steady_now());
  pump();
}

void HttpVisit::abort(link::Code code, std::optional<Outcome> as) {
  end_.abort(code, steady_now(), as);
  pump();
}

void HttpVisit::write(link::Slice bytes) {
  outbox_.push(std::move(bytes));
  outbox_.flush(end_, steady_now());
}

void HttpVisit::finish() {
  outbox_.finish();
  outbox_.flush(end_, steady_now());
}

void HttpVisit::consumed(std::uint64_t n) {
  end_.local_consumed(n, steady_now());
  pump();
}

void HttpVisit::detach() {
  connection_.reset();
  std::uint64_t dropped = 0;
  for (const link::Slice& bytes : inbox_) dropped += bytes.size();
  inbox_.clear();
  if (dropped > 0) end_.local_consumed(dropped, steady_now());
}

void HttpVisit::pump() {
  const auto self = shared_from_this();
  while (auto event = end_.poll()) {
    if (auto* data = std::get_if<local::Data>(&*event)) {
      if (connection_) {
        inbox_.push_back(std::move(data->bytes));
      } else {
        end_.local_consumed(data->bytes.size(), steady_now());
      }
    } else if (std::holds_alternative<local::Fin>(*event)) {
      fin_ = true;
      if (connection_) connection_->edge_.visit_finished(steady_now());
    } else if (std::holds_alternative<local::Room>(*event)) {
      outbox_.flush(end_, steady_now());
    } else if (const auto* refused = std::get_if<local::PathRefused>(&*event)) {
      visits_.path_refused(end_.visit().id, refused->code);
    } else if (const auto* ended = std::get_if<local::Ended>(&*event)) {
      visits_.ended(ended->record);
      if (connection_) connection_->visit_over(ended->record.outcome);
    }
  }
  if (connection_) connection_->pump();
}

// --- HttpConnection ---

HttpConnection::HttpConnection(HttpFront& front, Visitor visitor,
                               const ExchangeEdge::Config& config)
    : front_(front),
      visitor_(to_text(visitor.source)),
      socket_(std::make_shared<StreamSocket>(std::move(visitor.socket))),
      early_(std::move(visitor.early)),
      edge_(config, steady_now()),
      timer_(front.io_) {}

void HttpConnection::start() {
  const auto self = shared_from_this();
  socket_->unread(std::move(early_));
  socket_->open({
      .room = [self]() -> std::size_t {
        if (self->lingering_) return StreamSocket::kMaxRead;
        const bool flowing = !self->visit_ || self->visit_->outbox_.empty();
        if (!flowing || !self->edge_.wants_visitor_bytes()) return 0;
        // Within what the visit can take; a head needs no visit.
        if (!self->visit_) return StreamSocket::kMaxRead;
        return static_cast<std::size_t>(self->visit_->end_.local_room());
      },
      .data =
          [self](link::Slice bytes) {
            if (self->lingering_) return;
            self->edge_.feed_visitor(std::move(bytes), steady_now());
            self->pump();
          },
      .fin =
          [self] {
            if (self->lingering_) return self->linger();
            self->edge_.visitor_finished(steady_now());
            self->pump();
          },
      .written = [self](std::size_t n) { self->on_written(n); },
      .failed = [self](const std::string&) { self->broken(); },
  });
  pump();
}

void HttpConnection::drain() {
  edge_.set_draining(steady_now());
  pump();
}

void HttpConnection::close() {
  if (lingering_) {
    socket_->reset();
  } else if (edge_.idle()) {
    socket_->close_cleanly();
  } else {
    return;
  }
  over();
}

// Moves everything that can move, until nothing does.
void HttpConnection::pump() {
  if (pumping_ || over_) return;
  pumping_ = true;
  const auto self = shared_from_this();
  bool moved = true;
  while (moved && !over_) {
    moved = carry_out();
    moved = feed_edge() || moved;
  }
  pumping_ = false;
  if (over_) return;
  arm_timer();
  socket_->resume();
}

bool HttpConnection::feed_edge() {
  bool any = false;
  while (visit_ && !visit_->inbox_.empty() && socket_->queued() < kMaxQueued && !over_) {
    const auto visit = visit_;
    link::Slice bytes = std::move(visit->inbox_.front());
    visit->inbox_.pop_front();
    const std::uint64_t size = bytes.size();
    edge_.feed_visit(std::move(bytes), steady_now());
    // It counts as handed on once the visitor's socket took what it became.
    const std::size_t place = unreported_.size();
    unreported_.push_back({visit, size, kNotMarked});
    carry_out();
    if (over_) return true;
    if (place < unreported_.size()) unreported_[place].mark = queued_total_;
    if (written_total_ >= queued_total_) on_written(0);
    any = true;
  }
  return any;
}

bool HttpConnection::carry_out() {
  bool any = false;
  while (!over_) {
    auto action = edge_.poll();
    if (!action) break;
    any = true;
    if (!act(*action)) break;
  }
  return any;
}

// False after the last action.
bool HttpConnection::act(EdgeAction& action) {
  if (const auto* request = std::get_if<edge_action::RouteRequest>(&action)) {
    route(*request);
  } else if (auto* out = std::get_if<edge_action::WriteVisit>(&action)) {
    if (visit_) visit_->write(std::move(out->bytes));
  } else if (std::holds_alternative<edge_action::FinishVisit>(action)) {
    if (visit_) visit_->finish();
  } else if (const auto* reset = std::get_if<edge_action::ResetVisit>(&action)) {
    if (visit_) {
      const auto visit = std::exchange(visit_, nullptr);
      visit->detach();
      visit->abort(reset->code, reset->complete ? std::optional(Outcome::kFinished) : std::nullopt);
    }
  } else if (auto* in = std::get_if<edge_action::WriteVisitor>(&action)) {
    queued_total_ += in->bytes.size();
    socket_->write(std::move(in->bytes));
  } else if (std::holds_alternative<edge_action::ExchangeDone>(action)) {
    if (visit_) {
      std::exchange(visit_, nullptr)->detach();
      front_.options_.changed();
    }
  } else if (std::holds_alternative<edge_action::CloseVisitor>(action)) {
    close_after_visitor();
    return false;
  } else if (std::holds_alternative<edge_action::AbortVisitor>(action)) {
    socket_->reset();
    over();
    return false;
  }
  return true;
}

void HttpConnection::route(const edge_action::RouteRequest& request) {
  const auto now = steady_now();
  // A claimed host without an agent is not refused at once: its visit waits for one.
  const HttpRoute route = front_.options_.routes().http(
      request.host, [](std::string_view, std::string_view) { return true; });
  if (route.status == HttpRoute::Status::kUnknown) {
    front_.visits_.refuse("no_such_service");
    return edge_.route_failed(HttpError::kNoSuchService, now);
  }
  auto lease = front_.visits_.admit(route.tenant);
  if (!lease) {
    front_.visits_.refuse("overloaded");
    return edge_.route_failed(HttpError::kOverloaded, now);
  }
  visit_ = std::make_shared<HttpVisit>(
      front_.visits_, front_.visits_.describe("http", route.tenant, route.service, visitor_),
      std::move(*lease), shared_from_this());
  edge_.route_found(now);
  front_.visits_.begin(visit_);
}

// The visit of the running exchange ended by itself.
void HttpConnection::visit_over(Outcome outcome) {
  const auto visit = std::exchange(visit_, nullptr);
  if (!visit) return;
  const auto now = steady_now();
  // What it brought before its end comes first: a response may be whole with it.
  for (link::Slice& bytes : visit->inbox_) edge_.feed_visit(std::move(bytes), now);
  visit->inbox_.clear();
  visit->connection_.reset();
  if (outcome != Outcome::kFinished) edge_.visit_broken(outcome, now);
  pump();
}

void HttpConnection::on_written(std::size_t n) {
  written_total_ += n;
  while (!unreported_.empty() && unreported_.front().mark <= written_total_) {
    const Unreported done = std::move(unreported_.front());
    unreported_.pop_front();
    done.visit->consumed(done.bytes);
  }
  if (lingering_) return linger();
  pump();
}

void HttpConnection::close_after_visitor() {
  lingering_ = true;
  timer_.cancel();
  socket_->finish();
  linger();
}

// The visitor takes its time for the last answer as for any other. Behind it, since a socket closed
// with unread bytes in it is reset and takes the answer along, its end is awaited for a moment.
void HttpConnection::linger() {
  if (over_ || socket_->queued() > 0) return;
  if (socket_->read_ended()) return over();
  socket_->resume();
  timer_.expires_after(kLinger);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->over();
  });
}

void HttpConnection::broken() {
  if (over_) return;
  if (!lingering_) {
    edge_.visitor_broken(steady_now());
    carry_out();
  }
  over();
}

void HttpConnection::over() {
  if (over_) return;
  over_ = true;
  timer_.cancel();
  // An end in order when one was given (CloseVisitor); after a reset this does nothing.
  if (lingering_) {
    socket_->close_cleanly();
  } else {
    socket_->reset();
  }
  if (visit_) {
    const auto visit = std::exchange(visit_, nullptr);
    visit->detach();
    visit->abort(visit_code::kVisitorReset);
  }
  // What the visitor's socket did not take will never be handed on.
  for (auto& each : std::exchange(unreported_, {})) each.visit->abort(visit_code::kVisitorReset);
  asio::post(front_.io_, [self = shared_from_this()] {});
  front_.connections_.erase(shared_from_this());
  front_.options_.changed();
}

void HttpConnection::arm_timer() {
  if (lingering_) return;
  const auto at = edge_.next_deadline();
  if (!at) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*at);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->over_ || self->lingering_) return;
    self->edge_.on_timer(steady_now());
    self->pump();
  });
}

}  // namespace fairlead::dataplane
