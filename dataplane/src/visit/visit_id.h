// The 128-bit name of a visit, the same on every hop and in every log line.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fairlead::dataplane {

// 16 bytes that the visitor end draws at random: whoever makes one passes the bytes in. A plain
// value.
class VisitId {
 public:
  static constexpr std::size_t kSize = 16;

  VisitId() = default;
  explicit VisitId(const std::array<std::uint8_t, kSize>& bytes) : bytes_(bytes) {}
  // Nothing unless `raw` is exactly 16 bytes.
  static std::optional<VisitId> from_bytes(std::string_view raw);
  // Nothing unless `hex` is exactly 32 hexadecimal digits, of either case.
  static std::optional<VisitId> from_hex(std::string_view hex);

  const std::array<std::uint8_t, kSize>& bytes() const { return bytes_; }
  std::string raw() const { return {bytes_.begin(), bytes_.end()}; }
  std::string hex() const;  // 32 digits, lower case

  auto operator<=>(const VisitId&) const = default;

 private:
  std::array<std::uint8_t, kSize> bytes_{};
};

// Lower-case hexadecimal of any bytes; also how instances are shown.
std::string to_hex(std::string_view bytes);

}  // namespace fairlead::dataplane

template <>
struct std::hash<fairlead::dataplane::VisitId> {
  std::size_t operator()(const fairlead::dataplane::VisitId& id) const noexcept {
    // The bytes are random where ids are honest; a peer that picks them harms only its own tenant's
    // table, whose size admission bounds.
    const auto& bytes = id.bytes();
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
};
