#include "ledger.h"

#include <algorithm>

namespace fairlead::link::sim {
namespace {

std::string describe(const wire::Header& header, const wire::Frame& frame) {
  static constexpr const char* kNames[] = {"?",      "HELLO",  "OPEN", "ACCEPT", "DATA",
                                           "CREDIT", "RESET",  "STOP", "PING",   "PONG",
                                           "OPENS",  "GOAWAY", "CLOSE"};
  std::string text = kNames[header.type < std::size(kNames) ? header.type : 0];
  text += " session=" + std::to_string(header.session) + " length=" + std::to_string(header.length);
  if (header.flags != 0) text += " flags=" + std::to_string(header.flags);
  if (const auto* open = std::get_if<wire::Open>(&frame)) {
    text += " limit=" + std::to_string(open->limit);
  } else if (const auto* accept = std::get_if<wire::Accept>(&frame)) {
    text += " limit=" + std::to_string(accept->limit);
  } else if (const auto* credit = std::get_if<wire::Credit>(&frame)) {
    text += " limit=" + std::to_string(credit->limit);
    text += " received=" + std::to_string(credit->received);
  } else if (const auto* reset = std::get_if<wire::Reset>(&frame)) {
    text += " code=" + std::to_string(reset->code) + " final=" + std::to_string(reset->final);
  } else if (const auto* stop = std::get_if<wire::Stop>(&frame)) {
    text += " code=" + std::to_string(stop->code);
  } else if (const auto* goaway = std::get_if<wire::Goaway>(&frame)) {
    text += " phase=" + std::to_string(goaway->phase);
    text += " last_id=" + std::to_string(goaway->last_id);
  }
  return text;
}

}  // namespace

Record& Ledger::open(SessionId id, End opener, bool visit) {
  const auto [at, fresh] = records_.try_emplace(id);
  if (!fresh) broken("session id " + std::to_string(id) + " was used twice");
  at->second.opener = opener;
  at->second.visit = visit;
  // The opener may send this much before anything was granted.
  at->second.half[opener].told = at->second.half[opener].granted = kFloorWindow;
  return at->second;
}

Record& Ledger::record(SessionId id) {
  const auto found = records_.find(id);
  if (found == records_.end()) broken("session " + std::to_string(id) + " was never opened");
  return found->second;
}

void Ledger::left(End from, Bytes bytes, std::string* trace) {
  while (!bytes.empty()) {
    if (bytes.size() < wire::kHeaderSize) broken("produce() wrote part of a header");
    const wire::Header header = wire::decode_header(bytes.first(wire::kHeaderSize));
    const std::size_t whole = wire::kHeaderSize + header.length;
    if (bytes.size() < whole) broken("produce() wrote part of a frame");
    std::string error;
    const auto frame = wire::decode(header, bytes.subspan(wire::kHeaderSize, header.length), error);
    if (!frame) broken("produce() wrote a bad frame: " + error);
    if (trace != nullptr) {
      *trace += "    " + std::string(end_name(from)) + " sends " + describe(header, *frame) + "\n";
    }
    stream_[from] += whole;
    frame_left(from, header, *frame);
    bytes = bytes.subspan(whole);
  }
}

void Ledger::frame_left(End from, const wire::Header& header, const wire::Frame& frame) {
  ++frames_;
  Mark mark{stream_[from], header.session, 0, 0};
  if (const auto* open = std::get_if<wire::Open>(&frame)) mark.limit = open->limit;
  if (const auto* accept = std::get_if<wire::Accept>(&frame)) mark.limit = accept->limit;
  if (const auto* credit = std::get_if<wire::Credit>(&frame)) mark.limit = credit->limit;
  if (mark.limit > 0) {
    Half& half = record(header.session).half[other(from)];
    half.told = std::max(half.told, mark.limit);
  }
  if (const auto* data = std::get_if<wire::Data>(&frame)) {
    Half& half = record(header.session).half[from];
    mark.size = data->bytes.size();
    mark.last = data->fin;
    half.sent += mark.size;
    if (half.sent > half.granted) {
      broken("credit exceeded: session " + std::to_string(header.session) + " sent " +
             std::to_string(half.sent) + " of " + std::to_string(half.granted));
    }
  }
  mark.last = mark.last || std::holds_alternative<wire::Reset>(frame);
  if (mark.limit > 0 || mark.size > 0 || mark.last) marks_[from].push_back(mark);
}

void Ledger::arrived(End from, std::uint64_t taken) {
  auto& marks = marks_[from];
  while (!marks.empty() && marks.front().end <= taken) {
    const Mark mark = marks.front();
    marks.pop_front();
    Record& session = record(mark.id);
    Half& granting = session.half[other(from)];
    granting.granted = std::max(granting.granted, mark.limit);
    session.half[from].arrived += mark.size;
    session.half[from].ended = session.half[from].ended || mark.last;
  }
}

void Ledger::check_grants(End reader) const {
  const Config& config = configs_[reader];
  const std::uint64_t window_max = std::max<std::uint64_t>(config.window_max, kFloorWindow);
  std::uint64_t sum = 0, above_floor = 0;
  for (const auto& [id, session] : records_) {
    const Half& half = session.half[other(reader)];
    const bool over = half.ended || half.over();
    const std::uint64_t may_come =
        over || session.not_processed ? 0 : half.told - std::min(half.told, half.arrived);
    const std::uint64_t held = session.released[reader] ? 0 : half.got - half.consumed;
    const std::uint64_t charge = may_come + held;
    if (charge > window_max) {
      broken("the window of session " + std::to_string(id) + " is " + std::to_string(charge) +
             " bytes, allowed is " + std::to_string(window_max));
    }
    sum += charge;
    above_floor += charge > kFloorWindow ? charge - kFloorWindow : 0;
  }
  if (sum > config.budget) {
    broken("granted " + std::to_string(sum) + " of a budget of " + std::to_string(config.budget));
  }
  if (config.pool != nullptr && above_floor > config.pool->capacity()) {
    broken("granted " + std::to_string(above_floor) + " above the floors, the pool holds " +
           std::to_string(config.pool->capacity()));
  }
}

}  // namespace fairlead::link::sim
