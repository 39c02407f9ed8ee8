// Helpers of tls.cc: PEM texts to OpenSSL objects, certificates and errors to words.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "link/asio/tls.h"

namespace fairlead::link {

template <auto Free>
struct OpensslDeleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using X509Pointer = std::unique_ptr<X509, OpensslDeleter<X509_free>>;
using KeyPointer = std::unique_ptr<EVP_PKEY, OpensslDeleter<EVP_PKEY_free>>;

// Every certificate of a PEM text; empty with `error`, which names `what`, when there is none or
// one does not parse.
std::vector<X509Pointer> parse_certificates(std::string_view pem, std::string_view what,
                                            std::string& error);
// Null with `error` when the text holds no key or an encrypted one.
KeyPointer parse_key(std::string_view pem, std::string& error);

PeerCertificate describe_certificate(const X509* certificate);

// The first error of OpenSSL's queue in words. `no_alpn` and `refusal` are what the engine's own
// callbacks refused.
TlsFailure describe_tls_failure(unsigned long error, bool no_alpn, const std::string& refusal);

}  // namespace fairlead::link
