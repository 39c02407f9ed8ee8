// Reads HTTP/1.1 messages from a byte stream that may be split anywhere. Without I/O.
//
// Strict on purpose: whatever two readers could understand in two ways is refused, never repaired.
// Refused are
//   - Content-Length together with Transfer-Encoding, more than one of either, a Content-Length
//   that
//     is not plain digits, a Transfer-Encoding that is not exactly `chunked`, and any in HTTP/1.0;
//   - a line that ends with LF alone, a CR without LF, NUL and other control bytes, folded lines,
//     blanks before a colon, names that are not tokens;
//   - requests: no Host, more than one, or one that parse_host() refuses; an absolute target whose
//     authority is not Host; any other target that is neither a path nor, for OPTIONS, `*`;
//   - responses: 101, which nobody asked for;
//   - chunk sizes that are not plain hex, malformed chunk extensions, chunks that do not end in
//   CRLF;
//   - heads, lines and counts over the limits below.
// One empty line before a request is skipped. Chunk extensions are dropped. Bodies are never held:
// each Body is a view of what was fed.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>

#include "fairlead/link/types.h"
#include "http/message.h"

namespace fairlead::dataplane {

inline constexpr std::size_t kMaxStartLine = 8 * 1024;  // bytes, CRLF included
inline constexpr std::size_t kMaxHead = 64 * 1024;      // bytes of a head, start line included
inline constexpr std::size_t kMaxFields = 100;          // of a head, and of a trailer section
inline constexpr std::size_t kMaxChunkLine = 4 * 1024;  // bytes of a size with its extensions
inline constexpr std::size_t kMaxTrailers = 16 * 1024;  // bytes of the last chunk and the trailers
inline constexpr int kMaxInformational = 32;            // 1xx heads before a final one

namespace read {
struct Body {
  link::Bytes bytes;  // part of what next() was given; never empty
};
struct Trailers {
  Fields fields;  // at least one; comes before End
};
struct End {};
// The last event: what follows in the stream has no meaning any more.
struct Error {
  enum class Kind {
    kMalformed,   // 400, or a broken upstream
    kTooLarge,    // 431
    kIncomplete,  // the stream ended, cleanly or not, before the message did
  };
  Kind kind;
  std::string_view text;  // static: what was wrong
};
}  // namespace read

template <bool kRequest>
class MessageReader {
 public:
  using Head = std::conditional_t<kRequest, RequestHead, ResponseHead>;
  // A message is Head, then Body..., then Trailers or not, then End. Informational heads of
  // responses come before the Head; nothing else belongs to them.
  using Event = std::variant<Head, read::Body, read::Trailers, read::End, read::Error>;

  MessageReader() requires(kRequest);
  // `method` is that of the request that is answered: a response to HEAD has no body. Not CONNECT.
  explicit MessageReader(std::string_view method) requires(!kRequest);
  ~MessageReader();
  MessageReader(MessageReader&&) noexcept;
  MessageReader& operator=(MessageReader&&) noexcept;

  // Takes a prefix of `input` off and returns one event, or takes all of it and returns nothing.
  // Call until it returns nothing, also with an empty input: End may be due after the last byte.
  // After End and Error it takes nothing, so that what follows a message stays with the caller.
  std::optional<Event> next(link::Bytes& input);

  // The stream has ended, cleanly (FIN) or not. End for a body that goes until the close and a
  // clean end, Error when a message is incomplete, nothing between messages. Call after next().
  std::optional<Event> finish(bool clean);

  // Bytes of a message have come and its End or Error has not.
  bool in_message() const;

  // After End: read another message.
  void restart();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// For std::visit() on an event: one lambda for each alternative.
template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

using RequestReader = MessageReader<true>;
using ResponseReader = MessageReader<false>;

}  // namespace fairlead::dataplane
