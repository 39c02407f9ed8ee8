// Certificates of a cluster: its own CA, one leaf per replica, one leaf for the operator.
//
// Keys are ECDSA P-256 and certificates are X.509 v3, made with OpenSSL in this process. Time and
// serial numbers are arguments; private keys come from OpenSSL's random generator. Everything is
// PEM text in and out, and every function is pure otherwise: no files, no globals, any thread.
//
// Identity is a URI in the subject alternative name: `fairlead://<cluster UID>/<replica UID>` for a
// replica, `fairlead://<cluster UID>/operator` for the operator. Callers dial an address and verify
// the URI, never a host name; the DNS names in a leaf are for agents and visitors.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fairlead::op {

using WallTime = std::chrono::system_clock::time_point;

// Leafs are valid from this long before they are issued, so that a replica whose clock is a little
// behind accepts one that was just made.
inline constexpr std::chrono::minutes kBackdate{5};
// Lifetime of the CA: 10 years of 365.25 days.
inline constexpr std::chrono::hours kCaLifetime{24 * 3652};

// Serial number of a certificate: 16 random bytes, unique in one CA. The top bit is cleared, since
// a serial is a positive integer.
using Serial = std::array<std::uint8_t, 16>;

struct Credential {
  std::string certificate;  // PEM, one certificate
  std::string key;          // PEM, PKCS#8, not encrypted: keep it in a file of mode 0600
};

struct LeafRequest {
  std::string common_name;        // for people; cut to the 64 characters that X.509 allows
  std::string uri;                // identity, see above; required
  std::vector<std::string> dns;   // may hold wildcards ("*.relay.localhost")
  std::vector<std::string> ips;   // textual IPv4 or IPv6 addresses
  std::chrono::hours lifetime{};  // from `now`; > 0, cut to the end of the CA's own life
};

struct CertificateInfo {
  std::string serial;  // lower-case hex without leading zeros; "0" for zero
  std::string common_name;
  WallTime not_before;
  WallTime not_after;
  std::vector<std::string> uris;
  std::vector<std::string> dns;
  std::vector<std::string> ips;
  bool is_ca = false;
};

std::string replica_uri(std::string_view cluster_uid, std::string_view replica_uid);
std::string operator_uri(std::string_view cluster_uid);

// A new self-signed CA named after the cluster. Fails only when OpenSSL does (no entropy, no
// memory): nullopt and OpenSSL's reason in `error`.
std::optional<Credential> make_ca(std::string_view cluster_name, WallTime now, const Serial& serial,
                                  std::string& error);

// A leaf signed by `ca` with a fresh key, for TLS server and client. nullopt with `error` when the
// CA is unparsable or expired at `now`, its key does not fit its certificate, a name is not usable
// (empty URI, malformed IP), the lifetime is not positive, or OpenSSL fails.
std::optional<Credential> issue_leaf(const Credential& ca, const LeafRequest& request, WallTime now,
                                     const Serial& serial, std::string& error);

// What the first certificate of a PEM text says; nullopt with `error` when there is none.
std::optional<CertificateInfo> inspect(std::string_view certificate_pem, std::string& error);

// Whether `certificate` may be served or presented at `now`: signed by a certificate of the bundle
// `ca_pem`, within its validity, usable as TLS server and client, and named `uri`. nullopt when all
// of that holds, else why not.
std::optional<std::string> refuse_leaf(std::string_view certificate_pem, std::string_view ca_pem,
                                       std::string_view uri, WallTime now);

// Whether the private key belongs to the certificate.
bool key_fits(const Credential& credential);

// When a certificate is due for renewal: two thirds of its life after not_before, plus up to a
// tenth of that life by `jitter`, so that the replicas of a cluster do not all renew in one moment.
// `jitter` is in [0, 1) and should be a fixed function of the replica: a value that changes from
// call to call would move the moment.
WallTime renewal_time(const CertificateInfo& certificate, double jitter);
bool needs_renewal(const CertificateInfo& certificate, WallTime now, double jitter);

}  // namespace fairlead::op
