#include "link/asio/tls_certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <utility>

namespace fairlead::link {
namespace {

using BioPointer = std::unique_ptr<BIO, OpensslDeleter<BIO_free_all>>;

BioPointer over(std::string_view text) {
  return BioPointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_of(const ASN1_STRING* value) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
          static_cast<std::size_t>(ASN1_STRING_length(value))};
}

std::string address_of(const ASN1_OCTET_STRING* value) {
  const int family = ASN1_STRING_length(value) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(value) != 16) return "malformed address";
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, ASN1_STRING_get0_data(value), text.data(), text.size());
  return text.data();
}

std::string subject_of(const X509* certificate) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB & ~XN_FLAG_SPC_EQ);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "no subject";
}

std::string serial_of(const X509* certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* hex = BN_bn2hex(number);
  std::string text = hex != nullptr ? hex : "";
  OPENSSL_free(hex);
  BN_free(number);
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - (text.empty() ? 0 : 1)));
  return text;
}

int no_passphrase(char*, int, int, void*) {
  return -1;
}

// What the peer meant with the alert it sent.
std::string_view alert_remedy(int alert) {
  switch (alert) {
    case SSL_AD_CERTIFICATE_REQUIRED:
      return ": it accepts only peers that show a certificate";
    case SSL_AD_UNKNOWN_CA:
      return ": it does not trust the authority that signed this side's certificate";
    case SSL_AD_CERTIFICATE_EXPIRED:
      return ": this side's certificate has expired";
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_ACCESS_DENIED:
      return ": it does not accept this side's certificate; its log says why";
    case SSL_AD_NO_APPLICATION_PROTOCOL:
      return ": it does not speak link/1; is this the right port?";
    case SSL_AD_PROTOCOL_VERSION:
      return ": it does not speak TLS 1.3";
    default:
      return "";
  }
}

std::string reason_of(unsigned long error) {
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : "no reason given";
}

}  // namespace

std::vector<X509Pointer> parse_certificates(std::string_view pem, std::string_view what,
                                            std::string& error) {
  std::vector<X509Pointer> all;
  const BioPointer bio = over(pem);
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr)) {
    all.emplace_back(next);
  }
  const unsigned long last = ERR_peek_last_error();
  ERR_clear_error();
  // Running out of PEM blocks is how the loop ends well.
  if (ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE) {
    if (all.empty()) {
      error = "the " + std::string(what) + " text holds no PEM block \"BEGIN CERTIFICATE\"";
    }
    return all;
  }
  error = "block " + std::to_string(all.size() + 1) + " of the " + std::string(what) +
          " text is not a certificate: " + reason_of(last);
  return {};
}

KeyPointer parse_key(std::string_view pem, std::string& error) {
  const BioPointer bio = over(pem);
  KeyPointer key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  if (!key) {
    error =
        pem.find("ENCRYPTED") != std::string_view::npos
            ? "the key is encrypted: store it without a passphrase, in a file of mode 0600"
            : "the key text holds no usable PEM private key: " + reason_of(ERR_peek_last_error());
  }
  ERR_clear_error();
  return key;
}

PeerCertificate describe_certificate(const X509* certificate) {
  PeerCertificate peer;
  peer.serial = serial_of(certificate);
  peer.subject = subject_of(certificate);
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int n = 0; n < sk_GENERAL_NAME_num(names); ++n) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, n);
    if (name->type == GEN_URI) peer.uris.push_back(text_of(name->d.uniformResourceIdentifier));
    if (name->type == GEN_DNS) peer.dns.push_back(text_of(name->d.dNSName));
    if (name->type == GEN_IPADD) peer.ips.push_back(address_of(name->d.iPAddress));
  }
  GENERAL_NAMES_free(names);
  return peer;
}

TlsFailure describe_tls_failure(unsigned long error, bool no_alpn, const std::string& refusal) {
  if (no_alpn) {
    return {"no-alpn", "the client does not speak link/1 (ALPN): this port is for links only"};
  }
  if (!refusal.empty()) return {"certificate", refusal};
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return {"tls", "TLS failed: " + reason_of(error)};
  if (reason > SSL_AD_REASON_OFFSET) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    return {"refused", "the peer ended TLS with the alert \"" +
                           std::string(SSL_alert_desc_string_long(alert)) + "\"" +
                           std::string(alert_remedy(alert))};
  }
  switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
      return {"not-tls", "an HTTP request came instead of TLS: this port is for links only"};
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_UNEXPECTED_MESSAGE:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
    case SSL_R_RECORD_TOO_SMALL:
      return {"not-tls", "what came is not TLS (" + reason_of(error) + ")"};
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_VERSION_TOO_LOW:
      return {"version", "the peer offers no TLS 1.3: update it"};
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return {"certificate", "the client showed no certificate, and here one is required"};
    default:
      return {"tls", "TLS failed: " + reason_of(error)};
  }
}

}  // namespace fairlead::link
