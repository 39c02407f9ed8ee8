// One direction of a simulated transport: a byte stream with a rate, a delay, a bounded send buffer
// and the ways in which such a stream breaks.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "fairlead/link/types.h"

namespace fairlead::link::sim {

struct PipeTraits {
  Duration delay{};
  std::uint64_t bytes_per_second = 0;
  std::uint64_t buffer = 0;                // bytes taken and not yet arrived
  std::optional<std::uint64_t> cut_after;  // the stream breaks behind this many bytes
};

class Pipe {
 public:
  explicit Pipe(const PipeTraits& traits) : traits_(traits) {}

  // What the sender's socket takes now.
  std::uint64_t room() const {
    return stalled_ || in_flight_ >= traits_.buffer ? 0 : traits_.buffer - in_flight_;
  }
  void send(Bytes bytes, Instant now);
  // No bytes follow those that were sent.
  void end() { ended_ = true; }

  // From now on nothing arrives any more; the sender does not notice.
  void swallow() { swallowing_ = true; }
  // From now on the sender's socket takes nothing.
  void stall() { stalled_ = true; }
  bool broken() const { return swallowing_ || stalled_; }

  // When the next bytes arrive; nothing when there are none under way.
  std::optional<Instant> next_arrival() const;
  bool arrived(Instant now) const;
  // Up to `most` bytes that have arrived.
  std::vector<std::byte> take(std::uint64_t most, Instant now);
  // Everything was taken and the stream is over: by end() or by a cut.
  bool over() const { return was_cut() || (ended_ && chunks_.empty() && !swallowing_); }
  bool was_cut() const { return traits_.cut_after && taken_ >= *traits_.cut_after; }

  std::uint64_t sent() const { return sent_; }
  std::uint64_t taken() const { return taken_; }
  bool empty() const { return chunks_.empty(); }

 private:
  struct Chunk {
    Instant at;
    std::vector<std::byte> bytes;
    std::size_t spent = 0;
  };

  PipeTraits traits_;
  std::deque<Chunk> chunks_;
  Instant line_free_{};
  std::uint64_t in_flight_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;
  bool ended_ = false;
  bool swallowing_ = false;
  bool stalled_ = false;
};

}  // namespace fairlead::link::sim
