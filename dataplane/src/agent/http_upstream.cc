#include "agent/http_upstream.h"

#include <spdlog/spdlog.h>

#include "socket/steady_now.h"

namespace fairlead::dataplane {

using boost::asio::ip::tcp;

HttpUpstream::HttpUpstream(boost::asio::io_context& io, Upstream upstream, VisitOpen visit,
                           ReplayLease lease, std::function<void(const VisitRecord&)> ended)
    : io_(io),
      upstream_(std::move(upstream)),
      end_(VisitRole::kAgent, std::move(visit), std::move(lease), steady_now()),
      ended_(std::move(ended)) {}

void HttpUpstream::path_opened(SessionPort path, Outcome if_cut) {
  end_.path_opened(path, if_cut, steady_now());
  // An exchange is accepted before its upstream is: whatever becomes of that is told in HTTP.
  end_.local_opened(steady_now());
  pump();
}

void HttpUpstream::path_event(const link::Event& event) {
  end_.path_event(event, steady_now());
  pump();
}

void HttpUpstream::abort(link::Code code, std::optional<Outcome> as) {
  end_.abort(code, steady_now(), as);
  pump();
}

// Moves everything that can move, until nothing does.
void HttpUpstream::pump() {
  if (pumping_) return;
  pumping_ = true;
  const auto self = shared_from_this();
  bool moved = true;
  while (moved) {
    moved = take_visit_events();
    moved = feed_exchange() || moved;
    moved = carry_out() || moved;
    moved = report_consumed() || moved;
  }
  pumping_ = false;
  if (socket_ && to_visit_.empty()) socket_->resume();
}

bool HttpUpstream::take_visit_events() {
  bool any = false;
  while (auto event = end_.poll()) {
    any = true;
    if (auto* data = std::get_if<local::Data>(&*event)) {
      from_visit_.push_back(std::move(data->bytes));
    } else if (std::holds_alternative<local::Room>(*event)) {
      to_visit_.flush(end_, steady_now());
    } else if (std::holds_alternative<local::Fin>(*event)) {
      exchange_.visit_finished();
    } else if (const auto* ended = std::get_if<local::Ended>(&*event)) {
      over_ = true;
      if (ended->record.outcome != Outcome::kFinished) exchange_.visit_broken();
      if (ended_) std::exchange(ended_, nullptr)(ended->record);
    }
  }
  return any;
}

bool HttpUpstream::feed_exchange() {
  bool any = false;
  while (!from_visit_.empty() && exchange_.wants_visit_bytes() &&
         (!socket_ || socket_->queued() < kMaxQueued)) {
    link::Slice bytes = std::move(from_visit_.front());
    from_visit_.pop_front();
    unreported_ += bytes.size();
    exchange_.feed_visit(std::move(bytes));
    any = true;
    carry_out();
  }
  return any;
}

bool HttpUpstream::carry_out() {
  bool any = false;
  const auto now = steady_now();
  while (auto action = exchange_.poll()) {
    any = true;
    if (std::holds_alternative<agent_action::Dial>(*action)) {
      dial();
    } else if (auto* upstream = std::get_if<agent_action::WriteUpstream>(&*action)) {
      if (socket_) socket_->write(std::move(upstream->bytes));
    } else if (auto* visit = std::get_if<agent_action::WriteVisit>(&*action)) {
      to_visit_.push(std::move(visit->bytes));
      to_visit_.flush(end_, now);
    } else if (std::holds_alternative<agent_action::FinishVisit>(*action)) {
      to_visit_.finish();
      to_visit_.flush(end_, now);
    } else if (const auto* reset = std::get_if<agent_action::ResetVisit>(&*action)) {
      spdlog::warn("visit {}: {} {}: {}", end_.visit().id.hex(), exchange_.method(),
                   exchange_.target(), exchange_.fault());
      end_.abort(reset->code, now);
    } else if (std::holds_alternative<agent_action::CloseUpstream>(*action)) {
      if (socket_) socket_->close_cleanly();
      socket_.reset();
    } else if (std::holds_alternative<agent_action::AbortUpstream>(*action)) {
      if (socket_) socket_->reset();
      socket_.reset();
    }
  }
  return any;
}

// Bytes count as handed on once the upstream's socket took everything.
bool HttpUpstream::report_consumed() {
  if (unreported_ == 0 || (socket_ && socket_->queued() > 0)) return false;
  end_.local_consumed(std::exchange(unreported_, 0), steady_now());
  return true;
}

void HttpUpstream::dial() {
  dial_upstream(
      io_, upstream_,
      [self = shared_from_this()](tcp::socket socket, link::Code code, const std::string& error) {
        self->dialled(std::move(socket), code, error);
      });
}

void HttpUpstream::dialled(tcp::socket socket, link::Code code, const std::string& error) {
  if (over_ || exchange_.done()) return;
  if (code != link::code::kOk) {
    spdlog::warn("visit {}: upstream {}", end_.visit().id.hex(), error);
    exchange_.upstream_failed();
    return pump();
  }
  socket_ = std::make_shared<StreamSocket>(std::move(socket));
  const auto self = shared_from_this();
  socket_->open({
      .room = [self]() -> std::size_t {
        if (self->exchange_.done() || !self->to_visit_.empty()) return 0;
        return self->end_.local_room();
      },
      .data =
          [self](link::Slice bytes) {
            self->exchange_.feed_upstream(std::move(bytes));
            self->pump();
          },
      .fin =
          [self] {
            self->exchange_.upstream_finished();
            self->pump();
          },
      .written = [self](std::size_t) { self->pump(); },
      .failed =
          [self](const std::string& text) {
            spdlog::debug("visit {}: upstream: {}", self->end_.visit().id.hex(), text);
            self->socket_.reset();
            self->exchange_.upstream_broken();
            self->pump();
          },
  });
  exchange_.upstream_connected();
  pump();
}

}  // namespace fairlead::dataplane
