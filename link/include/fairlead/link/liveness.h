// Keepalive settings by name, and the bound each one gives.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace fairlead::link {

// A PING goes out when nothing was received for `interval`; the peer is dead when nothing was
// received for `interval + timeout`. The dialer chooses and says so in HELLO; the listener adopts.
struct Liveness {
  std::chrono::milliseconds interval{5000};
  std::chrono::milliseconds timeout{10000};

  // A dead peer is found this long after its last byte.
  std::chrono::milliseconds bound() const { return interval + timeout; }
  bool operator==(const Liveness&) const = default;
};

inline constexpr std::chrono::milliseconds kMinInterval{1000};
inline constexpr std::chrono::milliseconds kMaxInterval{15000};
inline constexpr std::chrono::milliseconds kMinTimeout{2000};
inline constexpr std::chrono::milliseconds kMaxTimeout{60000};

// fast 1.5+3 s, default 5+10 s, nat 10+20 s, datacenter 15+30 s, mobile 15+45 s.
inline constexpr Liveness kFast{std::chrono::milliseconds(1500), std::chrono::milliseconds(3000)};
inline constexpr Liveness kDefault{std::chrono::milliseconds(5000),
                                   std::chrono::milliseconds(10000)};
inline constexpr Liveness kNat{std::chrono::milliseconds(10000), std::chrono::milliseconds(20000)};
inline constexpr Liveness kDatacenter{std::chrono::milliseconds(15000),
                                      std::chrono::milliseconds(30000)};
inline constexpr Liveness kMobile{std::chrono::milliseconds(15000),
                                  std::chrono::milliseconds(45000)};

// Reads a preset's name, or "interval=<dur>,timeout=<dur>" with <dur> a positive number followed by
// "ms" or "s" ("1.5s", "800ms"). Returns nothing and sets `error` (what was wrong, what is allowed)
// when the text does not parse or a value is out of bounds.
std::optional<Liveness> parse_liveness(std::string_view text, std::string& error);

// Empty when within bounds, else a text that names the value and the bounds.
std::string check_liveness(const Liveness& liveness);

// The preset's name, or "interval=2s,timeout=4s". parse_liveness() reads it back.
std::string to_string(const Liveness& liveness);

}  // namespace fairlead::link
