#include "socket/visit_socket.h"

#include "socket/steady_now.h"

namespace fairlead::dataplane {

VisitSocket::VisitSocket(boost::asio::ip::tcp::socket socket, VisitRole role, VisitOpen visit,
                         ReplayLease lease, Callbacks callbacks, link::Instant now)
    : socket_(std::make_shared<StreamSocket>(std::move(socket))),
      end_(role, std::move(visit), std::move(lease), now),
      callbacks_(std::move(callbacks)) {}

void VisitSocket::path_opened(SessionPort path, Outcome if_cut) {
  end_.path_opened(path, if_cut, steady_now());
  pump();
}

void VisitSocket::path_event(const link::Event& event) {
  end_.path_event(event, steady_now());
  pump();
}

void VisitSocket::local_opened(link::Slice early) {
  if (end_.state() == VisitEnd::State::kEnded) return socket_->reset();
  socket_->unread(std::move(early));
  const auto self = shared_from_this();
  socket_->open({
      .room = [self] { return static_cast<std::size_t>(self->end_.local_room()); },
      .data =
          [self](link::Slice bytes) {
            self->end_.local_data(std::move(bytes), steady_now());
            self->pump();
          },
      .fin =
          [self] {
            self->end_.local_fin(steady_now());
            self->pump();
          },
      .written =
          [self](std::size_t n) {
            self->end_.local_consumed(n, steady_now());
            self->pump();
          },
      .failed =
          [self](const std::string&) {
            self->abort(self->end_.role() == VisitRole::kVisitor ? visit_code::kVisitorReset
                                                                 : visit_code::kUpstreamReset);
          },
  });
  if (end_.role() == VisitRole::kAgent) end_.local_opened(steady_now());
  pump();
}

void VisitSocket::abort(link::Code code, std::optional<Outcome> as) {
  end_.abort(code, steady_now(), as);
  pump();
}

void VisitSocket::pump() {
  // A callback may let go of the last reference.
  const auto self = shared_from_this();
  while (auto event = end_.poll()) {
    if (auto* data = std::get_if<local::Data>(&*event)) {
      socket_->write(std::move(data->bytes));
    } else if (std::holds_alternative<local::Fin>(*event)) {
      socket_->finish();
    } else if (std::holds_alternative<local::Room>(*event)) {
      socket_->resume();
    } else if (std::holds_alternative<local::Accepted>(*event)) {
      if (const auto tell = callbacks_.accepted) tell();
    } else if (const auto* refused = std::get_if<local::PathRefused>(&*event)) {
      // A copy: the owner may abort from inside, which ends with callbacks_ cleared.
      if (const auto tell = callbacks_.path_refused) tell(refused->code);
    } else if (const auto* ended = std::get_if<local::Ended>(&*event)) {
      if (ended->record.outcome == Outcome::kFinished) {
        socket_->close_cleanly();
      } else {
        socket_->reset();
      }
      const auto tell = std::move(callbacks_.ended);
      callbacks_ = {};
      if (tell) tell(ended->record);
    }
  }
}

}  // namespace fairlead::dataplane
