// Certificates for tests, made in this process in a millisecond. Not for production: the only thing
// checked is that OpenSSL accepts them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "link/asio/tls.h"

namespace fairlead::link::testing {

struct TestLeaf {
  std::string common_name = "test";
  std::vector<std::string> uris, dns, ips;
  // Seconds from now; a past `valid_until` makes an expired certificate.
  long valid_from = -300;
  long valid_until = 24 * 3600;
};

// An authority with its own key. Two authorities never accept each other's certificates.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& common_name = "test CA");
  ~TestAuthority();

  // PEM.
  const std::string& certificate() const { return certificate_; }

  // A certificate for TLS server and client with a fresh P-256 key, and this authority as the
  // trusted CA. Every call gives another serial.
  TlsMaterial issue(const TestLeaf& leaf);

  // The same as a usable identity: for localhost and 127.0.0.1, or with the names of `leaf`.
  std::shared_ptr<TlsIdentity> localhost();
  std::shared_ptr<TlsIdentity> identity(const TestLeaf& leaf);
  // Trusts this authority and shows no certificate.
  std::shared_ptr<TlsIdentity> trusting();

 private:
  struct Keys;
  std::unique_ptr<Keys> keys_;
  std::string certificate_;
  long next_serial_ = 0x1000;
};

}  // namespace fairlead::link::testing
