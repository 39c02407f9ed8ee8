#include "link/asio/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <array>
#include <fstream>
#include <random>

#include "link/asio/testing_certificates.h"

namespace fairlead::link {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TestAuthority;
using testing::TestLeaf;
using Result = TlsEngine::Result;

// Two engines and the bytes between them.
class TlsTest : public ::testing::Test {
 protected:
  void make(const TlsIdentity& server_identity, const TlsServerPolicy& server_policy,
            const TlsIdentity& client_identity, const TlsClientPolicy& client_policy) {
    std::string error;
    server_ = TlsEngine::server(server_identity, server_policy, error);
    ASSERT_TRUE(server_) << error;
    client_ = TlsEngine::client(client_identity, client_policy, error);
    ASSERT_TRUE(client_) << error;
  }

  // Steps one end with what the other has sent; its answer goes to the other's input.
  static Result step(TlsEngine& engine, std::vector<std::byte>& in, std::vector<std::byte>& out) {
    engine.give_input(in);
    const Result result = engine.handshake(out);
    const Bytes rest = engine.take_input();
    in.erase(in.begin(), in.end() - static_cast<std::ptrdiff_t>(rest.size()));
    return result;
  }

  // Both results once nothing moves any more.
  std::pair<Result, Result> handshake() {
    Result client = Result::kMore;
    Result server = Result::kMore;
    for (int turn = 0; turn < 4; ++turn) {
      if (client == Result::kMore) client = step(*client_, to_client_, to_server_);
      if (server == Result::kMore) server = step(*server_, to_server_, to_client_);
    }
    return {client, server};
  }

  static Result read(TlsEngine& engine, std::vector<std::byte>& in, std::string& text) {
    std::array<std::byte, 20000> plain{};
    std::vector<std::byte> out;
    std::size_t n = 0;
    engine.give_input(in);
    const Result result = engine.read(plain, n, out);
    const Bytes rest = engine.take_input();
    in.erase(in.begin(), in.end() - static_cast<std::ptrdiff_t>(rest.size()));
    text = std::string(as_text(Bytes(plain).first(n)));
    return result;
  }

  static std::shared_ptr<TlsIdentity> identity(const TlsMaterial& material) {
    std::string error;
    auto made = TlsIdentity::create(material, error);
    EXPECT_TRUE(made) << error;
    return made;
  }

  TestAuthority authority_;
  std::unique_ptr<TlsEngine> client_, server_;
  std::vector<std::byte> to_client_, to_server_;
};

TEST_F(TlsTest, HandshakeAndBytesBothWays) {
  make(*authority_.localhost(), {}, *authority_.trusting(), {"localhost", nullptr});
  ASSERT_EQ(handshake(), std::pair(Result::kDone, Result::kDone));
  EXPECT_THAT(client_->peer().dns, ElementsAre("localhost"));
  EXPECT_FALSE(server_->peer().present());

  std::string text;
  ASSERT_TRUE(client_->write(as_bytes("to the server"), to_server_));
  ASSERT_EQ(read(*server_, to_server_, text), Result::kDone);
  EXPECT_EQ(text, "to the server");
  ASSERT_TRUE(server_->write(as_bytes("to the client"), to_client_));
  ASSERT_EQ(read(*client_, to_client_, text), Result::kDone);
  EXPECT_EQ(text, "to the client");
  EXPECT_EQ(read(*client_, to_client_, text), Result::kMore);
}

TEST_F(TlsTest, ServerSendsNothingAfterTheHandshake) {
  make(*authority_.localhost(), {}, *authority_.trusting(), {"localhost", nullptr});
  handshake();
  EXPECT_THAT(to_client_, IsEmpty()) << "a session ticket went out";
}

// A full frame is one record: 22 bytes of ciphertext more, and the reader gets it in one piece.
TEST_F(TlsTest, FullFrameIsOneRecord) {
  make(*authority_.localhost(), {}, *authority_.trusting(), {"localhost", nullptr});
  handshake();
  const std::string frame(16384, 'x');
  ASSERT_TRUE(client_->write(as_bytes(frame + frame), to_server_));
  EXPECT_EQ(to_server_.size(), 2 * (16384u + 22u));
  std::string text;
  ASSERT_EQ(read(*server_, to_server_, text), Result::kDone);
  EXPECT_EQ(text, frame);
}

TEST_F(TlsTest, CloseNotifyIsAnEndAndNotAnError) {
  make(*authority_.localhost(), {}, *authority_.trusting(), {"localhost", nullptr});
  handshake();
  client_->close_notify(to_server_);
  std::string text;
  EXPECT_EQ(read(*server_, to_server_, text), Result::kEnded);
}

TEST_F(TlsTest, CorruptRecordFails) {
  make(*authority_.localhost(), {}, *authority_.trusting(), {"localhost", nullptr});
  handshake();
  ASSERT_TRUE(client_->write(as_bytes("hello"), to_server_));
  to_server_.back() ^= std::byte{1};
  std::string text;
  EXPECT_EQ(read(*server_, to_server_, text), Result::kFailed);
  EXPECT_THAT(server_->failure().text, HasSubstr("decryption failed or bad record mac"));
}

TEST_F(TlsTest, IpAddressIsCheckedAsAnAddress) {
  make(*authority_.localhost(), {}, *authority_.trusting(), {"127.0.0.1", nullptr});
  EXPECT_EQ(handshake().first, Result::kDone);
}

struct Refusal {
  const char* name;
  TestLeaf server_leaf;
  TlsClientPolicy policy;
  std::vector<const char*> words;
};

class RefusedServerTest : public TlsTest, public ::testing::WithParamInterface<Refusal> {};

TEST_P(RefusedServerTest, ClientSaysWhy) {
  make(*authority_.identity(GetParam().server_leaf), {}, *authority_.trusting(), GetParam().policy);
  const auto [client, server] = handshake();
  ASSERT_EQ(client, Result::kFailed);
  EXPECT_EQ(client_->failure().cause, "certificate");
  for (const char* word : GetParam().words) EXPECT_THAT(client_->failure().text, HasSubstr(word));
  EXPECT_EQ(server, Result::kFailed);
  EXPECT_EQ(server_->failure().cause, "refused") << "the server is told by an alert";
}

TestLeaf leaf(std::vector<std::string> dns, std::vector<std::string> uris = {}) {
  TestLeaf made;
  made.dns = std::move(dns);
  made.uris = std::move(uris);
  return made;
}
TestLeaf expired() {
  TestLeaf made = leaf({"relay.test"});
  made.valid_from = -7200;
  made.valid_until = -3600;
  return made;
}
TestLeaf by_common_name() {
  TestLeaf made;
  made.common_name = "relay.test";
  return made;
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedServerTest,
    ::testing::Values(
        Refusal{"WrongHost",
                leaf({"other.test"}),
                {"relay.test", nullptr},
                {"other.test", "not for relay.test"}},
        Refusal{"WrongAddress",
                leaf({"relay.test"}),
                {"127.0.0.9", nullptr},
                {"relay.test", "not for 127.0.0.9"}},
        Refusal{"CommonNameIsNoName", by_common_name(), {"relay.test", nullptr}, {"no names"}},
        Refusal{"Expired", expired(), {"relay.test", nullptr}, {"expired", "clock"}},
        Refusal{"WrongUri",
                leaf({}, {"fairlead://c1/r2"}),
                {"", require_uri("fairlead://c1/r1")},
                {"fairlead://c1/r2", "not for fairlead://c1/r1"}},
        Refusal{"UriPrefixIsNotEnough",
                leaf({}, {"fairlead://c1/r11"}),
                {"", require_uri("fairlead://c1/r1")},
                {"not for fairlead://c1/r1"}}),
    [](const auto& each) { return each.param.name; });

TEST_F(TlsTest, UnknownAuthorityIsRefusedWithARemedy) {
  TestAuthority other("other CA");
  make(*authority_.localhost(), {}, *other.trusting(), {"localhost", nullptr});
  EXPECT_EQ(handshake().first, Result::kFailed);
  EXPECT_THAT(client_->failure().text, HasSubstr("trusted CA"));
  EXPECT_THAT(server_->failure().text, HasSubstr("does not trust the authority"));
}

class MutualTest : public TlsTest {
 protected:
  TlsServerPolicy policy(ClientCertificate mode) { return {mode, require_uri("fairlead://c1/r1")}; }
};

TEST_F(MutualTest, RightUriIsAcceptedAndReadable) {
  const auto client = authority_.identity(leaf({}, {"fairlead://c1/r1"}));
  make(*authority_.localhost(), policy(ClientCertificate::kRequired), *client,
       {"localhost", nullptr});
  ASSERT_EQ(handshake(), std::pair(Result::kDone, Result::kDone));
  EXPECT_THAT(server_->peer().uris, ElementsAre("fairlead://c1/r1"));
  EXPECT_EQ(server_->peer().serial, client->serial());
}

TEST_F(MutualTest, WrongUriIsRefused) {
  make(*authority_.localhost(), policy(ClientCertificate::kRequired),
       *authority_.identity(leaf({}, {"fairlead://c1/r2"})), {"localhost", nullptr});
  EXPECT_EQ(handshake().second, Result::kFailed);
  EXPECT_EQ(server_->failure().cause, "certificate");
  EXPECT_THAT(server_->failure().text, HasSubstr("not for fairlead://c1/r1"));
  // TLS 1.3 clients learn it with the first read.
  std::string text;
  EXPECT_EQ(read(*client_, to_client_, text), Result::kFailed);
  EXPECT_THAT(client_->failure().text, HasSubstr("its log says why"));
}

TEST_F(MutualTest, MissingCertificateIsRefusedWhenRequired) {
  make(*authority_.localhost(), policy(ClientCertificate::kRequired), *authority_.trusting(),
       {"localhost", nullptr});
  EXPECT_EQ(handshake().second, Result::kFailed);
  EXPECT_THAT(server_->failure().text, HasSubstr("showed no certificate"));
  std::string text;
  EXPECT_EQ(read(*client_, to_client_, text), Result::kFailed);
  EXPECT_THAT(client_->failure().text, HasSubstr("only peers that show a certificate"));
}

TEST_F(MutualTest, MissingCertificateIsAcceptedWhenOptional) {
  make(*authority_.localhost(), policy(ClientCertificate::kOptional), *authority_.trusting(),
       {"localhost", nullptr});
  EXPECT_EQ(handshake().second, Result::kDone);
  EXPECT_FALSE(server_->peer().present());
}

TEST_F(MutualTest, WrongCertificateIsRefusedWhenOptional) {
  TestAuthority other("other CA");
  TlsMaterial material = other.issue(leaf({}, {"fairlead://c1/r1"}));
  material.ca = authority_.certificate();
  make(*authority_.localhost(), policy(ClientCertificate::kOptional), *identity(material),
       {"localhost", nullptr});
  EXPECT_EQ(handshake().second, Result::kFailed);
  EXPECT_EQ(server_->failure().cause, "certificate");
}

// A client of plain OpenSSL, to say what our own never does.
class ForeignClient {
 public:
  explicit ForeignClient(int version, std::string_view alpn) {
    context_ = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(context_, version);
    ssl_ = SSL_new(context_);
    SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(alpn.data()),
                        static_cast<unsigned>(alpn.size()));
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), out_);
    SSL_connect(ssl_);
  }
  ~ForeignClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  std::vector<std::byte> hello() const {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out_, &bytes);
    const auto* begin = reinterpret_cast<const std::byte*>(bytes);
    return {begin, begin + size};
  }

 private:
  SSL_CTX* context_;
  SSL* ssl_;
  BIO* out_;
};

struct Stranger {
  const char* name;
  std::vector<std::byte> first_bytes;
  std::string_view cause;
};
std::vector<std::byte> raw(std::string_view text) {
  const Bytes bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

class StrangerTest : public TlsTest, public ::testing::WithParamInterface<Stranger> {};

TEST_P(StrangerTest, IsRefusedWithItsCause) {
  std::string error;
  server_ = TlsEngine::server(*authority_.localhost(), {}, error);
  to_server_ = GetParam().first_bytes;
  ASSERT_EQ(step(*server_, to_server_, to_client_), Result::kFailed);
  EXPECT_EQ(server_->failure().cause, GetParam().cause) << server_->failure().text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, StrangerTest,
    ::testing::Values(
        Stranger{"NoAlpn", ForeignClient(TLS1_3_VERSION, "").hello(), "no-alpn"},
        Stranger{"OtherAlpn", ForeignClient(TLS1_3_VERSION, "\x02h2").hello(), "no-alpn"},
        Stranger{"Tls12", ForeignClient(TLS1_2_VERSION, "\x06link/1").hello(), "version"},
        Stranger{"Http", raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "not-tls"},
        Stranger{"HttpConnect", raw("CONNECT x:443 HTTP/1.1\r\n\r\n"), "not-tls"},
        Stranger{"Ssh", raw("SSH-2.0-OpenSSH_9.2\r\n"), "not-tls"},
        Stranger{"Zeros", std::vector<std::byte>(64), "not-tls"}),
    [](const auto& each) { return each.param.name; });

TEST_F(TlsTest, RandomFirstBytesNeverHurt) {
  const auto server_identity = authority_.localhost();
  std::mt19937 random(7);
  for (int n = 0; n < 2000; ++n) {
    std::string error;
    server_ = TlsEngine::server(*server_identity, {}, error);
    std::vector<std::byte> bytes(random() % 600 + 600);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    if (n % 2 == 0) {  // the look of a handshake record
      bytes[0] = std::byte{22}, bytes[1] = std::byte{3}, bytes[2] = std::byte{1};
      bytes[3] = std::byte{1}, bytes[4] = std::byte{0}, bytes[5] = std::byte{1};
    }
    std::vector<std::byte> out;
    ASSERT_NE(step(*server_, bytes, out), Result::kDone);
    ASSERT_LE(out.size(), 64u);
  }
}

// --- identities ---

TEST_F(TlsTest, NewHandshakesTakeTheReplacedCertificate) {
  const auto server_identity = authority_.localhost();
  make(*server_identity, {}, *authority_.trusting(), {"localhost", nullptr});
  const std::string before = server_identity->serial();
  std::string error;
  ASSERT_TRUE(server_identity->replace(authority_.issue(leaf({"localhost"})), error)) << error;
  const std::string after = server_identity->serial();
  ASSERT_NE(before, after);

  ASSERT_EQ(handshake().first, Result::kDone);
  EXPECT_EQ(client_->peer().serial, before) << "it had begun before";
  to_client_.clear(), to_server_.clear();
  make(*server_identity, {}, *authority_.trusting(), {"localhost", nullptr});
  ASSERT_EQ(handshake().first, Result::kDone);
  EXPECT_EQ(client_->peer().serial, after);
}

TEST_F(TlsTest, FailedReplaceChangesNothing) {
  const auto server_identity = authority_.localhost();
  const std::string before = server_identity->serial();
  TlsMaterial broken = authority_.issue(leaf({"localhost"}));
  broken.key = "nonsense";
  std::string error;
  EXPECT_FALSE(server_identity->replace(broken, error));
  EXPECT_THAT(error, HasSubstr("no usable PEM private key"));
  EXPECT_EQ(server_identity->serial(), before);
}

TEST_F(TlsTest, BadMaterialIsNamed) {
  const TlsMaterial good = authority_.issue(leaf({"localhost"}));
  const TlsMaterial other = authority_.issue(leaf({"localhost"}));
  const auto error_of = [](const TlsMaterial& material) {
    std::string error;
    EXPECT_EQ(TlsIdentity::create(material, error), nullptr);
    return error;
  };
  EXPECT_THAT(error_of({good.certificate, other.key, good.ca}), HasSubstr("belong together"));
  EXPECT_THAT(error_of({"", good.key, good.ca}), HasSubstr("certificate text holds no PEM block"));
  EXPECT_THAT(error_of({good.certificate, "", good.ca}), HasSubstr("key text"));
  EXPECT_THAT(error_of({good.certificate, good.key, "x"}), HasSubstr("CA text holds no PEM"));
  EXPECT_THAT(error_of({good.certificate.substr(0, 200) + "\n-----END CERTIFICATE-----\n", good.key,
                        good.ca}),
              HasSubstr("block 1 of the certificate text"));
}

TEST_F(TlsTest, PoliciesThatCheckNothingAreRefused) {
  std::string error;
  EXPECT_EQ(TlsEngine::client(*authority_.trusting(), {}, error), nullptr);
  EXPECT_THAT(error, HasSubstr("host name or a check"));
  EXPECT_EQ(TlsEngine::server(*authority_.trusting(), {}, error), nullptr);
  EXPECT_THAT(error, HasSubstr("certificate and a key"));
  TlsMaterial material = authority_.issue(leaf({"localhost"}));
  material.ca.clear();
  EXPECT_EQ(TlsEngine::server(*identity(material), {ClientCertificate::kRequired, nullptr}, error),
            nullptr);
  EXPECT_THAT(error, HasSubstr("needs a CA"));
}

TEST_F(TlsTest, FilesAreReadOrNamed) {
  const std::string folder = ::testing::TempDir();
  const TlsMaterial made = authority_.issue(leaf({"localhost"}));
  std::ofstream(folder + "leaf.pem") << made.certificate;
  std::ofstream(folder + "leaf.key") << made.key;
  std::ofstream(folder + "empty.pem") << "";
  std::string error;
  const auto material = read_tls_material(folder + "leaf.pem", folder + "leaf.key", "", error);
  ASSERT_TRUE(material) << error;
  EXPECT_EQ(material->certificate, made.certificate);
  EXPECT_EQ(material->key, made.key);
  EXPECT_FALSE(read_tls_material(folder + "absent.pem", "", "", error));
  EXPECT_THAT(error, HasSubstr("absent.pem: No such file"));
  EXPECT_FALSE(read_tls_material("", "", folder + "empty.pem", error))
      << "trusts nobody by mistake";
  EXPECT_THAT(error, HasSubstr("empty"));
}

}  // namespace
}  // namespace fairlead::link
