// The frames of wire version 1: SPEC.md in types. Encoding and decoding only; what a frame means in
// a given state is the connection's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fairlead/link/connection.h"
#include "fairlead/link/types.h"

namespace fairlead::link::wire {

inline constexpr std::size_t kHeaderSize = 8;
inline constexpr std::size_t kMaxHello = 1024;       // bytes of HELLO's payload
inline constexpr std::size_t kMaxHelloText = 200;    // bytes of each text in it
inline constexpr std::uint32_t kMagic = 0x464c4e4b;  // "FLNK"
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::uint8_t kFirstSkippable = 128;

enum class Type : std::uint8_t {
  kHello = 1,
  kOpen = 2,
  kAccept = 3,
  kData = 4,
  kCredit = 5,
  kReset = 6,
  kStop = 7,
  kPing = 8,
  kPong = 9,
  kOpens = 10,
  kGoaway = 11,
  kClose = 12,
};

inline constexpr std::uint8_t kFlagFin = 0x01;    // DATA
inline constexpr std::uint8_t kFlagVisit = 0x01;  // OPEN

struct Header {
  std::uint16_t length = 0;  // of the payload
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  SessionId session = 0;
};

struct Hello {
  std::vector<std::uint8_t> versions;  // every version the sender speaks
  std::string software, role, name;
  std::uint32_t max_frame = kMaxDataPayload;    // largest DATA payload the sender takes
  std::uint32_t initial_window = kFloorWindow;  // credit of a session the peer opens
  std::uint32_t opens = kMinOpens;              // sessions the peer may open
  std::optional<Liveness> liveness;             // the dialer must state it
};
struct Open {
  std::uint64_t limit;
  Priority priority;
  std::uint8_t weight;
  std::uint32_t path_rtt_us;
  bool visit;
  Bytes meta;
};
struct Accept {
  std::uint64_t limit;
  std::uint32_t path_rtt_us;
  Bytes meta;
};
struct Data {
  Bytes bytes;
  bool fin;
};
struct Credit {
  std::uint64_t limit;
  std::uint64_t received;
};
struct Reset {
  Code code;
  std::uint64_t final;  // bytes the sender had sent on this half
};
struct Stop {
  Code code;
};
struct Ping {
  std::uint64_t token;
};
struct Pong {
  std::uint64_t token;
};
struct Opens {
  std::uint32_t limit;
};
struct Goaway {
  std::uint8_t phase;
  GoawayReason reason;
  SessionId last_id;
  std::uint32_t grace_ms;
  std::string text;
};
struct Close {
  Code code;
  std::string text;
};
struct Skipped {};  // a type of 128 to 255

using Frame = std::variant<Hello, Open, Accept, Data, Credit, Reset, Stop, Ping, Pong, Opens,
                           Goaway, Close, Skipped>;

// Both read exactly the size they name; the caller has checked that it is there.
Header decode_header(Bytes eight);
// Checks everything that needs no state: length, flags, session 0 or not, ranges, text sizes. The
// result's views point into `payload`. On a fault returns nothing and says in `error` what was
// wrong; the link is to be ended with code `protocol`.
std::optional<Frame> decode(const Header& header, Bytes payload, std::string& error);

// The header of a DATA frame, so that payload can be gathered behind it.
void encode_header(const Header& header, std::span<std::byte> eight);
// Appends the frame to `out`. Texts over their limit are cut at it.
void encode(SessionId session, const Frame& frame, std::vector<std::byte>& out);

}  // namespace fairlead::link::wire
