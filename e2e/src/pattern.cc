#include "pattern.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

namespace fairlead::e2e {
namespace {

// splitmix64: every word of the stream is one hash of its index.
std::uint64_t word_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed * 0x9E3779B97F4A7C15U + (index + 1) * 0xD1B54A32D192ED03U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

void fill_pattern(std::uint64_t seed, std::uint64_t offset, std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::uint64_t at = offset + done;
    const std::uint64_t word = word_at(seed, at / 8);
    const std::size_t skip = at % 8;
    const std::size_t take = std::min(8 - skip, out.size() - done);
    std::memcpy(out.data() + done, reinterpret_cast<const char*>(&word) + skip, take);
    done += take;
  }
}

std::string pattern_text(std::uint64_t seed, std::uint64_t offset, std::size_t size) {
  std::string text(size, '\0');
  fill_pattern(seed, offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::optional<std::uint64_t> first_difference(std::uint64_t seed, std::uint64_t offset,
                                              std::span<const std::byte> bytes) {
  std::array<std::byte, 4096> want{};
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t take = std::min(want.size(), bytes.size() - done);
    fill_pattern(seed, offset + done, std::span(want).first(take));
    if (std::memcmp(want.data(), bytes.data() + done, take) != 0) {
      const auto part = bytes.subspan(done, take);
      const auto [got, expected] = std::mismatch(part.begin(), part.end(), want.begin());
      return offset + done + static_cast<std::uint64_t>(got - part.begin());
    }
    done += take;
  }
  return std::nullopt;
}

Digest::Digest() : context_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(context_, EVP_sha256(), nullptr);
}

Digest::~Digest() {
  EVP_MD_CTX_free(context_);
}

void Digest::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(context_, bytes.data(), bytes.size());
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_, raw.data(), &size);
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[raw[i] >> 4U];
    text += kDigits[raw[i] & 15U];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  Digest digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

std::string pattern_digest(std::uint64_t seed, std::uint64_t size) {
  Digest digest;
  std::vector<std::byte> block(64 * 1024);
  for (std::uint64_t at = 0; at < size;) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), size - at));
    fill_pattern(seed, at, part);
    digest.update(part);
    at += part.size();
  }
  return digest.hex();
}

}  // namespace fairlead::e2e
