// A line of the event log: local time with milliseconds, two spaces, the text. Line breaks in the
// text become " | ", so that an event stays one line.
#pragma once

#include <chrono>
#include <ctime>
#include <string>
#include <string_view>

namespace fairlead::op {

inline std::string log_line(std::string_view text, std::chrono::system_clock::time_point at =
                                                       std::chrono::system_clock::now()) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count() % 1000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char stamp[32];
  const std::size_t size = std::strftime(stamp, sizeof stamp, "%H:%M:%S", &parts);
  std::string line(stamp, size);
  const std::string fraction = std::to_string(1000 + millis);
  line.append(".").append(fraction, 1).append("  ");
  for (const char c : text) {
    if (c == '\n') {
      line += " | ";
    } else if (c != '\r') {
      line += c;
    }
  }
  return line;
}

}  // namespace fairlead::op
