#include "pki/certificate.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>

namespace fairlead::op {
namespace {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <class T, auto Free>
using Owned = std::unique_ptr<T, Deleter<Free>>;

void free_names(GENERAL_NAMES* names) {
  GENERAL_NAMES_free(names);
}

using X509Ptr = Owned<X509, X509_free>;
using KeyPtr = Owned<EVP_PKEY, EVP_PKEY_free>;
using BioPtr = Owned<BIO, BIO_free_all>;
using BnPtr = Owned<BIGNUM, BN_free>;
using NamesPtr = Owned<GENERAL_NAMES, free_names>;
using ExtensionPtr = Owned<X509_EXTENSION, X509_EXTENSION_free>;
using StorePtr = Owned<X509_STORE, X509_STORE_free>;
using StoreContextPtr = Owned<X509_STORE_CTX, X509_STORE_CTX_free>;
using TimePtr = Owned<ASN1_TIME, ASN1_TIME_free>;

std::string openssl_reason(std::string_view what) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  std::string text(what);
  if (code != 0) {
    char buffer[256];
    ERR_error_string_n(code, buffer, sizeof buffer);
    text.append(": ").append(buffer);
  }
  return text;
}

BioPtr reader(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string contents(BIO* bio) {
  const char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

X509Ptr parse_certificate(std::string_view pem) {
  const BioPtr bio = reader(pem);
  X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

KeyPtr parse_key(std::string_view pem) {
  const BioPtr bio = reader(pem);
  // A callback that gives no passphrase: an encrypted key is an error, not a prompt.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return key;
}

std::optional<Credential> to_pem(X509* certificate, EVP_PKEY* key, std::string& error) {
  const BioPtr cert_bio(BIO_new(BIO_s_mem()));
  const BioPtr key_bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(cert_bio.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    error = openssl_reason("cannot encode a certificate");
    return std::nullopt;
  }
  return Credential{contents(cert_bio.get()), contents(key_bio.get())};
}

bool set_time(ASN1_TIME* field, WallTime time) {
  return ASN1_TIME_set(field, std::chrono::system_clock::to_time_t(time)) != nullptr;
}

std::optional<WallTime> get_time(const ASN1_TIME* field) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(field, &parts) != 1) return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

bool set_serial(X509* certificate, Serial serial) {
  serial[0] &= 0x7f;
  const BnPtr number(BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool add_common_name(X509_NAME* name, std::string_view text) {
  text = text.substr(0, 64);
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// One entry of the subject alternative name. The names are set as values, never through OpenSSL's
// configuration syntax, in which a comma inside a name would start another one.
bool add_name(GENERAL_NAMES* names, int type, std::string_view bytes) {
  ASN1_STRING* const value =
      type == GEN_IPADD ? ASN1_OCTET_STRING_new() : static_cast<ASN1_STRING*>(ASN1_IA5STRING_new());
  GENERAL_NAME* const name = GENERAL_NAME_new();
  if (value == nullptr || name == nullptr ||
      ASN1_STRING_set(value, bytes.data(), static_cast<int>(bytes.size())) != 1) {
    ASN1_STRING_free(value);
    GENERAL_NAME_free(name);
    return false;
  }
  GENERAL_NAME_set0_value(name, type, value);
  if (sk_GENERAL_NAME_push(names, name) > 0) return true;
  GENERAL_NAME_free(name);
  return false;
}

std::optional<std::string> address_bytes(const std::string& text) {
  unsigned char bytes[16];
  if (inet_pton(AF_INET, text.c_str(), bytes) == 1) {
    return std::string(reinterpret_cast<char*>(bytes), 4);
  }
  if (inet_pton(AF_INET6, text.c_str(), bytes) == 1) {
    return std::string(reinterpret_cast<char*>(bytes), 16);
  }
  return std::nullopt;
}

bool usable_name(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool add_alternative_names(X509* certificate, const LeafRequest& request, std::string& error) {
  const NamesPtr names(GENERAL_NAMES_new());
  if (!usable_name(request.uri)) {
    error = "a leaf needs an identity URI, got \"" + request.uri + "\"";
    return false;
  }
  bool ok = names != nullptr && add_name(names.get(), GEN_URI, request.uri);
  for (const std::string& dns : request.dns) {
    if (!usable_name(dns)) {
      error = "not a DNS name: \"" + dns + "\"";
      return false;
    }
    ok = ok && add_name(names.get(), GEN_DNS, dns);
  }
  for (const std::string& ip : request.ips) {
    const std::optional<std::string> bytes = address_bytes(ip);
    if (!bytes) {
      error = "not an IP address: \"" + ip + "\"";
      return false;
    }
    ok = ok && add_name(names.get(), GEN_IPADD, *bytes);
  }
  ok = ok && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0,
                               X509V3_ADD_DEFAULT) == 1;
  if (!ok) error = openssl_reason("cannot write the names of a leaf");
  return ok;
}

// A certificate with serial, validity, name and key, without extensions and signature.
X509Ptr blank(std::string_view common_name, const Serial& serial, WallTime from, WallTime to,
              EVP_PKEY* key, std::string& error) {
  X509Ptr certificate(X509_new());
  if (certificate == nullptr || key == nullptr ||
      X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !set_serial(certificate.get(), serial) ||
      !set_time(X509_getm_notBefore(certificate.get()), from) ||
      !set_time(X509_getm_notAfter(certificate.get()), to) ||
      !add_common_name(X509_get_subject_name(certificate.get()), common_name) ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    error = openssl_reason("cannot make a certificate");
    return nullptr;
  }
  return certificate;
}

void read_names(const X509* certificate, CertificateInfo& info) {
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const auto* const value = static_cast<const ASN1_STRING*>(
        GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type));
    if (type != GEN_URI && type != GEN_DNS && type != GEN_IPADD) continue;
    const auto* const data = ASN1_STRING_get0_data(value);
    const auto size = static_cast<std::size_t>(ASN1_STRING_length(value));
    const std::string text(reinterpret_cast<const char*>(data), size);
    if (type == GEN_URI) info.uris.push_back(text);
    if (type == GEN_DNS) info.dns.push_back(text);
    char printed[INET6_ADDRSTRLEN];
    if (type == GEN_IPADD && (size == 4 || size == 16) &&
        inet_ntop(size == 4 ? AF_INET : AF_INET6, data, printed, sizeof printed) != nullptr) {
      info.ips.emplace_back(printed);
    }
  }
}

std::string hex_serial(const X509* certificate) {
  const BnPtr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  const Owned<char, [](char* text) { OPENSSL_free(text); }> text(
      number == nullptr ? nullptr : BN_bn2hex(number.get()));
  std::string serial = text == nullptr ? "0" : text.get();
  for (char& c : serial) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  serial.erase(0, std::min(serial.find_first_not_of('0'), serial.size() - 1));
  return serial;
}

std::optional<CertificateInfo> info_of(const X509* certificate) {
  const std::optional<WallTime> from = get_time(X509_get0_notBefore(certificate));
  const std::optional<WallTime> to = get_time(X509_get0_notAfter(certificate));
  if (!from || !to) return std::nullopt;
  CertificateInfo info;
  info.serial = hex_serial(certificate);
  info.not_before = *from;
  info.not_after = *to;
  info.is_ca = X509_check_ca(const_cast<X509*>(certificate)) == 1;
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
  info.common_name = name;
  read_names(certificate, info);
  return info;
}

// OpenSSL's reason why the chain does not hold for one purpose; nullopt when it does.
std::optional<std::string> chain_error(X509* leaf, X509_STORE* roots, int purpose, WallTime now) {
  const StoreContextPtr context(X509_STORE_CTX_new());
  if (context == nullptr || X509_STORE_CTX_init(context.get(), roots, leaf, nullptr) != 1) {
    return openssl_reason("cannot verify a certificate");
  }
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_STORE_CTX_set_time(context.get(), 0, std::chrono::system_clock::to_time_t(now));
  if (X509_verify_cert(context.get()) == 1) return std::nullopt;
  std::string reason = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
  ERR_clear_error();
  return reason;
}

}  // namespace

std::string replica_uri(std::string_view cluster_uid, std::string_view replica_uid) {
  return "fairlead://" + std::string(cluster_uid) + "/" + std::string(replica_uid);
}

std::string operator_uri(std::string_view cluster_uid) {
  return replica_uri(cluster_uid, "operator");
}

std::optional<Credential> make_ca(std::string_view cluster_name, WallTime now, const Serial& serial,
                                  std::string& error) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const std::string name = "Fairlead CA of " + std::string(cluster_name);
  const X509Ptr ca = blank(name, serial, now - kBackdate, now + kCaLifetime, key.get(), error);
  if (ca == nullptr) return std::nullopt;
  if (X509_set_issuer_name(ca.get(), X509_get_subject_name(ca.get())) != 1 ||
      !add_extension(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(ca.get(), ca.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(ca.get(), key.get(), EVP_sha256()) == 0) {
    error = openssl_reason("cannot make a CA");
    return std::nullopt;
  }
  return to_pem(ca.get(), key.get(), error);
}

std::optional<Credential> issue_leaf(const Credential& ca, const LeafRequest& request, WallTime now,
                                     const Serial& serial, std::string& error) {
  const X509Ptr issuer = parse_certificate(ca.certificate);
  const KeyPtr issuer_key = parse_key(ca.key);
  const std::optional<CertificateInfo> issuer_info =
      issuer == nullptr ? std::nullopt : info_of(issuer.get());
  if (!issuer_info || issuer_key == nullptr) {
    error = "the CA's certificate or key is not readable PEM";
  } else if (X509_check_private_key(issuer.get(), issuer_key.get()) != 1) {
    ERR_clear_error();
    error = "the CA's key does not belong to its certificate";
  } else if (now >= issuer_info->not_after) {
    error = "the CA has expired";
  } else if (request.lifetime <= std::chrono::hours{0}) {
    error = "the lifetime of a leaf must be positive";
  } else {
    error.clear();
  }
  if (!error.empty()) return std::nullopt;

  const KeyPtr key(EVP_EC_gen("P-256"));
  const WallTime end = std::min<WallTime>(now + request.lifetime, issuer_info->not_after);
  const X509Ptr leaf = blank(request.common_name.empty() ? "fairlead" : request.common_name, serial,
                             now - kBackdate, end, key.get(), error);
  if (leaf == nullptr || !add_alternative_names(leaf.get(), request, error)) return std::nullopt;
  X509* const at = leaf.get();
  if (X509_set_issuer_name(at, X509_get_subject_name(issuer.get())) != 1 ||
      !add_extension(at, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(at, issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !add_extension(at, issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth") ||
      !add_extension(at, issuer.get(), NID_subject_key_identifier, "hash") ||
      !add_extension(at, issuer.get(), NID_authority_key_identifier, "keyid:always") ||
      X509_sign(at, issuer_key.get(), EVP_sha256()) == 0) {
    error = openssl_reason("cannot sign a leaf");
    return std::nullopt;
  }
  return to_pem(leaf.get(), key.get(), error);
}

std::optional<CertificateInfo> inspect(std::string_view certificate_pem, std::string& error) {
  const X509Ptr certificate = parse_certificate(certificate_pem);
  std::optional<CertificateInfo> info =
      certificate == nullptr ? std::nullopt : info_of(certificate.get());
  if (!info) error = "no readable PEM certificate";
  return info;
}

std::optional<std::string> refuse_leaf(std::string_view certificate_pem, std::string_view ca_pem,
                                       std::string_view uri, WallTime now) {
  const X509Ptr leaf = parse_certificate(certificate_pem);
  const std::optional<CertificateInfo> info = leaf == nullptr ? std::nullopt : info_of(leaf.get());
  if (!info) return "no readable PEM certificate";

  const StorePtr roots(X509_STORE_new());
  const BioPtr bio = reader(ca_pem);
  while (const X509Ptr root{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    X509_STORE_add_cert(roots.get(), root.get());
  }
  ERR_clear_error();
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    if (auto reason = chain_error(leaf.get(), roots.get(), purpose, now)) return reason;
  }
  if (std::find(info->uris.begin(), info->uris.end(), uri) == info->uris.end()) {
    return "the certificate is not named " + std::string(uri);
  }
  return std::nullopt;
}

bool key_fits(const Credential& credential) {
  const X509Ptr certificate = parse_certificate(credential.certificate);
  const KeyPtr key = parse_key(credential.key);
  const bool fits = certificate != nullptr && key != nullptr &&
                    X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return fits;
}

WallTime renewal_time(const CertificateInfo& certificate, double jitter) {
  const std::chrono::duration<double> life = certificate.not_after - certificate.not_before;
  const std::chrono::duration<double> age = life * 2.0 / 3.0 + life * 0.1 * jitter;
  return certificate.not_before + std::chrono::duration_cast<WallTime::duration>(age);
}

bool needs_renewal(const CertificateInfo& certificate, WallTime now, double jitter) {
  return now >= renewal_time(certificate, jitter);
}

}  // namespace fairlead::op
