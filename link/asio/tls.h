// TLS 1.3 for links, without sockets: identities (certificate, key, trusted authorities) that can
// be replaced while in use, and one end of one TLS connection over memory.
//
// Both ends must speak ALPN `link/1`; a ClientHello without it is refused. There are no session
// tickets, no resumption and no early data, so every link proves who its peer is anew.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fairlead/link/types.h"

struct ssl_st;
struct ssl_ctx_st;
struct x509_store_ctx_st;

namespace fairlead::link {

// PEM texts. An end that only dials and shows no certificate leaves `certificate` and `key` empty.
struct TlsMaterial {
  std::string certificate;  // the leaf first, then what leads to its authority, if anything
  std::string key;          // of the leaf, not encrypted
  std::string ca;           // authorities that may sign peers; empty: those of this system
};

// Reads the files; an empty path leaves its field empty. Nothing and `error` (the path, the
// system's words) when one cannot be read.
std::optional<TlsMaterial> read_tls_material(const std::string& certificate_path,
                                             const std::string& key_path,
                                             const std::string& ca_path, std::string& error);

// What a peer showed. Read from a certificate that was verified.
struct PeerCertificate {
  std::string serial;   // lower-case hex without leading zeros; "" when the peer showed none
  std::string subject;  // for people: "CN=relay-0"
  std::vector<std::string> uris, dns, ips;  // subject alternative names
  bool present() const { return !serial.empty(); }
};

// Who this process is, shared by its listeners and dialers. Thread-safe.
class TlsIdentity {
 public:
  // Null with `error` when a text does not parse, holds no certificate, the key is missing,
  // encrypted or not that of the certificate.
  static std::shared_ptr<TlsIdentity> create(const TlsMaterial& material, std::string& error);

  // Handshakes that begin from now on use `material`; links that stand keep what they have. False
  // with `error`, and nothing changed, for the reasons create() has.
  bool replace(const TlsMaterial& material, std::string& error);

  // Serial of the certificate served now, as in PeerCertificate; "" when there is none.
  std::string serial() const;
  bool has_certificate() const { return !serial().empty(); }
  // Authorities were given; without them those of this system are trusted.
  bool has_ca() const;

 private:
  friend class TlsEngine;
  struct State {
    std::shared_ptr<ssl_ctx_st> context;
    std::string serial;
    bool has_ca = false;
  };
  TlsIdentity() = default;
  static std::optional<State> make(const TlsMaterial& material, std::string& error);
  State state() const;

  mutable std::mutex mutex_;
  State state_;
};

// Judges a peer whose certificate chain was verified: empty to accept, else why not. Runs inside
// the handshake on the link's thread and must not block. The refused peer is sent a TLS alert; the
// text goes to this side's log.
using PeerCheck = std::function<std::string(const PeerCertificate&)>;

// Accepts the peer whose URI names include `uri`.
PeerCheck require_uri(std::string uri);

enum class ClientCertificate { kNone, kOptional, kRequired };

struct TlsServerPolicy {
  ClientCertificate client_certificate = ClientCertificate::kNone;
  PeerCheck check;  // may be null; not asked when the client shows no certificate
};

struct TlsClientPolicy {
  // DNS name or IP address that the server's certificate must carry as an alternative name. A DNS
  // name is also sent as SNI.
  std::string host;
  // Asked when set. At least one of `host` and `check` must be given.
  PeerCheck check;
};

// Why a handshake or a TLS connection failed.
struct TlsFailure {
  // One word for counting and for limiting logs: "not-tls", "no-alpn", "version", "certificate",
  // "refused" (the peer sent an alert), "tls" (anything else).
  std::string_view cause;
  std::string text;  // for people: what failed and what to do
};

// One end of one TLS connection: ciphertext and plaintext in memory, no I/O. Not thread-safe.
class TlsEngine {
 public:
  // Null with `error` when the identity does not fit the policy: a server without a certificate,
  // one that asks for client certificates without authorities of its own, a client that checks
  // nothing.
  static std::unique_ptr<TlsEngine> server(const TlsIdentity& identity,
                                           const TlsServerPolicy& policy, std::string& error);
  static std::unique_ptr<TlsEngine> client(const TlsIdentity& identity,
                                           const TlsClientPolicy& policy, std::string& error);
  ~TlsEngine();
  TlsEngine(const TlsEngine&) = delete;
  TlsEngine& operator=(const TlsEngine&) = delete;

  enum class Result { kDone, kMore, kEnded, kFailed };

  // Ciphertext from the peer, borrowed until handshake() or read() answered kMore or it was taken
  // back by take_input().
  void give_input(Bytes ciphertext) { input_ = ciphertext; }
  Bytes take_input() { return std::exchange(input_, {}); }

  // Each of these appends the ciphertext to be sent to `out`, also when it fails (an alert).
  //
  // kDone once the peer is who it must be; kMore when input is needed; kFailed: see failure().
  Result handshake(std::vector<std::byte>& out);
  // kDone with n > 0 bytes (at most one record); kMore; kEnded at close_notify; kFailed.
  Result read(std::span<std::byte> plain, std::size_t& n, std::vector<std::byte>& out);
  // Every 16,384 bytes become one record. False: see failure().
  bool write(Bytes plain, std::vector<std::byte>& out);
  void close_notify(std::vector<std::byte>& out);

  // The peer's certificate, once handshake() answered kDone.
  const PeerCertificate& peer() const { return peer_; }
  const TlsFailure& failure() const { return failure_; }

 private:
  friend struct TlsCallbacks;
  TlsEngine() = default;
  bool init(const TlsIdentity& identity, std::string& error);
  Result fail();

  std::shared_ptr<ssl_ctx_st> context_;
  ssl_st* ssl_ = nullptr;
  bool server_ = false;
  std::string expected_host_;
  PeerCheck check_;
  Bytes input_;
  std::vector<std::byte>* output_ = nullptr;  // during a call
  bool no_alpn_ = false;                      // the ClientHello named no protocol of ours
  std::string refusal_;                       // why the peer's certificate was refused
  PeerCertificate peer_;
  TlsFailure failure_;
};

}  // namespace fairlead::link
