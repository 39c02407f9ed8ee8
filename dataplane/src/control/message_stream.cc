#include "control/message_stream.h"

#include <cassert>

namespace fairlead::dataplane {

link::Slice encode_message(const google::protobuf::MessageLite& message) {
  const std::size_t size = message.ByteSizeLong();
  assert(size <= kMaxControlMessage);
  std::string frame(4, '\0');
  for (int i = 0; i < 4; ++i) frame[i] = static_cast<char>(size >> (8 * (3 - i)));
  message.AppendToString(&frame);
  return link::Slice::copy_of(frame);
}

void ControlReader::feed(link::Bytes bytes) {
  if (!failed_) buffer_ += link::as_text(bytes);
}

std::optional<std::string> ControlReader::next() {
  if (failed_ || buffer_.size() - start_ < 4) return std::nullopt;
  std::uint32_t size = 0;
  for (int i = 0; i < 4; ++i) {
    size = (size << 8) | static_cast<std::uint8_t>(buffer_[start_ + static_cast<std::size_t>(i)]);
  }
  if (size > kMaxControlMessage) {
    failed_ = true;
    return std::nullopt;
  }
  if (buffer_.size() - start_ - 4 < size) return std::nullopt;
  std::string message = buffer_.substr(start_ + 4, size);
  start_ += 4 + size;
  // Spent bytes go once they are most of the buffer, so that many small messages cost one move.
  if (start_ * 2 >= buffer_.size()) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  return message;
}

}  // namespace fairlead::dataplane
