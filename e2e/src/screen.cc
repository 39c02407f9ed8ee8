#include "screen.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace fairlead::e2e {

using std::chrono::steady_clock;

Screen::Screen()
    : began_(steady_clock::now()), printed_(began_), terminal_(::isatty(STDOUT_FILENO) == 1) {}

Screen::~Screen() {
  clear_live();
}

double Screen::seconds() const {
  return std::chrono::duration<double>(steady_clock::now() - began_).count();
}

void Screen::clear_live() {
  if (live_shown_) std::fputs("\r\033[K", stdout);
  live_shown_ = false;
}

void Screen::step(const std::string& text) {
  clear_live();
  std::printf("%6.1f s  %s\n", seconds(), text.c_str());
  std::fflush(stdout);
}

void Screen::plain(const std::string& text) {
  clear_live();
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void Screen::live(const std::string& text) {
  if (terminal_) {
    std::printf("\r\033[K%6.1f s  %s", seconds(), text.c_str());
    live_shown_ = true;
    std::fflush(stdout);
  } else if (steady_clock::now() - printed_ >= std::chrono::seconds(5)) {
    printed_ = steady_clock::now();
    step(text);
  }
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line = "  ";
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      line += rows[r][i] + std::string(widths[i] - rows[r][i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) text += "  " + std::string(line.size() - 2, '-') + "\n";
  }
  return text;
}

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

}  // namespace fairlead::e2e
