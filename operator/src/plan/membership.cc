#include "plan/membership.h"

#include <algorithm>

#include "api/sha256.h"

namespace fairlead::op {
namespace {

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void append_text(std::string& out, int field, const std::string& text) {
  if (text.empty()) return;  // proto3 does not write what has its default value
  append_varint(out, static_cast<std::uint64_t>(field) << 3 | 2);
  append_varint(out, text.size());
  out += text;
}

}  // namespace

std::string membership_digest(const std::vector<Member>& members) {
  std::vector<const Member*> sorted;
  for (const Member& member : members) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(),
            [](const Member* a, const Member* b) { return a->uid < b->uid; });
  std::string message;
  for (const Member* member : sorted) {
    std::string encoded;
    append_text(encoded, 1, member->uid);
    append_text(encoded, 2, member->name);
    append_text(encoded, 3, member->peer_address);
    append_varint(encoded, 4 << 3);
    append_varint(encoded, static_cast<std::uint64_t>(member->state));
    append_varint(message, 4 << 3 | 2);
    append_varint(message, encoded.size());
    message += encoded;
  }
  return sha256_hex(message);
}

}  // namespace fairlead::op
