#include "link/asio/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "link/asio/tls_certificate.h"

namespace fairlead::link {
namespace {

// "link/1" as ALPN's list: a length byte before each name.
constexpr std::array<unsigned char, 7> kAlpn = {6, 'l', 'i', 'n', 'k', '/', '1'};
// AES-128 first: it is as strong as a link needs and the fastest where the CPU has AES.
constexpr const char* kCipherSuites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

int engine_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

std::string openssl_words() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "no reason given";
}

std::string join(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

std::string names_of(const PeerCertificate& peer) {
  std::vector<std::string> names = peer.dns;
  names.insert(names.end(), peer.ips.begin(), peer.ips.end());
  names.insert(names.end(), peer.uris.begin(), peer.uris.end());
  return names.empty() ? "no names" : join(names);
}

// What to do about a chain that was not accepted.
std::string verify_remedy(int error) {
  switch (error) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "; give the authority that signed it as the trusted CA";
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "; renew it, or correct this machine's clock";
    case X509_V_ERR_INVALID_PURPOSE:
      return "; it must be issued for TLS servers and clients";
    default:
      return "";
  }
}

}  // namespace

// The callbacks OpenSSL makes into an engine.
struct TlsCallbacks {
  static int bio_read(BIO* bio, char* out, size_t size, size_t* n) {
    auto* engine = static_cast<TlsEngine*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    *n = std::min(size, engine->input_.size());
    if (*n == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    std::memcpy(out, engine->input_.data(), *n);
    engine->input_ = engine->input_.subspan(*n);
    return 1;
  }
  static int bio_write(BIO* bio, const char* bytes, size_t size, size_t* n) {
    auto* engine = static_cast<TlsEngine*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const auto* from = reinterpret_cast<const std::byte*>(bytes);
    engine->output_->insert(engine->output_->end(), from, from + size);
    *n = size;
    return 1;
  }
  static long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO_METHOD* bio_method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "link memory");
      BIO_meth_set_read_ex(made, bio_read);
      BIO_meth_set_write_ex(made, bio_write);
      BIO_meth_set_ctrl(made, bio_ctrl);
      return made;
    }();
    return method;
  }

  static TlsEngine* engine_of(const SSL* ssl) {
    return static_cast<TlsEngine*>(SSL_get_ex_data(ssl, engine_index()));
  }

  // A ClientHello without the ALPN extension would otherwise be accepted in silence.
  static int client_hello(SSL* ssl, int* alert, void*) {
    const unsigned char* extension = nullptr;
    size_t size = 0;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation,
                                  &extension, &size) == 1) {
      return SSL_CLIENT_HELLO_SUCCESS;
    }
    engine_of(ssl)->no_alpn_ = true;
    *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    return SSL_CLIENT_HELLO_ERROR;
  }

  static int select_alpn(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                         const unsigned char* offered, unsigned offered_size, void*) {
    unsigned char* found = nullptr;
    if (SSL_select_next_proto(&found, chosen_size, kAlpn.data(), kAlpn.size(), offered,
                              offered_size) == OPENSSL_NPN_NEGOTIATED) {
      *chosen = found;
      return SSL_TLSEXT_ERR_OK;
    }
    engine_of(ssl)->no_alpn_ = true;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }

  static int verify(int chain_ok, X509_STORE_CTX* store) {
    auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    TlsEngine* engine = engine_of(ssl);
    X509* certificate = X509_STORE_CTX_get_current_cert(store);
    const PeerCertificate peer =
        certificate ? describe_certificate(certificate) : PeerCertificate();
    if (chain_ok == 0) {
      const int error = X509_STORE_CTX_get_error(store);
      if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        engine->refusal_ = "the peer's certificate (" + peer.subject + ") is for " +
                           names_of(peer) + ", not for " + engine->expected_host_;
      } else {
        engine->refusal_ = "the peer's certificate (" + peer.subject +
                           ") was not accepted: " + X509_verify_cert_error_string(error) +
                           verify_remedy(error);
      }
      return 0;
    }
    if (X509_STORE_CTX_get_error_depth(store) != 0 || !engine->check_) return 1;
    engine->refusal_ = engine->check_(peer);
    if (engine->refusal_.empty()) return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
  }
};

// --- identities ---

namespace {

bool use_certificate(SSL_CTX* context, const TlsMaterial& material, std::string& serial,
                     std::string& error) {
  const auto chain = parse_certificates(material.certificate, "certificate", error);
  if (chain.empty()) return false;
  const auto key = parse_key(material.key, error);
  if (!key) return false;
  if (SSL_CTX_use_certificate(context, chain.front().get()) != 1) {
    error = "the certificate cannot be used for TLS: " + openssl_words();
    return false;
  }
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    error = "the key is not the key of the certificate: give the two files that belong together";
    return false;
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    error = "the key cannot be used for TLS: " + openssl_words();
    return false;
  }
  for (std::size_t n = 1; n < chain.size(); ++n) {
    SSL_CTX_add1_chain_cert(context, chain[n].get());
  }
  serial = describe_certificate(chain.front().get()).serial;
  return true;
}

bool trust(SSL_CTX* context, const std::string& ca, std::string& error) {
  if (ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return true;
  }
  const auto authorities = parse_certificates(ca, "CA", error);
  if (authorities.empty()) return false;
  for (const auto& authority : authorities) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
  }
  return true;
}

void set_rules(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context, kCipherSuites);
  SSL_CTX_set_options(
      context, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  // An idle link gives its record buffers back.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_client_hello_cb(context, TlsCallbacks::client_hello, nullptr);
  SSL_CTX_set_alpn_select_cb(context, TlsCallbacks::select_alpn, nullptr);
  SSL_CTX_set_alpn_protos(context, kAlpn.data(), kAlpn.size());
}

bool read_file(const std::string& path, std::string& text, std::string& error) {
  if (path.empty()) return true;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  if (file.good() || file.eof()) return true;
  error = "cannot read " + path + ": " + (errno != 0 ? std::strerror(errno) : "read error");
  return false;
}

}  // namespace

std::optional<TlsMaterial> read_tls_material(const std::string& certificate_path,
                                             const std::string& key_path,
                                             const std::string& ca_path, std::string& error) {
  TlsMaterial material;
  if (!read_file(certificate_path, material.certificate, error) ||
      !read_file(key_path, material.key, error) || !read_file(ca_path, material.ca, error)) {
    return std::nullopt;
  }
  // An empty CA text means "trust what this system trusts"; a file that is empty does not.
  if (!ca_path.empty() && material.ca.empty()) {
    error = "the CA file " + ca_path + " is empty";
    return std::nullopt;
  }
  return material;
}

std::optional<TlsIdentity::State> TlsIdentity::make(const TlsMaterial& material,
                                                    std::string& error) {
  ERR_clear_error();
  State state;
  state.context = std::shared_ptr<SSL_CTX>(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (!state.context) {
    error = "OpenSSL gives no TLS context: " + openssl_words();
    return std::nullopt;
  }
  set_rules(state.context.get());
  const bool any = !material.certificate.empty() || !material.key.empty();
  if (any && !use_certificate(state.context.get(), material, state.serial, error)) {
    return std::nullopt;
  }
  if (!trust(state.context.get(), material.ca, error)) return std::nullopt;
  state.has_ca = !material.ca.empty();
  return state;
}

std::shared_ptr<TlsIdentity> TlsIdentity::create(const TlsMaterial& material, std::string& error) {
  auto state = make(material, error);
  if (!state) return nullptr;
  std::shared_ptr<TlsIdentity> identity(new TlsIdentity());
  identity->state_ = std::move(*state);
  return identity;
}

bool TlsIdentity::replace(const TlsMaterial& material, std::string& error) {
  auto state = make(material, error);
  if (!state) return false;
  const std::lock_guard lock(mutex_);
  state_ = std::move(*state);
  return true;
}

TlsIdentity::State TlsIdentity::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}
std::string TlsIdentity::serial() const {
  return state().serial;
}
bool TlsIdentity::has_ca() const {
  return state().has_ca;
}

PeerCheck require_uri(std::string uri) {
  return [uri = std::move(uri)](const PeerCertificate& peer) -> std::string {
    if (std::find(peer.uris.begin(), peer.uris.end(), uri) != peer.uris.end()) return {};
    return "the peer's certificate (" + peer.subject + ") is for " + names_of(peer) + ", not for " +
           uri;
  };
}

// --- engine ---

std::unique_ptr<TlsEngine> TlsEngine::server(const TlsIdentity& identity,
                                             const TlsServerPolicy& policy, std::string& error) {
  if (!identity.has_certificate()) {
    error = "a listener needs a certificate and a key";
    return nullptr;
  }
  const bool asks = policy.client_certificate != ClientCertificate::kNone;
  if (asks && !identity.has_ca()) {
    error = "asking for client certificates needs a CA that may sign them";
    return nullptr;
  }
  std::unique_ptr<TlsEngine> engine(new TlsEngine());
  engine->server_ = true;
  engine->check_ = policy.check;
  if (!engine->init(identity, error)) return nullptr;
  SSL_set_accept_state(engine->ssl_);
  int mode = SSL_VERIFY_NONE;
  if (asks) mode = SSL_VERIFY_PEER;
  if (policy.client_certificate == ClientCertificate::kRequired) {
    mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  }
  SSL_set_verify(engine->ssl_, mode, TlsCallbacks::verify);
  return engine;
}

std::unique_ptr<TlsEngine> TlsEngine::client(const TlsIdentity& identity,
                                             const TlsClientPolicy& policy, std::string& error) {
  if (policy.host.empty() && !policy.check) {
    error = "a dial needs a host name or a check to tell the right server by";
    return nullptr;
  }
  std::unique_ptr<TlsEngine> engine(new TlsEngine());
  engine->expected_host_ = policy.host;
  engine->check_ = policy.check;
  if (!engine->init(identity, error)) return nullptr;
  SSL_set_connect_state(engine->ssl_);
  SSL_set_verify(engine->ssl_, SSL_VERIFY_PEER, TlsCallbacks::verify);
  if (policy.host.empty()) return engine;
  X509_VERIFY_PARAM* param = SSL_get0_param(engine->ssl_);
  if (X509_VERIFY_PARAM_set1_ip_asc(param, policy.host.c_str()) == 1) return engine;
  ERR_clear_error();
  X509_VERIFY_PARAM_set_hostflags(
      param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (X509_VERIFY_PARAM_set1_host(param, policy.host.c_str(), 0) != 1 ||
      SSL_set_tlsext_host_name(engine->ssl_, policy.host.c_str()) != 1) {
    error = "\"" + policy.host + "\" is not a usable host name: " + openssl_words();
    return nullptr;
  }
  return engine;
}

bool TlsEngine::init(const TlsIdentity& identity, std::string& error) {
  ERR_clear_error();
  context_ = identity.state().context;
  ssl_ = SSL_new(context_.get());
  BIO* bio = ssl_ != nullptr ? BIO_new(TlsCallbacks::bio_method()) : nullptr;
  if (bio == nullptr) {
    error = "OpenSSL gives no TLS connection: " + openssl_words();
    return false;
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_ex_data(ssl_, engine_index(), this);
  return true;
}

TlsEngine::~TlsEngine() {
  SSL_free(ssl_);
}

TlsEngine::Result TlsEngine::handshake(std::vector<std::byte>& out) {
  ERR_clear_error();
  output_ = &out;
  const int outcome = SSL_do_handshake(ssl_);
  if (outcome != 1) {
    return SSL_get_error(ssl_, outcome) == SSL_ERROR_WANT_READ ? Result::kMore : fail();
  }
  const unsigned char* alpn = nullptr;
  unsigned alpn_size = 0;
  SSL_get0_alpn_selected(ssl_, &alpn, &alpn_size);
  if (alpn_size == 0) {
    failure_ = {"no-alpn",
                "the server speaks TLS but not link/1 (ALPN): is the address that of a relay's "
                "link port?"};
    return Result::kFailed;
  }
  if (X509* certificate = SSL_get0_peer_certificate(ssl_)) {
    peer_ = describe_certificate(certificate);
  }
  return Result::kDone;
}

TlsEngine::Result TlsEngine::read(std::span<std::byte> plain, std::size_t& n,
                                  std::vector<std::byte>& out) {
  ERR_clear_error();
  output_ = &out;
  const int outcome = SSL_read_ex(ssl_, plain.data(), plain.size(), &n);
  if (outcome == 1) return Result::kDone;
  n = 0;
  switch (SSL_get_error(ssl_, outcome)) {
    case SSL_ERROR_WANT_READ:
      return Result::kMore;
    case SSL_ERROR_ZERO_RETURN:
      return Result::kEnded;
    default:
      return fail();
  }
}

bool TlsEngine::write(Bytes plain, std::vector<std::byte>& out) {
  ERR_clear_error();
  output_ = &out;
  std::size_t n = 0;
  if (SSL_write_ex(ssl_, plain.data(), plain.size(), &n) == 1 && n == plain.size()) return true;
  fail();
  return false;
}

void TlsEngine::close_notify(std::vector<std::byte>& out) {
  ERR_clear_error();
  output_ = &out;
  SSL_shutdown(ssl_);
}

TlsEngine::Result TlsEngine::fail() {
  failure_ = describe_tls_failure(ERR_peek_error(), no_alpn_, refusal_);
  ERR_clear_error();
  return Result::kFailed;
}

}  // namespace fairlead::link
