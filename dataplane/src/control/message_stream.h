// Messages on a control session: each is a u32 length, big-endian, and the message.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <optional>
#include <string>

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

// The largest message that is sent or taken. A directory of 10,000 agents fits.
inline constexpr std::uint32_t kMaxControlMessage = 4u << 20;

// The frame of one message. One over kMaxControlMessage is a programmer's error.
link::Slice encode_message(const google::protobuf::MessageLite& message);

// Cuts the bytes of a session back into messages; keeps at most one message that is not complete.
class ControlReader {
 public:
  void feed(link::Bytes bytes);
  // The bytes of the next whole message; nothing when more is needed or failed().
  std::optional<std::string> next();
  // A length over the limit came: the session cannot go on.
  bool failed() const { return failed_; }

 private:
  std::string buffer_;
  std::size_t start_ = 0;
  bool failed_ = false;
};

}  // namespace fairlead::dataplane
