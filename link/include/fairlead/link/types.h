// Words shared by every part of link: time, session ids, slices of bytes, codes and ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace fairlead::link {

// A point on the caller's monotonic clock. The core never reads a clock: every call that needs time
// takes `now`. Successive calls must not go back.
using Instant = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;
using Duration = std::chrono::nanoseconds;

// Dialer's ids are odd, listener's even; 0 is the link itself. Never reused on one link.
using SessionId = std::uint32_t;

using Bytes = std::span<const std::byte>;

inline Bytes as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An immutable run of bytes with shared ownership. Copying a slice copies no bytes; the memory is
// freed with the last slice. May be passed between threads (the count is atomic, the bytes const).
// An owner is exactly as large as the bytes it was made from, so a slice never pins more memory
// than the first slice of its owner had.
class Slice {
 public:
  Slice() = default;
  static Slice copy_of(Bytes bytes);
  static Slice copy_of(std::string_view text) { return copy_of(as_bytes(text)); }

  Bytes bytes() const { return bytes_; }
  std::string_view text() const { return as_text(bytes_); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // Both keep the owner alive. `n` and `offset` must not exceed size().
  Slice first(std::size_t n) const { return Slice(owner_, bytes_.first(n)); }
  Slice from(std::size_t offset) const { return Slice(owner_, bytes_.subspan(offset)); }

 private:
  Slice(std::shared_ptr<const std::byte[]> owner, Bytes bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}

  std::shared_ptr<const std::byte[]> owner_;
  Bytes bytes_;
};

// Codes of RESET, STOP and CLOSE. Values of 256 and above belong to the application and pass
// through relays untouched, hence a plain integer on the wire; these are the names of the reserved
// ones.
using Code = std::uint32_t;
namespace code {
inline constexpr Code kOk = 0;            // a wanted end
inline constexpr Code kProtocol = 1;      // the peer broke the wire's rules
inline constexpr Code kFlow = 2;          // data beyond the granted limit
inline constexpr Code kCalm = 3;          // an abuse limit was crossed; the text names it
inline constexpr Code kRefused = 4;       // not accepted; nothing was processed by this process
inline constexpr Code kCancel = 5;        // the application gave up
inline constexpr Code kDrainTimeout = 6;  // still open at the drain deadline
inline constexpr Code kInternal = 7;      // a fault of ours
inline constexpr Code kSlow = 8;          // the reader held memory under pressure
inline constexpr Code kSuperseded = 9;    // the visit moved to a newer session
inline constexpr Code kPathLost = 10;     // a later hop of the path broke
inline constexpr Code kVersion = 11;      // no common version
inline constexpr Code kNotHere = 12;  // the wanted agent is not at this relay; nothing passed on
inline constexpr Code kFirstApplication = 256;
}  // namespace code

// "protocol", "flow", ... or "application 300" / "unknown 99".
std::string code_name(Code code);

// Why a link ended. The text is for people: what was wrong and, where there is a remedy, the
// remedy.
enum class CutKind : std::uint8_t {
  kTransport,      // the socket failed (reset, refused, TLS alert): text has the system's words
  kEnded,          // the byte stream ended (with or without close_notify) without CLOSE
  kDeadPeer,       // nothing was received for interval + timeout
  kUnanswered,     // bytes arrive, but the oldest PING is unanswered for 3 x (interval + timeout)
  kStalled,        // queued bytes made no progress for interval + timeout
  kPeerClosed,     // CLOSE from the peer; code and text are the peer's
  kClosed,         // close() was called here
  kProtocolError,  // the peer broke the wire's rules; a CLOSE with the same text was queued
};
std::string_view cut_kind_name(CutKind kind);

struct Cut {
  CutKind kind = CutKind::kEnded;
  Code code = code::kOk;
  std::string text;
};

// "dead peer: nothing received for 4.5 s".
std::string to_string(const Cut& cut);

// Write order inside a link: each class goes before the later ones; the classes after the first
// with something to send keep a twentieth together, so that none starves.
enum class Priority : std::uint8_t { kUrgent = 0, kNormal = 1, kBulk = 2, kBackground = 3 };

}  // namespace fairlead::link
