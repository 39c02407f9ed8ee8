#include "control/message_stream.h"

#include <gtest/gtest.h>

#include "fairlead/control.pb.h"

namespace fairlead::dataplane {
namespace {

control::v1::Refused refused(const std::string& text) {
  control::v1::Refused message;
  message.set_text(text);
  return message;
}

TEST(MessageStream, GivesBackEachMessageHoweverTheBytesAreSplit) {
  std::string bytes;
  for (const char* text : {"first", "", "third"}) {
    bytes += encode_message(refused(text)).text();
  }
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    ControlReader reader;
    std::vector<std::string> texts;
    for (const std::string& part : {bytes.substr(0, split), bytes.substr(split)}) {
      reader.feed(link::as_bytes(part));
      while (const auto message = reader.next()) {
        control::v1::Refused parsed;
        ASSERT_TRUE(parsed.ParseFromString(*message));
        texts.push_back(parsed.text());
      }
    }
    EXPECT_EQ(texts, (std::vector<std::string>{"first", "", "third"})) << "split at " << split;
  }
}

TEST(MessageStream, RefusesALengthOverTheLimitBeforeItsBytesCome) {
  ControlReader reader;
  reader.feed(link::as_bytes(std::string_view("\x00\x40\x00\x01", 4)));  // 4 MiB + 1
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_TRUE(reader.failed());
}

}  // namespace
}  // namespace fairlead::dataplane
