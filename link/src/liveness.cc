#include "fairlead/link/liveness.h"

#include <array>
#include <charconv>
#include <cmath>

namespace fairlead::link {
namespace {

using std::chrono::milliseconds;

struct Preset {
  std::string_view name;
  Liveness liveness;
};
constexpr std::array kPresets = {
    Preset{"fast", kFast},     Preset{"default", kDefault},
    Preset{"nat", kNat},       Preset{"datacenter", kDatacenter},
    Preset{"mobile", kMobile},
};

std::string seconds_text(milliseconds value) {
  if (value.count() % 1000 == 0) return std::to_string(value.count() / 1000) + "s";
  return std::to_string(value.count()) + "ms";
}

std::optional<milliseconds> parse_duration(std::string_view text) {
  double scale = 0;
  if (text.ends_with("ms")) {
    scale = 1;
    text.remove_suffix(2);
  } else if (text.ends_with("s")) {
    scale = 1000;
    text.remove_suffix(1);
  } else {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // A day is far past every bound, and keeps the conversion below well defined.
  if (!(value > 0) || value * scale > 86'400'000) return std::nullopt;
  return milliseconds(std::llround(value * scale));
}

}  // namespace

std::string check_liveness(const Liveness& liveness) {
  if (liveness.interval < kMinInterval || liveness.interval > kMaxInterval) {
    return "keepalive interval " + seconds_text(liveness.interval) +
           " is out of bounds: allowed is " + seconds_text(kMinInterval) + " to " +
           seconds_text(kMaxInterval);
  }
  if (liveness.timeout < kMinTimeout || liveness.timeout > kMaxTimeout) {
    return "keepalive timeout " + seconds_text(liveness.timeout) +
           " is out of bounds: allowed is " + seconds_text(kMinTimeout) + " to " +
           seconds_text(kMaxTimeout);
  }
  return {};
}

std::optional<Liveness> parse_liveness(std::string_view text, std::string& error) {
  for (const Preset& preset : kPresets) {
    if (text == preset.name) return preset.liveness;
  }
  static constexpr std::string_view kInterval = "interval=";
  static constexpr std::string_view kTimeout = "timeout=";
  const std::size_t comma = text.find(',');
  const std::string_view first = text.substr(0, comma);
  const std::string_view second =
      comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  if (first.starts_with(kInterval) && second.starts_with(kTimeout)) {
    const auto interval = parse_duration(first.substr(kInterval.size()));
    const auto timeout = parse_duration(second.substr(kTimeout.size()));
    if (interval && timeout) {
      const Liveness liveness{*interval, *timeout};
      error = check_liveness(liveness);
      if (error.empty()) return liveness;
      return std::nullopt;
    }
  }
  error = "\"" + std::string(text) +
          "\" is not a keepalive setting: use fast, default, nat, datacenter, mobile or "
          "interval=<time>,timeout=<time> with times such as 2s or 1500ms";
  return std::nullopt;
}

std::string to_string(const Liveness& liveness) {
  for (const Preset& preset : kPresets) {
    if (liveness == preset.liveness) return std::string(preset.name);
  }
  return "interval=" + seconds_text(liveness.interval) +
         ",timeout=" + seconds_text(liveness.timeout);
}

}  // namespace fairlead::link
