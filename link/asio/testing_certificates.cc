#include "link/asio/testing_certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "link/asio/tls_certificate.h"

namespace fairlead::link::testing {
namespace {

using BioPointer = std::unique_ptr<BIO, OpensslDeleter<BIO_free_all>>;

// A test cannot go on without its certificates.
void must(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "testing_certificates: %s failed\n", what);
  std::abort();
}

std::string take_text(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string pem(X509* certificate) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  must(PEM_write_bio_X509(bio.get(), certificate) == 1, "writing a certificate");
  return take_text(bio.get());
}

std::string pem(EVP_PKEY* key) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  must(PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
       "writing a key");
  return take_text(bio.get());
}

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  must(extension != nullptr, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509Pointer make(const TestLeaf& leaf, long serial, EVP_PKEY* key, X509* issuer,
                 EVP_PKEY* issuer_key) {
  X509Pointer made(X509_new());
  X509* certificate = made.get();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), leaf.valid_from);
  X509_gmtime_adj(X509_getm_notAfter(certificate), leaf.valid_until);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(leaf.common_name.c_str()), -1,
                             -1, 0);
  X509* signer = issuer != nullptr ? issuer : certificate;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  X509_set_pubkey(certificate, key);
  if (issuer == nullptr) {
    add_extension(certificate, signer, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(certificate, signer, NID_key_usage, "critical,keyCertSign");
  } else {
    add_extension(certificate, signer, NID_ext_key_usage, "serverAuth,clientAuth");
  }
  std::string names;
  const auto add = [&names](const char* kind, const std::vector<std::string>& values) {
    for (const std::string& value : values) names += (names.empty() ? "" : ",") + (kind + value);
  };
  add("URI:", leaf.uris);
  add("DNS:", leaf.dns);
  add("IP:", leaf.ips);
  if (!names.empty()) add_extension(certificate, signer, NID_subject_alt_name, names);
  must(X509_sign(certificate, issuer_key, EVP_sha256()) > 0, "signing");
  return made;
}

}  // namespace

struct TestAuthority::Keys {
  KeyPointer key;
  X509Pointer certificate;
};

TestAuthority::TestAuthority(const std::string& common_name) : keys_(std::make_unique<Keys>()) {
  keys_->key.reset(EVP_EC_gen("P-256"));
  must(keys_->key != nullptr, "making a key");
  TestLeaf self;
  self.common_name = common_name;
  keys_->certificate = make(self, 1, keys_->key.get(), nullptr, keys_->key.get());
  certificate_ = pem(keys_->certificate.get());
}

TestAuthority::~TestAuthority() = default;

TlsMaterial TestAuthority::issue(const TestLeaf& leaf) {
  const KeyPointer key(EVP_EC_gen("P-256"));
  must(key != nullptr, "making a key");
  const X509Pointer certificate =
      make(leaf, next_serial_++, key.get(), keys_->certificate.get(), keys_->key.get());
  return {pem(certificate.get()), pem(key.get()), certificate_};
}

std::shared_ptr<TlsIdentity> TestAuthority::identity(const TestLeaf& leaf) {
  std::string error;
  auto identity = TlsIdentity::create(issue(leaf), error);
  must(identity != nullptr, error.c_str());
  return identity;
}

std::shared_ptr<TlsIdentity> TestAuthority::localhost() {
  TestLeaf leaf;
  leaf.common_name = "localhost";
  leaf.dns = {"localhost"};
  leaf.ips = {"127.0.0.1"};
  return identity(leaf);
}

std::shared_ptr<TlsIdentity> TestAuthority::trusting() {
  std::string error;
  auto identity = TlsIdentity::create({"", "", certificate_}, error);
  must(identity != nullptr, error.c_str());
  return identity;
}

}  // namespace fairlead::link::testing
