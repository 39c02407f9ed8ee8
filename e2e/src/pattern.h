// Deterministic bytes: what is at an offset depends only on (seed, offset), so both ends of a visit
// can make and check any part of a stream without holding the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

struct evp_md_ctx_st;  // OpenSSL's

namespace fairlead::e2e {

void fill_pattern(std::uint64_t seed, std::uint64_t offset, std::span<std::byte> out);

std::string pattern_text(std::uint64_t seed, std::uint64_t offset, std::size_t size);

// The stream offset of the first byte that differs, nothing when all are right.
std::optional<std::uint64_t> first_difference(std::uint64_t seed, std::uint64_t offset,
                                              std::span<const std::byte> bytes);

// SHA-256 of a byte stream, given in parts.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void update(std::span<const std::byte> bytes);
  std::string hex();  // of everything so far; update() must not follow

 private:
  evp_md_ctx_st* context_;
};

std::string sha256_hex(std::string_view text);

// SHA-256 of the first `size` bytes of the pattern.
std::string pattern_digest(std::uint64_t seed, std::uint64_t size);

}  // namespace fairlead::e2e
