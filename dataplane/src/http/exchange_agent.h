// The agent's side of HTTP/1.1: one machine per visit, without I/O.
//
// Reads the canonical request from the visit, sends it on a fresh upstream connection of its own
// (`Connection: close`), and writes the canonical response to the visit. After every call the owner
// carries out the actions of poll() until there are none:
//
//   Dial           connect to the upstream, then call upstream_connected() or upstream_failed()
//   WriteUpstream  bytes for the upstream, in order; its sending half is never shut down, since the
//                  request states its own end and some servers take a FIN for a cancellation
//   WriteVisit     bytes for the visit, in order
//   FinishVisit    the response is complete: FIN of the visit's half. The only way to get one
//   ResetVisit     the response cannot be completed: end the visit with `code`
//   CloseUpstream  close the connection in the ordinary way
//   AbortUpstream  reset it, or give up dialling
//
// FinishVisit or ResetVisit comes exactly once unless the visit itself broke; the machine is done()
// then. What the visit still delivers is dropped: consume it, so that the visit can end.
//
// Back-pressure. feed_visit() only while wants_visit_bytes() and the upstream's socket has room;
// feed_upstream() only while the visit has room. Held are at most a head and what was fed last.
//
// A response may come before the request has ended. When writing to the upstream fails, call
// upstream_write_failed() and go on reading: a server that refuses a body answers and closes, and
// that answer is worth more than the failure.
//
// Not thread-safe. No call blocks or calls back.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fairlead/link/types.h"
#include "http/body_writer.h"
#include "http/error_page.h"
#include "http/message_reader.h"

namespace fairlead::dataplane {

namespace agent_action {
struct Dial {};
struct WriteUpstream {
  link::Slice bytes;
};
struct WriteVisit {
  link::Slice bytes;
};
struct FinishVisit {};
struct ResetVisit {
  link::Code code;
};
struct CloseUpstream {};
struct AbortUpstream {};
}  // namespace agent_action

using AgentAction =
    std::variant<agent_action::WriteUpstream, agent_action::WriteVisit, agent_action::Dial,
                 agent_action::FinishVisit, agent_action::ResetVisit, agent_action::CloseUpstream,
                 agent_action::AbortUpstream>;

class ExchangeAgent {
 public:
  // --- visit ---

  // False while earlier bytes wait for the upstream to be connected. True when done(), though
  // nothing is read any more.
  bool wants_visit_bytes() const;
  void feed_visit(link::Slice bytes);
  // FIN of the request half. Before the request is complete it breaks the rules.
  void visit_finished();
  // The visit was lost or reset: the upstream sees RST.
  void visit_broken();

  // --- upstream, after Dial; ignored when done() ---

  void upstream_connected();
  // Refused, unreachable or too late: the visit gets a complete 502 with FL-1003.
  void upstream_failed();
  void feed_upstream(link::Slice bytes);
  // FIN: the end of a body that goes until the close, else a cut.
  void upstream_finished();
  // Reset or failed. Before a response head: a complete 502 with FL-1009; after it the visit is
  // reset with visit_code::kUpstreamReset.
  void upstream_broken();
  void upstream_write_failed();

  bool done() const { return state_ == State::kDone; }
  // For logs: why the upstream's response was not passed on whole; empty when it was.
  std::string_view fault() const { return fault_; }
  std::string_view method() const { return request_.method; }
  std::string_view target() const { return request_.target; }
  int status() const { return status_; }  // 0 before a final head

  std::optional<AgentAction> poll();

 private:
  enum class State : std::uint8_t {
    kHead,  // the request's head is not complete
    kDialling,
    kOpen,
    kDone,
  };

  void run();
  void check_visit_end();
  void on_request_event(RequestReader::Event event, const link::Slice& fed);
  void on_response_event(ResponseReader::Event event, const link::Slice& fed);
  void lose_upstream(std::string_view fault);
  void answer(HttpError error);
  void reset_visit(link::Code code, std::string_view fault);
  void flush_upstream();
  void flush_visit();

  State state_ = State::kHead;
  RequestReader requests_;
  link::Slice held_;  // fed by the visit and not yet read
  RequestHead request_;
  bool request_done_ = false;
  bool visit_finished_ = false;  // FIN came; judged when what is held was read
  bool drop_request_ = false;    // the upstream takes no more of it
  Fields request_trailers_;
  BodyWriter to_upstream_;

  std::optional<ResponseReader> response_;
  bool head_sent_ = false;  // a final head, to the visit
  int status_ = 0;
  Fields response_trailers_;
  BodyWriter to_visit_;

  std::string_view fault_;
  std::vector<link::Slice> slices_;                 // scratch of the body writers
  std::deque<std::optional<AgentAction>> actions_;  // none is empty
};

}  // namespace fairlead::dataplane
