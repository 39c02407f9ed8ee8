// Numbers from a seed, the same on every machine.
#pragma once

#include <cstdint>

namespace fairlead::link::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x1234567) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  // 0 to n - 1; n must not be 0.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  // low to high, both included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }
  bool chance(unsigned percent) { return below(100) < percent; }
  // 1 to most, small values as likely as large ones.
  std::uint64_t skewed(std::uint64_t most) {
    std::uint64_t bound = most;
    for (std::uint64_t halvings = below(16); halvings > 0 && bound > 1; --halvings) bound /= 2;
    return between(1, bound);
  }
  template <typename T, std::size_t N>
  T pick(const T (&choices)[N]) {
    return choices[below(N)];
  }

 private:
  std::uint64_t state_;
};

}  // namespace fairlead::link::sim
