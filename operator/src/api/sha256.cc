#include "api/sha256.h"

#include <openssl/evp.h>

#include <array>

namespace fairlead::op {

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_sha256(), nullptr);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[hash[i] >> 4];
    hex += kDigits[hash[i] & 15];
  }
  return hex;
}

}  // namespace fairlead::op
