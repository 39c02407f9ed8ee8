// The edge's side of HTTP/1.1: one machine per visitor connection, without I/O.
//
// Turns a visitor's bytes into exchanges, one at a time: a request to be routed, its canonical
// bytes for a visit, and the visit's canonical response for the visitor. After every call that
// takes `now` the owner carries out the actions of poll() until there are none:
//
//   RouteRequest   answer with route_found() (the visit is open or being opened) or route_failed()
//   WriteVisit     bytes for the visit, in order
//   FinishVisit    the request is complete: FIN of the visit's half
//   ResetVisit     end the visit; `complete` says that the exchange is none the less finished
//   WriteVisitor   bytes for the visitor, in order
//   ExchangeDone   the visitor has a whole response; the visit, if there was one, is no longer fed
//   to
//                  this machine, which may ask for the next one at once
//   CloseVisitor   the last action: FIN after all that was written. Read and drop what the visitor
//                  still sends until it ends or a few seconds passed, since closing a socket with
//                  unread bytes in it resets the connection and takes the answer with it
//   AbortVisitor   the last action: RST. A cut must not look like an end
//
// Back-pressure. feed_visitor() only while wants_visitor_bytes() and nothing that an earlier feed
// gave the visit waits for its credit; feed_visit() only while the visitor's socket has room. This
// machine then holds at most a head (kMaxHead) and what was fed last.
//
// Full duplex: a response may begin, and end, before its request has. One that begins before its
// request ended says `Connection: close`, since whether the rest still comes is not known; when the
// response ends the connection is closed after it, and a request that is still not complete then
// never gets a FIN: its visit is reset, as `complete`.
//
// Errors of the visitor get a page and a close; losses of the visit a page when no response head
// was sent, else AbortVisitor. Upgrades and CONNECT are answered 501 and close, since what follows
// them may not be HTTP; an Upgrade to h2c alone is ignored, as RFC 9110 allows.
//
// Not thread-safe. No call blocks or calls back.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fairlead/link/types.h"
#include "http/body_writer.h"
#include "http/error_page.h"
#include "http/message_reader.h"
#include "http/rewrite.h"
#include "visit/outcome.h"

namespace fairlead::dataplane {

namespace edge_action {
struct RouteRequest {
  std::string host;    // as parse_host() folds it
  std::string method;  // as sent; for logs
  std::string target;
};
struct WriteVisit {
  link::Slice bytes;
};
struct FinishVisit {};
struct ResetVisit {
  link::Code code;
  bool complete;  // the visitor has the whole response: not a loss
};
struct WriteVisitor {
  link::Slice bytes;
};
struct ExchangeDone {
  int status;                      // of the response
  std::optional<HttpError> error;  // when the response was a page of this relay
};
struct CloseVisitor {};
struct AbortVisitor {};
}  // namespace edge_action

using EdgeAction =
    std::variant<edge_action::RouteRequest, edge_action::WriteVisit, edge_action::FinishVisit,
                 edge_action::ResetVisit, edge_action::WriteVisitor, edge_action::ExchangeDone,
                 edge_action::CloseVisitor, edge_action::AbortVisitor>;

class ExchangeEdge {
 public:
  struct Config {
    VisitorSource source;
    // From the first byte of a head to its last, and from the connection to the first byte.
    std::chrono::milliseconds head_timeout = std::chrono::seconds(30);
    // Between exchanges.
    std::chrono::milliseconds idle_timeout = std::chrono::seconds(75);
    // The same once the replica drains.
    std::chrono::milliseconds draining_idle_timeout = std::chrono::seconds(60);
  };

  ExchangeEdge(const Config& config, link::Instant now);

  // --- visitor ---

  // False while earlier bytes wait for a route or for an exchange to end, and after the last
  // action.
  bool wants_visitor_bytes() const;
  // Ignored after the last action. Otherwise only when wanted.
  void feed_visitor(link::Slice bytes, link::Instant now);
  // FIN: a request that is complete is still answered, one that is not resets its visit.
  void visitor_finished(link::Instant now);
  // The connection was reset or failed.
  void visitor_broken(link::Instant now);

  // --- route: the answer to RouteRequest, which may come at any time ---

  void route_found(link::Instant now);
  void route_failed(HttpError error, link::Instant now);

  // --- visit of the exchange that runs; ignored when none does ---

  void feed_visit(link::Slice bytes, link::Instant now);
  // FIN of the visit's response half.
  void visit_finished(link::Instant now);
  // The visit was lost or refused.
  void visit_broken(Outcome outcome, link::Instant now);

  // --- life ---

  // The next response says `Connection: close`. One way.
  void set_draining(link::Instant now);
  // Between exchanges with no byte of a request: what a drain need not wait for.
  bool idle() const { return state_ == State::kIdle; }
  std::optional<link::Instant> next_deadline() const { return deadline_; }
  void on_timer(link::Instant now);

  std::optional<EdgeAction> poll();

 private:
  enum class State : std::uint8_t {
    kIdle,      // no byte of a request has come
    kHead,      // a part of a head has
    kRouting,   // RouteRequest is out
    kExchange,  // a visit is in use
    kClosed,    // the last action was given
  };

  void run(link::Instant now);
  void on_request_event(RequestReader::Event event, link::Bytes rest, link::Instant now);
  void on_request_head(RequestHead head, link::Instant now);
  void on_response_event(ResponseReader::Event event, const link::Slice& fed, link::Bytes rest,
                         link::Instant now);
  void on_response_head(const ResponseHead& head);
  void on_response_end(link::Instant now);
  void check_visitor_end(link::Instant now);

  void answer(HttpError error, bool may_keep_alive, link::Instant now);
  void lose_visit(HttpError error, link::Instant now);
  void next_exchange(link::Instant now);
  void enter_idle(link::Instant now);
  void close();
  void abort();
  void write_visitor(std::string_view text);
  void flush(bool to_visitor);

  const Config config_;
  State state_ = State::kIdle;
  std::optional<link::Instant> deadline_;
  bool draining_ = false;
  bool visitor_finished_ = false;

  RequestReader requests_;
  link::Slice held_;  // fed and not yet read

  // Of the exchange that runs.
  RequestHead request_;
  bool request_done_ = false;
  Fields request_trailers_;
  BodyWriter to_visit_;
  std::optional<ResponseReader> response_;
  bool head_sent_ = false;  // a final head, to the visitor
  bool keep_alive_ = false;
  int status_ = 0;
  Fields response_trailers_;
  BodyWriter to_visitor_;

  std::vector<link::Slice> slices_;  // scratch of the body writers
  std::deque<EdgeAction> actions_;
};

}  // namespace fairlead::dataplane
