#include "http/exchange_edge.h"

#include <algorithm>
#include <cassert>

namespace fairlead::dataplane {
namespace {

using namespace edge_action;

bool wants_html(const RequestHead& head) {
  const auto accept = head.fields.find("Accept");
  return accept && accept->find("text/html") != std::string_view::npos;
}

// "h2c" and nothing else: an offer that may be declined by answering in HTTP/1.1.
bool offers_only_h2c(const RequestHead& head) {
  bool only = true;
  for (std::size_t i = 0; i < head.fields.size(); ++i) {
    if (!iequals(head.fields[i].name, "Upgrade")) continue;
    for_each_token(head.fields[i].value,
                   [&](std::string_view token) { only &= iequals(token, "h2c"); });
  }
  return only;
}

}  // namespace

ExchangeEdge::ExchangeEdge(const Config& config, link::Instant now)
    : config_(config), deadline_(now + config.head_timeout) {}

bool ExchangeEdge::wants_visitor_bytes() const {
  return state_ != State::kClosed && !visitor_finished_ && held_.empty();
}

void ExchangeEdge::feed_visitor(link::Slice bytes, link::Instant now) {
  if (state_ == State::kClosed) return;
  assert(held_.empty() && !visitor_finished_);
  held_ = std::move(bytes);
  run(now);
}

void ExchangeEdge::visitor_finished(link::Instant now) {
  visitor_finished_ = true;
  check_visitor_end(now);
}

void ExchangeEdge::visitor_broken(link::Instant) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kExchange)
    actions_.emplace_back(ResetVisit{visit_code::kVisitorReset, false});
  abort();
}

// Reads what is held until it is used up or has to wait.
void ExchangeEdge::run(link::Instant now) {
  while (state_ == State::kIdle || state_ == State::kHead ||
         (state_ == State::kExchange && !request_done_)) {
    if (state_ == State::kIdle && !held_.empty()) {
      state_ = State::kHead;
      deadline_ = now + config_.head_timeout;
    }
    link::Bytes input = held_.bytes();
    auto event = requests_.next(input);
    if (!event) {
      held_ = {};
      break;
    }
    on_request_event(std::move(*event), input, now);
  }
  check_visitor_end(now);
}

void ExchangeEdge::on_request_event(RequestReader::Event event, link::Bytes rest,
                                    link::Instant now) {
  const link::Slice fed = held_;
  held_ = rest.empty() ? link::Slice() : slice_of(fed, rest);
  std::visit(Overloaded{
                 [&](RequestHead& head) { on_request_head(std::move(head), now); },
                 [&](read::Body& body) {
                   to_visit_.body(slice_of(fed, body.bytes), slices_);
                   flush(false);
                 },
                 [&](read::Trailers& trailers) { request_trailers_ = std::move(trailers.fields); },
                 [&](read::End&) {
                   request_done_ = true;
                   to_visit_.end(request_trailers_, slices_);
                   flush(false);
                   actions_.emplace_back(FinishVisit{});
                 },
                 [&](read::Error& error) {
                   if (state_ == State::kExchange) {
                     actions_.emplace_back(ResetVisit{link::code::kCancel, false});
                     if (head_sent_) return abort();
                   }
                   answer(error.kind == read::Error::Kind::kTooLarge ? HttpError::kHeadTooLarge
                                                                     : HttpError::kBadRequest,
                          false, now);
                 },
             },
             event);
}

void ExchangeEdge::on_request_head(RequestHead head, link::Instant now) {
  deadline_.reset();
  request_ = std::move(head);
  request_done_ = false;
  head_sent_ = false;
  status_ = 0;
  request_trailers_ = {};
  response_trailers_ = {};
  if (request_.method == "CONNECT") return answer(HttpError::kConnectUnsupported, false, now);
  if (request_.upgrade && !offers_only_h2c(request_)) {
    return answer(HttpError::kUpgradeUnsupported, false, now);
  }
  state_ = State::kRouting;
  actions_.emplace_back(RouteRequest{request_.host, request_.method, request_.target});
}

void ExchangeEdge::route_found(link::Instant now) {
  if (state_ != State::kRouting) return;
  state_ = State::kExchange;
  response_.emplace(request_.method);
  to_visit_ = BodyWriter(request_.framing);
  actions_.emplace_back(
      WriteVisit{link::Slice::copy_of(visit_request_head(request_, config_.source))});
  run(now);
}

void ExchangeEdge::route_failed(HttpError error, link::Instant now) {
  if (state_ != State::kRouting) return;
  answer(error, true, now);
}

void ExchangeEdge::feed_visit(link::Slice bytes, link::Instant now) {
  link::Bytes input = bytes.bytes();
  while (state_ == State::kExchange) {
    auto event = response_->next(input);
    if (!event) return;
    on_response_event(std::move(*event), bytes, input, now);
  }
}

void ExchangeEdge::on_response_event(ResponseReader::Event event, const link::Slice& fed,
                                     link::Bytes rest, link::Instant now) {
  std::visit(Overloaded{
                 [&](ResponseHead& head) {
                   // An agent states every end, so that a cut can be told from it.
                   if (head.framing == Framing::kUntilClose) {
                     actions_.emplace_back(ResetVisit{link::code::kProtocol, false});
                     return lose_visit(HttpError::kInternal, now);
                   }
                   on_response_head(head);
                 },
                 [&](read::Body& body) {
                   to_visitor_.body(slice_of(fed, body.bytes), slices_);
                   flush(true);
                 },
                 [&](read::Trailers& trailers) { response_trailers_ = std::move(trailers.fields); },
                 [&](read::End&) {
                   to_visitor_.end(response_trailers_, slices_);
                   flush(true);
                   if (!rest.empty()) {
                     // Whatever it is, it must not become the answer to the next request.
                     actions_.emplace_back(ResetVisit{link::code::kProtocol, true});
                     actions_.emplace_back(ExchangeDone{status_, std::nullopt});
                     return close();
                   }
                   on_response_end(now);
                 },
                 [&](read::Error&) {
                   actions_.emplace_back(ResetVisit{link::code::kProtocol, false});
                   lose_visit(HttpError::kInternal, now);
                 },
             },
             event);
}

void ExchangeEdge::on_response_head(const ResponseHead& head) {
  if (head.informational()) {
    if (request_.minor == 1) write_visitor(visitor_response_head(head, Framing::kNone, ""));
    return;
  }
  Framing framing = head.framing;
  // HTTP/1.0 knows no chunks: the end of the body is the end of the connection.
  if (framing == Framing::kChunked && request_.minor == 0) framing = Framing::kUntilClose;
  // A pipelined request that came before the visitor's FIN is still answered.
  const bool may_ask_again = !visitor_finished_ || !held_.empty();
  keep_alive_ = request_.keep_alive && request_done_ && !draining_ && may_ask_again &&
                framing != Framing::kUntilClose;
  head_sent_ = true;
  status_ = head.status;
  to_visitor_ = BodyWriter(framing);
  write_visitor(visitor_response_head(head, framing,
                                      !keep_alive_          ? "close"
                                      : request_.minor == 0 ? "keep-alive"
                                                            : ""));
}

void ExchangeEdge::on_response_end(link::Instant now) {
  if (!request_done_) {
    actions_.emplace_back(ResetVisit{link::code::kCancel, true});
    keep_alive_ = false;
  }
  actions_.emplace_back(ExchangeDone{status_, std::nullopt});
  if (!keep_alive_) return close();
  next_exchange(now);
}

void ExchangeEdge::visit_finished(link::Instant now) {
  if (state_ != State::kExchange) return;
  // After a complete response the exchange is over and this is not called: the end came too early.
  actions_.emplace_back(ResetVisit{link::code::kProtocol, false});
  lose_visit(HttpError::kInternal, now);
}

void ExchangeEdge::visit_broken(Outcome outcome, link::Instant now) {
  if (state_ != State::kExchange) return;
  lose_visit(http_error_of(outcome), now);
}

// The visit is over without a complete response.
void ExchangeEdge::lose_visit(HttpError error, link::Instant now) {
  if (head_sent_) return abort();
  answer(error, request_done_, now);
}

// Answers the request that was read, or could not be, with a page.
void ExchangeEdge::answer(HttpError error, bool may_keep_alive, link::Instant now) {
  const bool has_head = !request_.method.empty();
  const bool request_ended = request_done_ || request_.framing == Framing::kNone;
  const bool keep_alive = has_head && may_keep_alive && request_ended && request_.keep_alive &&
                          !draining_ && (!visitor_finished_ || !held_.empty());
  PageStyle style;
  style.html = has_head && wants_html(request_);
  style.without_body = has_head && request_.method == "HEAD";
  style.connection = !keep_alive ? "close" : request_.minor == 0 ? "keep-alive" : "";
  write_visitor(render_error(error, style));
  actions_.emplace_back(ExchangeDone{http_error_info(error).status, error});
  if (!keep_alive) return close();
  if (!request_done_) {
    // The reader still owes the end of a request without a body.
    link::Bytes none;
    static_cast<void>(requests_.next(none));
  }
  next_exchange(now);
}

void ExchangeEdge::next_exchange(link::Instant now) {
  response_.reset();
  request_ = {};
  request_done_ = false;
  requests_.restart();
  state_ = State::kIdle;
  deadline_ = now + (draining_ ? config_.draining_idle_timeout : config_.idle_timeout);
  run(now);
}

// The visitor sends no more and everything it sent was read: what does that end?
void ExchangeEdge::check_visitor_end(link::Instant now) {
  if (!visitor_finished_ || !held_.empty()) return;
  if (state_ == State::kIdle || state_ == State::kHead) return close();
  if (state_ == State::kExchange && !request_done_) visitor_broken(now);
}

void ExchangeEdge::set_draining(link::Instant now) {
  if (draining_) return;
  draining_ = true;
  if (state_ == State::kIdle) {
    deadline_ = std::min(*deadline_, now + link::Duration(config_.draining_idle_timeout));
  }
}

void ExchangeEdge::on_timer(link::Instant now) {
  if (!deadline_ || now < *deadline_) return;
  deadline_.reset();
  if (state_ == State::kIdle) return close();
  if (state_ == State::kHead) answer(HttpError::kRequestTimeout, false, now);
}

void ExchangeEdge::close() {
  state_ = State::kClosed;
  deadline_.reset();
  held_ = {};
  actions_.emplace_back(CloseVisitor{});
}

void ExchangeEdge::abort() {
  state_ = State::kClosed;
  deadline_.reset();
  held_ = {};
  actions_.emplace_back(AbortVisitor{});
}

void ExchangeEdge::write_visitor(std::string_view text) {
  actions_.emplace_back(WriteVisitor{link::Slice::copy_of(text)});
}

void ExchangeEdge::flush(bool to_visitor) {
  for (link::Slice& slice : slices_) {
    if (to_visitor) {
      actions_.emplace_back(WriteVisitor{std::move(slice)});
    } else {
      actions_.emplace_back(WriteVisit{std::move(slice)});
    }
  }
  slices_.clear();
}

std::optional<EdgeAction> ExchangeEdge::poll() {
  if (actions_.empty()) return std::nullopt;
  std::optional<EdgeAction> action(std::move(actions_.front()));
  actions_.pop_front();
  return action;
}

}  // namespace fairlead::dataplane
