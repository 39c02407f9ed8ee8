#include "visit/visit_id.h"

#include <algorithm>

namespace fairlead::dataplane {
namespace {

std::optional<std::uint8_t> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

std::optional<VisitId> VisitId::from_bytes(std::string_view raw) {
  if (raw.size() != kSize) return std::nullopt;
  VisitId id;
  std::transform(raw.begin(), raw.end(), id.bytes_.begin(),
                 [](char c) { return static_cast<std::uint8_t>(c); });
  return id;
}

std::optional<VisitId> VisitId::from_hex(std::string_view hex) {
  if (hex.size() != 2 * kSize) return std::nullopt;
  VisitId id;
  for (std::size_t i = 0; i < kSize; ++i) {
    const auto high = digit(hex[2 * i]);
    const auto low = digit(hex[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    id.bytes_[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return id;
}

std::string VisitId::hex() const {
  return to_hex(raw());
}

std::string to_hex(std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

}  // namespace fairlead::dataplane
