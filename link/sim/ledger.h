// What is true in a simulated world: what the applications did, and what the frames on the wire
// said. Both ends' reports are held against it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "../src/wire.h"
#include "fairlead/link/connection.h"

namespace fairlead::link::sim {

// An invariant does not hold. Ends the run of this seed.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] inline void broken(const std::string& what) {
  throw Broken(what);
}

// 0 is the dialer, 1 the listener.
using End = std::size_t;
inline End other(End end) {
  return 1 - end;
}
inline const char* end_name(End end) {
  return end == 0 ? "dialer" : "listener";
}

// The byte that belongs at an offset of what `sender` writes on a session.
inline std::byte expected_byte(SessionId id, End sender, std::uint64_t offset) {
  const std::uint64_t mixed = offset * 131 + (offset >> 8) * 17 + id * 7919ull + sender * 101;
  return static_cast<std::byte>(mixed & 0xff);
}

// What one end sends to the other on one session.
struct Half {
  // By the applications.
  std::uint64_t written = 0;
  bool finished = false;
  std::optional<Code> reset;  // by the sender: reset() or an early release()
  std::optional<Code> stop;   // by the reader: stop() or an early release()
  // On the wire.
  std::uint64_t sent = 0;
  std::uint64_t arrived = 0;
  bool ended = false;         // its FIN or RESET has arrived
  std::uint64_t told = 0;     // highest limit that left the reader
  std::uint64_t granted = 0;  // highest limit that arrived at the sender
  // Reported to the reader.
  std::uint64_t got = 0;
  std::uint64_t consumed = 0;
  bool relayed = false;  // by the reader: its far end may hold less than arrived
  bool eof = false;
  bool aborted = false;

  bool over() const { return eof || aborted; }
};

struct Record {
  End opener = 0;
  bool visit = false;
  bool opened_at_peer = false;
  bool not_processed = false;
  bool stuck = false;  // somebody does not read it for now
  std::array<bool, 2> released{};
  std::array<Half, 2> half;  // by sender
};

class Ledger {
 public:
  Ledger(const Config& dialer, const Config& listener) : configs_{dialer, listener} {}

  Record& open(SessionId id, End opener, bool visit);
  Record& record(SessionId id);
  std::map<SessionId, Record>& records() { return records_; }

  // Frames that left an end, whole ones; the other end has the first `taken` bytes of all of them.
  // `trace` gets a line per frame when not null.
  void left(End from, Bytes bytes, std::string* trace);
  void arrived(End from, std::uint64_t taken);

  // What an end has granted and holds, against its configuration.
  void check_grants(End reader) const;

  std::uint64_t frames() const { return frames_; }

 private:
  struct Mark {
    std::uint64_t end;  // offset in the stream
    SessionId id;
    std::uint64_t limit;  // of OPEN, ACCEPT and CREDIT
    std::uint64_t size;   // of DATA
    bool last = false;    // no DATA of this half follows: FIN or RESET
  };
  void frame_left(End from, const wire::Header& header, const wire::Frame& frame);

  std::array<Config, 2> configs_;
  std::map<SessionId, Record> records_;
  std::array<std::deque<Mark>, 2> marks_;
  std::array<std::uint64_t, 2> stream_{};
  std::uint64_t frames_ = 0;
};

}  // namespace fairlead::link::sim
