#include "http/exchange_agent.h"

#include <cassert>

#include "http/rewrite.h"
#include "visit/outcome.h"

namespace fairlead::dataplane {

using namespace agent_action;

bool ExchangeAgent::wants_visit_bytes() const {
  return state_ == State::kDone || held_.empty();
}

void ExchangeAgent::feed_visit(link::Slice bytes) {
  if (state_ == State::kDone) return;
  assert(held_.empty());
  held_ = std::move(bytes);
  run();
}

// Reads what is held until it is used up or has to wait for the upstream.
void ExchangeAgent::run() {
  while (state_ == State::kHead || state_ == State::kOpen) {
    link::Bytes input = held_.bytes();
    auto event = requests_.next(input);
    if (!event) {
      if (input.empty()) {
        held_ = {};
      } else {
        // One visit carries one exchange.
        actions_.emplace_back(AbortUpstream{});
        reset_visit(link::code::kProtocol, "bytes behind the request");
      }
      return;
    }
    const link::Slice fed = held_;
    held_ = input.empty() ? link::Slice() : slice_of(fed, input);
    on_request_event(std::move(*event), fed);
  }
}

void ExchangeAgent::on_request_event(RequestReader::Event event, const link::Slice& fed) {
  std::visit(Overloaded{
                 [&](RequestHead& head) {
                   request_ = std::move(head);
                   if (request_.method == "CONNECT") {
                     return reset_visit(link::code::kProtocol, "CONNECT in a visit");
                   }
                   state_ = State::kDialling;
                   actions_.emplace_back(Dial{});
                 },
                 [&](read::Body& body) {
                   to_upstream_.body(slice_of(fed, body.bytes), slices_);
                   flush_upstream();
                 },
                 [&](read::Trailers& trailers) { request_trailers_ = std::move(trailers.fields); },
                 [&](read::End&) {
                   request_done_ = true;
                   to_upstream_.end(request_trailers_, slices_);
                   flush_upstream();
                 },
                 [&](read::Error& error) {
                   if (state_ == State::kOpen) actions_.emplace_back(AbortUpstream{});
                   reset_visit(link::code::kProtocol, error.text);
                 },
             },
             event);
}

void ExchangeAgent::visit_finished() {
  visit_finished_ = true;
  check_visit_end();
}

// No more will come and everything that did was read: was it a request?
void ExchangeAgent::check_visit_end() {
  const bool reading = state_ == State::kHead || state_ == State::kOpen;
  if (!visit_finished_ || !reading || !held_.empty() || request_done_) return;
  if (state_ == State::kOpen) actions_.emplace_back(AbortUpstream{});
  reset_visit(link::code::kProtocol, "the request ended before it was complete");
}

void ExchangeAgent::visit_broken() {
  if (state_ == State::kDone) return;
  if (state_ != State::kHead) actions_.emplace_back(AbortUpstream{});
  fault_ = "the visit broke";
  state_ = State::kDone;
  held_ = {};
}

void ExchangeAgent::upstream_connected() {
  if (state_ != State::kDialling) return;
  state_ = State::kOpen;
  response_.emplace(request_.method);
  to_upstream_ = BodyWriter(request_.framing);
  actions_.emplace_back(WriteUpstream{link::Slice::copy_of(upstream_request_head(request_))});
  run();
  check_visit_end();
}

void ExchangeAgent::upstream_failed() {
  if (state_ != State::kDialling) return;
  fault_ = "could not connect";
  answer(HttpError::kUpstreamRefused);
}

void ExchangeAgent::feed_upstream(link::Slice bytes) {
  link::Bytes input = bytes.bytes();
  // What an upstream sends behind its response is dropped: nothing else was asked of it.
  while (state_ == State::kOpen) {
    auto event = response_->next(input);
    if (!event) return;
    on_response_event(std::move(*event), bytes);
  }
}

void ExchangeAgent::on_response_event(ResponseReader::Event event, const link::Slice& fed) {
  std::visit(Overloaded{
                 [&](ResponseHead& head) {
                   if (!head.informational()) {
                     head_sent_ = true;
                     status_ = head.status;
                     to_visit_ = BodyWriter(head.framing == Framing::kUntilClose ? Framing::kChunked
                                                                                 : head.framing);
                   }
                   slices_.push_back(link::Slice::copy_of(visit_response_head(head)));
                   flush_visit();
                 },
                 [&](read::Body& body) {
                   to_visit_.body(slice_of(fed, body.bytes), slices_);
                   flush_visit();
                 },
                 [&](read::Trailers& trailers) { response_trailers_ = std::move(trailers.fields); },
                 [&](read::End&) {
                   to_visit_.end(response_trailers_, slices_);
                   flush_visit();
                   actions_.emplace_back(FinishVisit{});
                   actions_.emplace_back(CloseUpstream{});
                   state_ = State::kDone;
                   held_ = {};
                 },
                 [&](read::Error& error) { lose_upstream(error.text); },
             },
             event);
}

void ExchangeAgent::upstream_finished() {
  if (state_ != State::kOpen) return;
  auto event = response_->finish(true);
  assert(event);
  on_response_event(std::move(*event), {});
}

void ExchangeAgent::upstream_broken() {
  if (state_ == State::kDialling) return upstream_failed();
  if (state_ == State::kOpen) lose_upstream("the upstream reset its connection");
}

void ExchangeAgent::upstream_write_failed() {
  drop_request_ = true;
}

// The response can never be complete.
void ExchangeAgent::lose_upstream(std::string_view fault) {
  fault_ = fault;
  actions_.emplace_back(AbortUpstream{});
  if (head_sent_) return reset_visit(visit_code::kUpstreamReset, fault);
  answer(HttpError::kUpstreamBroke);
}

void ExchangeAgent::answer(HttpError error) {
  PageStyle style;
  const auto accept = request_.fields.find("Accept");
  style.html = accept && accept->find("text/html") != std::string_view::npos;
  style.without_body = request_.method == "HEAD";
  status_ = http_error_info(error).status;
  actions_.emplace_back(WriteVisit{link::Slice::copy_of(render_error(error, style))});
  actions_.emplace_back(FinishVisit{});
  state_ = State::kDone;
  held_ = {};
}

void ExchangeAgent::reset_visit(link::Code code, std::string_view fault) {
  fault_ = fault;
  actions_.emplace_back(ResetVisit{code});
  state_ = State::kDone;
  held_ = {};
}

void ExchangeAgent::flush_upstream() {
  for (link::Slice& slice : slices_) {
    if (!drop_request_) actions_.emplace_back(WriteUpstream{std::move(slice)});
  }
  slices_.clear();
}

void ExchangeAgent::flush_visit() {
  for (link::Slice& slice : slices_) actions_.emplace_back(WriteVisit{std::move(slice)});
  slices_.clear();
}

std::optional<AgentAction> ExchangeAgent::poll() {
  if (actions_.empty()) return std::nullopt;
  std::optional<AgentAction> action;
  action.swap(actions_.front());
  actions_.pop_front();
  return action;
}

}  // namespace fairlead::dataplane
