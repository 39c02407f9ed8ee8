// What a person watches: steps that stay on the screen, and one line below them that is live.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace fairlead::e2e {

// On a terminal the live line is redrawn in place; elsewhere it is printed every five seconds.
class Screen {
 public:
  Screen();
  ~Screen();  // ends the live line

  void step(const std::string& text);  // "  12.3 s  text"
  void live(const std::string& text);
  void plain(const std::string& text);
  double seconds() const;  // since the screen was made

 private:
  void clear_live();

  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point printed_;
  bool terminal_ = false;
  bool live_shown_ = false;
};

// Columns padded to the widest cell, first row underlined.
std::string table(const std::vector<std::vector<std::string>>& rows);

// "12.3"
std::string one_decimal(double value);

}  // namespace fairlead::e2e
