#include "host.h"

#include <algorithm>

namespace fairlead::link::sim {
namespace {

constexpr Code kCodes[] = {code::kOk, code::kCancel, code::kSuperseded, code::kPathLost, 300};
constexpr std::uint64_t kNoCap = std::uint64_t{1} << 62;

Slice content(SessionId id, End sender, std::uint64_t offset, std::uint64_t size) {
  std::vector<std::byte> bytes(size);
  for (std::uint64_t i = 0; i < size; ++i) bytes[i] = expected_byte(id, sender, offset + i);
  return Slice::copy_of(bytes);
}

}  // namespace

Counts& Counts::operator+=(const Counts& more) {
  opened += more.opened;
  accepted += more.accepted;
  finished += more.finished;
  reset += more.reset;
  stopped += more.stopped;
  retired += more.retired;
  not_processed += more.not_processed;
  cut += more.cut;
  draining += more.draining;
  relayed += more.relayed;
  bytes += more.bytes;
  dead += more.dead;
  transport += more.transport;
  closed_by_peer += more.closed_by_peer;
  stuck += more.stuck;
  isolated += more.isolated;
  return *this;
}

Host::Host(End end, const HostTraits& traits, Ledger& ledger, Random& random, Instant now)
    : end_(end),
      traits_(traits),
      ledger_(ledger),
      random_(random),
      core_(traits.config, now),
      now_(now) {}

void Host::note(const std::string& what) {
  if (trace != nullptr) *trace += "  " + std::string(end_name(end_)) + " " + what + "\n";
}

// The view an event is about, which must be one that may still have events.
Host::View& Host::view(SessionId id, const char* event) {
  const auto found = views_.find(id);
  const std::string where =
      std::string(event) + " of session " + std::to_string(id) + " at the " + end_name(end_);
  note("gets " + where);
  if (found == views_.end()) broken(where + ": it was never opened");
  if (found->second.released) broken(where + " after release()");
  if (found->second.ended) broken(where + " after its end");
  if (closed_) broken(where + " after Closed");
  return found->second;
}

bool Host::can_send(SessionId id, const View& view) const {
  const Half& half = ledger_.records().at(id).half[end_];
  return !view.ended && !view.released && !view.stopped && !half.reset && !half.finished;
}

void Host::take_events(Instant now, Instant heard_at) {
  now_ = now;
  heard_at_ = heard_at;
  while (const auto event = core_.poll_event()) {
    std::visit([this](const auto& each) { on(each); }, *event);
  }
}

// --- events ---

void Host::on(const event::Up&) {
  note("gets Up");
  if (up_ || closed_) broken("Up twice or after Closed");
  up_ = true;
}

void Host::on(const event::Opened& opened) {
  if (closed_) broken("Opened after Closed");
  Record& record = ledger_.record(opened.id);
  if (record.opener == end_) broken("our own session came back as Opened");
  if (record.opened_at_peer) broken("Opened twice");
  if (record.not_processed) broken("Opened, but the opener was told NotProcessed");
  record.opened_at_peer = true;
  View fresh;
  fresh.visit = opened.visit;
  fresh.plan = random_.skewed(traits_.largest);
  views_.emplace(opened.id, fresh);
  view(opened.id, "Opened");
}

void Host::on(const event::Accepted& accepted) {
  View& session = view(accepted.id, "Accepted");
  if (session.accepted || !session.ours) broken("Accepted twice, or for a session of the peer");
  if (theirs(accepted.id).got > 0) broken("Accepted after Data");
  session.accepted = true;
  ++counts_.accepted;
}

void Host::on(const event::Data& data) {
  View& session = view(data.id, "Data");
  Half& half = theirs(data.id);
  if (!session.accepted && session.ours) broken("Data before Accepted");
  if (half.over()) broken("Data after the end of the half");
  if (half.stop) broken("Data after stop()");
  if (data.bytes.empty()) broken("empty Data");
  if (half.got + data.bytes.size() > half.written) broken("more Data than was written");
  for (const std::byte each : data.bytes.bytes()) {
    if (each != expected_byte(data.id, other(end_), half.got)) {
      broken("wrong byte at offset " + std::to_string(half.got) + " of session " +
             std::to_string(data.id));
    }
    ++half.got;
  }
  counts_.bytes += data.bytes.size();
}

void Host::on(const event::Finished& finished) {
  view(finished.id, "Finished");
  Half& half = theirs(finished.id);
  if (half.over()) broken("Finished after the end of the half");
  if (!half.finished) broken("Finished, but the writer did not finish");
  if (half.got != half.written) {
    broken("Finished after " + std::to_string(half.got) + " of " + std::to_string(half.written) +
           " bytes of session " + std::to_string(finished.id));
  }
  half.eof = true;
  ++counts_.finished;
}

void Host::on(const event::Reset& reset) {
  View& session = view(reset.id, "Reset");
  Half& half = theirs(reset.id);
  if (half.aborted) broken("Reset twice");
  if (half.eof && !session.visit) broken("Reset after Finished of a plain session");
  if (reset.after_fin ? !half.finished : half.eof) broken("Reset with a wrong after_fin");
  const bool known =
      (half.reset && *half.reset == reset.code) || (half.stop && *half.stop == reset.code);
  if (!known) broken("Reset with code " + std::to_string(reset.code) + ", which nobody gave");
  half.aborted = true;
  session.reset_told = true;
  ++counts_.reset;
}

void Host::on(const event::Stopped& stopped) {
  View& session = view(stopped.id, "Stopped");
  const Half& half = mine(stopped.id);
  if (session.stopped) broken("Stopped twice");
  if (!half.stop || *half.stop != stopped.code) broken("Stopped, but the reader did not stop");
  session.stopped = true;
  ++counts_.stopped;
}

void Host::on(const event::Credit& credit) {
  View& session = view(credit.id, "Credit");
  const Half& half = mine(credit.id);
  if (credit.limit < session.limit || credit.received < session.received) {
    broken("Credit went back");
  }
  if (credit.limit > half.granted) broken("Credit with a limit that was not granted");
  if (credit.received > half.sent + (half.finished ? 1 : 0)) broken("received more than was sent");
  session.limit = credit.limit;
  session.received = credit.received;
}

void Host::on(const event::Sent& sent) {
  View& session = view(sent.id, "Sent");
  if (!session.relayed) broken("Sent for a session that is not relayed");
  if (sent.offset <= session.sent) broken("Sent without progress");
  session.sent = sent.offset;
  ++counts_.relayed;
}

void Host::on(const event::NotProcessed& not_processed) {
  View& session = view(not_processed.id, "NotProcessed");
  Record& record = ledger_.record(not_processed.id);
  if (record.opened_at_peer) broken("NotProcessed, but the peer was told Opened");
  if (draining_phase_ != 1) broken("NotProcessed before LinkDraining");
  record.not_processed = true;
  session.ended = true;
  ++counts_.not_processed;
}

void Host::on(const event::SessionDraining& draining) {
  View& session = view(draining.id, "SessionDraining");
  if (session.draining) broken("SessionDraining twice");
  session.draining = true;
  ++counts_.draining;
}

void Host::on(const event::Retired& retired) {
  View& session = view(retired.id, "Retired");
  const Half& sent = mine(retired.id);
  const Half& read = theirs(retired.id);
  if (!sent.finished && !sent.reset && !session.stopped) broken("Retired while we may write");
  if (!read.over() && !read.stop) broken("Retired while we may read");
  if (session.visit && read.eof && !read.aborted) broken("a visit Retired on FIN");
  session.ended = true;
  ++counts_.retired;
}

void Host::on(const event::SessionCut& cut) {
  view(cut.id, "SessionCut").ended = true;
  ++counts_.cut;
}

void Host::on(const event::LinkDraining& draining) {
  note("gets LinkDraining");
  if (closed_) broken("LinkDraining after Closed");
  if (draining.phase <= draining_phase_) broken("LinkDraining went back");
  draining_phase_ = draining.phase;
}

void Host::on(const event::Closed& closed) {
  note("gets Closed: " + to_string(closed.cut));
  if (closed_) broken("Closed twice");
  for (const auto& [id, session] : views_) {
    if (!session.ended && !session.released) broken("Closed before SessionCut of every session");
  }
  closed_ = closed.cut;
}

// --- calls ---

void Host::open(Instant now) {
  OpenRequest request;
  request.priority = static_cast<Priority>(random_.below(4));
  request.weight = static_cast<std::uint8_t>(random_.between(1, 255));
  request.visit = random_.chance(40);
  const bool relayed = random_.chance(25);
  if (relayed) request.credit_cap = random_.below(64 * 1024);
  const OpenResult result = core_.open(request, now);
  if (result.error != OpenError::kNone) {
    const bool excused = closed_ || draining_phase_ == 1;
    if (!excused) broken("open() failed: " + std::string(open_error_name(result.error)));
    return;
  }
  note("opens session " + std::to_string(result.id) + (request.visit ? " (visit)" : ""));
  ledger_.open(result.id, end_, request.visit).half[other(end_)].relayed = relayed;
  View fresh;
  fresh.ours = true;
  fresh.visit = request.visit;
  fresh.relayed = relayed;
  fresh.cap = request.credit_cap.value_or(0);
  fresh.plan = random_.skewed(traits_.largest);
  views_.emplace(result.id, fresh);
  ++opened_;
  ++counts_.opened;
}

void Host::accept(SessionId id, View& session, Instant now) {
  std::optional<std::uint64_t> cap;
  if (random_.chance(25)) cap = random_.below(64 * 1024);
  const bool done = core_.accept(id, Slice::copy_of("word"), 0, now, cap);
  const bool expected = !session.ours && !session.accepted && !session.ended && !session.released;
  if (done != expected) broken("accept() returned the wrong answer");
  if (!done) return;
  note("accepts session " + std::to_string(id));
  session.accepted = true;
  session.relayed = theirs(id).relayed = cap.has_value();
  session.cap = cap.value_or(0);
}

void Host::write(SessionId id, View& session, std::uint64_t most) {
  Half& half = mine(id);
  const std::uint64_t left = session.plan - std::min(session.plan, half.written);
  const std::uint64_t size = std::min(left, most);
  const bool expected = can_send(id, session);
  if (core_.write(id, content(id, end_, half.written, size)) != expected) {
    broken("write() returned the wrong answer");
  }
  if (!expected || size == 0) return;
  note("writes " + std::to_string(size) + " on session " + std::to_string(id));
  half.written += size;
}

void Host::finish(SessionId id, View& session) {
  const bool expected = can_send(id, session);
  if (core_.finish(id) != expected) broken("finish() returned the wrong answer");
  if (!expected) return;
  note("finishes session " + std::to_string(id));
  mine(id).finished = true;
}

void Host::reset(SessionId id, View& session, Code code) {
  const bool done = core_.reset(id, code);
  if (!done) {
    if (can_send(id, session)) broken("reset() refused");
    return;
  }
  note("resets session " + std::to_string(id));
  mine(id).reset = code;
}

void Host::stop(SessionId id, View& session, Code code) {
  Half& half = theirs(id);
  const bool done = core_.stop(id, code);
  if (!done) {
    if (!session.ended && !session.released && !half.over() && !half.stop) broken("stop() refused");
    return;
  }
  note("stops session " + std::to_string(id));
  half.stop = code;
}

void Host::consume(SessionId id, View& session, std::uint64_t n, Instant now) {
  Half& half = theirs(id);
  n = std::min(n, half.got - half.consumed);
  if (n == 0) return;
  if (core_.consume(id, n, now) != (!session.ended && !session.released)) {
    broken("consume() returned the wrong answer");
  }
  half.consumed += n;
}

// A relay's other hop goes on: its limit rises, its far end holds more.
void Host::pass_credit(SessionId id, View& session, bool all, Instant now) {
  if (!session.relayed || session.ended || session.released) return;
  const Half& half = theirs(id);
  session.cap = all ? kNoCap : session.cap + random_.skewed(64 * 1024);
  const bool whole = half.eof && half.consumed == half.got;
  if (whole) session.fin_acknowledged = true;
  core_.relay_credit(id, session.cap, half.consumed + (whole ? 1 : 0), now);
}

void Host::acknowledge(SessionId id, View& session, Instant now) {
  const Half& half = theirs(id);
  if (session.relayed || !session.visit || session.ended || session.released) return;
  if (!half.eof || half.consumed < half.got) return;
  const bool done = core_.acknowledge_fin(id, now);
  if (done == session.fin_acknowledged) broken("acknowledge_fin() returned the wrong answer");
  session.fin_acknowledged = true;
}

void Host::release(SessionId id, View& session, Instant now) {
  const Code code = random_.pick(kCodes);
  if (core_.release(id, now, code) == session.released) {
    broken("release() returned the wrong answer");
  }
  if (session.released) return;
  note("releases session " + std::to_string(id));
  session.released = true;
  Record& record = ledger_.record(id);
  record.released[end_] = true;
  if (session.ended) return;
  Half& sent = mine(id);
  if (!sent.reset && !session.stopped) sent.reset = code;
  Half& read = theirs(id);
  const bool read_over = session.visit ? read.aborted : read.over();
  if (!read_over && !read.stop) read.stop = code;
}

void Host::act(Instant now) {
  if (opened_ < traits_.sessions && random_.chance(15)) return open(now);
  if (traits_.goes_away && !going_away_ && random_.chance(2)) {
    note("says goaway");
    going_away_ = true;
    core_.goaway(GoawayReason::kRoll, std::chrono::seconds(5), "sim", now);
    return;
  }
  if (traits_.closes && random_.below(200) == 0) {
    note("closes");
    core_.close(code::kOk, "sim", now);
    return;
  }
  if (views_.empty()) return;
  auto chosen = views_.begin();
  std::advance(chosen, static_cast<std::ptrdiff_t>(random_.below(views_.size())));
  act_on(chosen->first, chosen->second, now);
}

void Host::act_on(SessionId id, View& session, Instant now) {
  if (!session.ours && !session.accepted && random_.chance(60)) return accept(id, session, now);
  if (random_.chance(traits_.abort_percent)) {
    switch (random_.below(4)) {
      case 0:
        return reset(id, session, random_.pick(kCodes));
      case 1:
        return stop(id, session, random_.pick(kCodes));
      case 2:
        return finish(id, session);
      default:
        return release(id, session, now);
    }
  }
  switch (random_.below(8)) {
    case 0:
    case 1:
    case 2: {
      const std::uint64_t room = core_.send_room(id);
      const bool beyond = traits_.writes_beyond_room && random_.chance(20);
      const std::uint64_t most = beyond ? 100'000 : std::min<std::uint64_t>(room, 65'536);
      return most > 0 ? write(id, session, random_.skewed(most)) : void();
    }
    case 3:
      if (mine(id).written >= session.plan) finish(id, session);
      return;
    case 4:
      return acknowledge(id, session, now);
    case 5:
      return pass_credit(id, session, false, now);
    case 6:
      if (session.ended && random_.chance(30)) release(id, session, now);
      return;
    default:
      if (!session.not_reading) consume(id, session, random_.skewed(1 << 20), now);
  }
}

// --- the end ---

void Host::choose_stuck() {
  for (auto& [id, session] : views_) {
    if (session.ended || session.released || !random_.chance(30)) continue;
    session.not_reading = true;
    ledger_.record(id).stuck = true;
    ++counts_.stuck;
  }
}

void Host::finish_work(Instant now, bool all) {
  for (auto& [id, session] : views_) {
    if (all) session.not_reading = false;
    if (session.ended || session.released) continue;
    finish_session(id, session, now);
  }
}

void Host::finish_session(SessionId id, View& session, Instant now) {
  if (!session.ours && !session.accepted) accept(id, session, now);
  if (can_send(id, session)) {
    write(id, session, session.plan);
    finish(id, session);
  }
  if (session.not_reading) {
    // A relay whose far end is stuck still passes on what the far end granted.
    if (session.relayed) {
      consume(id, session, session.cap - std::min(session.cap, theirs(id).consumed), now);
      core_.relay_credit(id, session.cap, theirs(id).consumed, now);
    }
    return;
  }
  consume(id, session, ~std::uint64_t{0}, now);
  pass_credit(id, session, true, now);
  acknowledge(id, session, now);
  if (session.visit && !session.ours) end_visit(id, session);
}

// A visit is over when both FINs are acknowledged, or a half was aborted; its receiver says so.
void Host::end_visit(SessionId id, View& session) {
  const Half& sent = mine(id);
  const Half& read = theirs(id);
  const bool send_over =
      sent.reset || session.stopped || (sent.finished && session.received == sent.written + 1);
  const bool read_over = read.aborted || read.stop || (read.eof && session.fin_acknowledged);
  if (!send_over || !read_over) return;
  if (!sent.reset && !session.stopped) reset(id, session, code::kOk);
  if (!read.aborted && !read.stop) stop(id, session, code::kOk);
}

bool Host::finished(bool all) const {
  return unfinished(all).empty();
}

std::string Host::unfinished(bool all) const {
  for (const auto& [id, session] : views_) {
    if (session.ended || session.released) continue;
    if (!all && ledger_.records().at(id).stuck) continue;
    return std::string(end_name(end_)) + " still has session " + std::to_string(id) + " with " +
           std::to_string(core_.queued(id)) + " bytes queued";
  }
  return {};
}

void Host::release_all(Instant now) {
  for (auto& [id, session] : views_) {
    if (!session.released) release(id, session, now);
  }
}

void Host::check_not_wedged() const {
  for (const auto& [id, session] : views_) {
    if (session.ended || session.released || (!session.ours && !session.accepted)) continue;
    const Half& half = ledger_.records().at(id).half[end_];
    const std::uint64_t room = core_.peer_limit(id) - std::min(core_.peer_limit(id), half.sent);
    // Less than a worthwhile frame may wait while the far end of a relay cannot take what it has,
    // and until the peer's application answers: before ACCEPT no CREDIT says what was received.
    const std::uint64_t least = half.relayed || !session.accepted ? 4096 : 1;
    if (room >= std::min(least, core_.queued(id)) && core_.queued(id) > 0) {
      broken("wedged: session " + std::to_string(id) + " at the " + end_name(end_) + " has " +
             std::to_string(core_.queued(id)) + " bytes queued and credit up to " +
             std::to_string(core_.peer_limit(id)) + " with " + std::to_string(half.sent) + " sent");
    }
  }
}

}  // namespace fairlead::link::sim
