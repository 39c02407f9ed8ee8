#include "visit/visit_end.h"

#include <cassert>
#include <cstdio>
#include <utility>

namespace fairlead::dataplane {
namespace {

constexpr bool allowed(VisitEnd::State from, VisitEnd::State to) {
  using State = VisitEnd::State;
  switch (from) {
    case State::kNoPath:
      return to == State::kOpening || to == State::kEnded;
    case State::kOpening:
      return to == State::kNoPath || to == State::kOpen || to == State::kEnded;
    case State::kOpen:
      return to == State::kFinishing || to == State::kEnded;
    case State::kFinishing:
      return to == State::kEnded;
    case State::kEnded:
      return false;
  }
  return false;
}

}  // namespace

std::string to_string(const VisitRecord& record) {
  std::string text =
      "visit " + record.id.hex() + ' ' + record.kind + ' ' + record.tenant + '/' + record.service;
  if (!record.visitor.empty()) text += " visitor " + record.visitor;
  if (record.outcome == Outcome::kFinished) {
    text += " finished";
  } else {
    text += " lost " + std::string(outcome_name(record.outcome)) + " (code " +
            std::to_string(record.code) + ' ' + link::code_name(record.code) + ')';
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f",
                std::chrono::duration<double>(record.duration).count());
  text += " out " + std::to_string(record.bytes_out) + " (peer has " +
          std::to_string(record.peer_received) + ") in " + std::to_string(record.bytes_in) +
          " (handed " + std::to_string(record.handed) + ", acknowledged " +
          std::to_string(record.received) + ") attempts " + std::to_string(record.attempts) +
          " in " + seconds + " s";
  return text;
}

VisitEnd::VisitEnd(VisitRole role, VisitOpen visit, ReplayLease lease, link::Instant now)
    : role_(role), visit_(std::move(visit)), started_(now), replay_(std::move(lease)) {}

// The one place where the state changes.
void VisitEnd::move_to(State next) {
  assert(allowed(state_, next));
  state_ = next;
}

// --- path ---

void VisitEnd::path_opened(SessionPort path, Outcome if_cut, link::Instant) {
  move_to(State::kOpening);
  path_ = path;
  if_cut_ = if_cut;
  ++attempts_;
  for (link::Slice& slice : replay_.from(0)) path_.write(std::move(slice));
  if (replay_.has_fin()) path_.finish();
  maybe_room();
}

void VisitEnd::path_event(const link::Event& event, link::Instant now) {
  if (state_ == State::kEnded || state_ == State::kNoPath) return;
  std::visit([&](const auto& each) { on(each, now); }, event);
}

void VisitEnd::on(const link::event::Accepted& event, link::Instant now) {
  if (state_ != State::kOpening || role_ != VisitRole::kVisitor) return;
  std::string error;
  const auto answer = parse_accept(event.meta.bytes(), error);
  if (!answer) return end(Outcome::kProtocol, link::code::kProtocol, now);
  move_to(State::kOpen);
  events_.push_back(local::Accepted{*answer});
  maybe_room();
}

void VisitEnd::on(const link::event::Data& event, link::Instant) {
  received_ += event.bytes.size();
  events_.push_back(local::Data{event.bytes});
}

void VisitEnd::on(const link::event::Finished&, link::Instant now) {
  fin_came_ = true;
  hand_fin(now);
}

void VisitEnd::on(const link::event::Reset& event, link::Instant now) {
  peer_ended(event.code, now);
}

void VisitEnd::on(const link::event::Stopped& event, link::Instant now) {
  peer_ended(event.code, now);
}

void VisitEnd::on(const link::event::Credit& event, link::Instant now) {
  if (!replay_.acknowledge(event.received)) {
    return end(Outcome::kProtocol, link::code::kProtocol, now);
  }
  maybe_finish(now);
  maybe_room();
}

void VisitEnd::on(const link::event::NotProcessed&, link::Instant now) {
  peer_ended(link::code::kRefused, now);
}

void VisitEnd::on(const link::event::SessionCut&, link::Instant now) {
  broken(if_cut_, now);
}

// A RESET or STOP of the other end: either one speaks for both halves of a visit.
void VisitEnd::peer_ended(link::Code code, link::Instant now) {
  if (is_not_passed_on(code) && role_ == VisitRole::kVisitor && state_ == State::kOpening) {
    return path_refused(code, now);
  }
  if (is_path_broken(code)) return broken(Outcome::kPathLost, now);
  if (code != link::code::kOk) return end(outcome_of(code), code, now);
  // The agent end says 0 only when it has our FIN and our acknowledgement of its own, whether or
  // not its CREDIT with the former came first.
  const bool due = role_ == VisitRole::kVisitor && fin_handed_ && replay_.has_fin();
  if (due) {
    end(Outcome::kFinished, link::code::kOk, now);
  } else {
    end(Outcome::kProtocol, link::code::kProtocol, now);
  }
}

void VisitEnd::path_refused(link::Code code, link::Instant now) {
  path_.release(now, link::code::kCancel);
  move_to(State::kNoPath);
  events_.push_back(local::PathRefused{code});
}

void VisitEnd::broken(Outcome outcome, link::Instant now) {
  if (state_ == State::kFinishing) outcome = Outcome::kFinished;
  end(outcome, link::code::kPathLost, now);
}

// --- local ---

void VisitEnd::local_opened(link::Instant now) {
  if (state_ == State::kEnded) return;
  assert(role_ == VisitRole::kAgent && state_ == State::kOpening);
  path_.accept(encode_accept(VisitAccept{.hold = visit_.hold}), 0, now);
  move_to(State::kOpen);
  maybe_room();
}

std::uint64_t VisitEnd::local_room() {
  if (replay_.has_fin()) return 0;
  std::uint64_t granted = 0;
  switch (state_) {
    case State::kNoPath:
      // What any first path takes at once.
      if (role_ == VisitRole::kVisitor && replay_.held() < link::kFloorWindow) {
        granted = link::kFloorWindow - replay_.held();
      }
      break;
    case State::kOpening:
      if (role_ == VisitRole::kVisitor) granted = path_.send_room();
      break;
    case State::kOpen:
      granted = path_.send_room();
      break;
    case State::kFinishing:
    case State::kEnded:
      return 0;
  }
  const std::uint64_t room = granted == 0 ? 0 : replay_.room(granted);
  room_wanted_ = room == 0;
  return room;
}

void VisitEnd::local_data(link::Slice bytes, link::Instant) {
  if (state_ == State::kEnded || bytes.empty()) return;
  if (path_) path_.write(bytes);
  replay_.append(std::move(bytes));
}

void VisitEnd::local_fin(link::Instant) {
  if (state_ == State::kEnded) return;
  room_wanted_ = false;
  replay_.append_fin();
  if (path_) path_.finish();
}

void VisitEnd::local_consumed(std::uint64_t n, link::Instant now) {
  if (state_ == State::kEnded) return;
  handed_ += n;
  assert(handed_ <= received_);
  path_.consume(n, now);
  hand_fin(now);
}

void VisitEnd::abort(link::Code code, link::Instant now, std::optional<Outcome> as) {
  if (state_ == State::kEnded) return;
  if (state_ == State::kFinishing) return broken(Outcome::kFinished, now);
  const bool by_local = code == visit_code::kVisitorReset || code == visit_code::kUpstreamReset;
  if (by_local && replay_.has_fin() && fin_handed_) return;
  end(as.value_or(outcome_of(code)), code, now);
}

std::optional<LocalEvent> VisitEnd::poll() {
  if (events_.empty()) return std::nullopt;
  LocalEvent next = std::move(events_.front());
  events_.pop_front();
  return next;
}

// --- both ---

// The other end's FIN reaches the local side once all before it did, and only then is acknowledged.
void VisitEnd::hand_fin(link::Instant now) {
  if (!fin_came_ || fin_handed_ || handed_ < received_) return;
  fin_handed_ = true;
  events_.push_back(local::Fin{});
  path_.acknowledge_fin(now);
  maybe_finish(now);
}

void VisitEnd::maybe_finish(link::Instant now) {
  if (state_ != State::kOpen || !both_acknowledged()) return;
  if (role_ == VisitRole::kAgent) {
    end(Outcome::kFinished, link::code::kOk, now);
  } else {
    move_to(State::kFinishing);
  }
}

void VisitEnd::maybe_room() {
  if (!room_wanted_ || local_room() == 0) return;
  room_wanted_ = false;
  events_.push_back(local::Room{});
}

void VisitEnd::end(Outcome outcome, link::Code code, link::Instant now) {
  path_.release(now, code);
  VisitRecord record{.id = visit_.id,
                     .role = role_,
                     .kind = visit_.kind,
                     .tenant = visit_.tenant,
                     .service = visit_.service,
                     .visitor = visit_.visitor,
                     .outcome = outcome,
                     .code = code,
                     .bytes_out = replay_.bytes(),
                     .bytes_in = received_,
                     .handed = handed_,
                     .received = received(),
                     .peer_received = replay_.acknowledged(),
                     .attempts = attempts_,
                     .duration = now - started_};
  replay_.clear();
  move_to(State::kEnded);
  events_.push_back(local::Ended{std::move(record)});
}

}  // namespace fairlead::dataplane
