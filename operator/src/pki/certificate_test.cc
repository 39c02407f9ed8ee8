#include "pki/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>

namespace fairlead::op {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

const WallTime kNow = std::chrono::system_clock::from_time_t(1'800'000'000);

Serial serial(std::uint8_t n) {
  Serial bytes{};
  bytes.fill(n);
  return bytes;
}

Credential ca_at(WallTime now, std::uint8_t n = 1) {
  std::string error;
  const auto ca = make_ca("demo", now, serial(n), error);
  EXPECT_TRUE(ca) << error;
  return ca.value_or(Credential{});
}

LeafRequest request() {
  LeafRequest leaf;
  leaf.common_name = "demo-1f2e3d4c-0-1";
  leaf.uri = replica_uri("c1", "r1");
  leaf.dns = {"demo", "localhost", "relay.localhost", "*.relay.localhost"};
  leaf.ips = {"127.4.5.6", "::1"};
  leaf.lifetime = 24h * 30;
  return leaf;
}

Credential leaf_of(const Credential& ca, const LeafRequest& leaf = request(), WallTime now = kNow) {
  std::string error;
  const auto made = issue_leaf(ca, leaf, now, serial(0x22), error);
  EXPECT_TRUE(made) << error;
  return made.value_or(Credential{});
}

X509* read(const std::string& pem) {
  BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* const certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return certificate;
}

// OpenSSL's verifier, used directly and not through refuse_leaf: X509_V_OK or its error code.
int openssl_verdict(const Credential& leaf, const Credential& ca, const char* host, WallTime at) {
  X509* const root = read(ca.certificate);
  X509* const end = read(leaf.certificate);
  X509_STORE* const store = X509_STORE_new();
  X509_STORE_add_cert(store, root);
  X509_STORE_CTX* const context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, end, nullptr);
  X509_VERIFY_PARAM* const parameters = X509_STORE_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_time(parameters, std::chrono::system_clock::to_time_t(at));
  X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER);
  if (host != nullptr && X509_VERIFY_PARAM_set1_ip_asc(parameters, host) != 1) {
    X509_VERIFY_PARAM_set1_host(parameters, host, 0);
  }
  X509_verify_cert(context);
  const int verdict = X509_STORE_CTX_get_error(context);
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  X509_free(end);
  X509_free(root);
  ERR_clear_error();
  return verdict;
}

TEST(Certificate, OpensslAcceptsALeafUnderEachOfItsNames) {
  const Credential ca = ca_at(kNow);
  const Credential leaf = leaf_of(ca);
  for (const char* host : {"demo", "localhost", "relay.localhost", "web.relay.localhost",
                           "127.4.5.6", "::1", static_cast<const char*>(nullptr)}) {
    EXPECT_EQ(openssl_verdict(leaf, ca, host, kNow), X509_V_OK) << (host ? host : "no host");
  }
}

TEST(Certificate, OpensslRefusesOtherNamesTimesAndAuthorities) {
  const Credential ca = ca_at(kNow);
  const Credential leaf = leaf_of(ca);
  EXPECT_EQ(openssl_verdict(leaf, ca, "other.example", kNow), X509_V_ERR_HOSTNAME_MISMATCH);
  EXPECT_EQ(openssl_verdict(leaf, ca, "127.4.5.7", kNow), X509_V_ERR_IP_ADDRESS_MISMATCH);
  EXPECT_EQ(openssl_verdict(leaf, ca, nullptr, kNow + 24h * 31), X509_V_ERR_CERT_HAS_EXPIRED);
  EXPECT_EQ(openssl_verdict(leaf, ca, nullptr, kNow - 10min), X509_V_ERR_CERT_NOT_YET_VALID);
  EXPECT_NE(openssl_verdict(leaf, ca_at(kNow, 9), nullptr, kNow), X509_V_OK);
}

TEST(Certificate, BackdatedSoThatASlowClockAccepts) {
  const Credential ca = ca_at(kNow);
  EXPECT_EQ(openssl_verdict(leaf_of(ca), ca, nullptr, kNow - 4min), X509_V_OK);
}

TEST(Certificate, InspectReadsBackWhatWasAsked) {
  const Credential leaf = leaf_of(ca_at(kNow));
  std::string error;
  const auto info = inspect(leaf.certificate, error);
  ASSERT_TRUE(info) << error;
  EXPECT_EQ(info->serial, "22222222222222222222222222222222");
  EXPECT_EQ(info->common_name, "demo-1f2e3d4c-0-1");
  EXPECT_EQ(info->not_before, kNow - kBackdate);
  EXPECT_EQ(info->not_after, kNow + 24h * 30);
  EXPECT_THAT(info->uris, ElementsAre("fairlead://c1/r1"));
  EXPECT_THAT(info->dns, ElementsAre("demo", "localhost", "relay.localhost", "*.relay.localhost"));
  EXPECT_THAT(info->ips, ElementsAre("127.4.5.6", "::1"));
  EXPECT_FALSE(info->is_ca);
}

TEST(Certificate, SerialIsPositiveAndHasNoLeadingZeros) {
  const Credential ca = ca_at(kNow, 0xff);
  std::string error;
  EXPECT_EQ(inspect(ca.certificate, error)->serial, "7f" + std::string(30, 'f'));
  Serial small{};
  small[15] = 0x0a;
  const auto leaf = issue_leaf(ca, request(), kNow, small, error);
  ASSERT_TRUE(leaf) << error;
  EXPECT_EQ(inspect(leaf->certificate, error)->serial, "a");
}

TEST(Certificate, CaLivesTenYearsAndIsACa) {
  std::string error;
  const auto info = inspect(ca_at(kNow).certificate, error);
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->is_ca);
  EXPECT_EQ(info->not_after, kNow + kCaLifetime);
  EXPECT_EQ(info->common_name, "Fairlead CA of demo");
}

TEST(Certificate, RefuseLeafNamesTheCause) {
  const Credential ca = ca_at(kNow);
  const Credential leaf = leaf_of(ca);
  const std::string uri = replica_uri("c1", "r1");
  EXPECT_EQ(refuse_leaf(leaf.certificate, ca.certificate, uri, kNow), std::nullopt);
  EXPECT_THAT(refuse_leaf(leaf.certificate, ca.certificate, uri, kNow + 24h * 31).value_or(""),
              HasSubstr("expired"));
  EXPECT_THAT(refuse_leaf(leaf.certificate, ca.certificate, uri, kNow - 1h).value_or(""),
              HasSubstr("not yet valid"));
  EXPECT_THAT(refuse_leaf(leaf.certificate, ca.certificate, "fairlead://c1/r2", kNow).value_or(""),
              HasSubstr("not named fairlead://c1/r2"));
  EXPECT_TRUE(refuse_leaf(leaf.certificate, ca_at(kNow, 9).certificate, uri, kNow));
  EXPECT_TRUE(refuse_leaf(leaf.certificate, "", uri, kNow));
  EXPECT_THAT(refuse_leaf("garbage", ca.certificate, uri, kNow).value_or(""), HasSubstr("PEM"));
  // The CA itself is no leaf, whatever it signs.
  EXPECT_TRUE(refuse_leaf(ca.certificate, ca.certificate, uri, kNow));
}

TEST(Certificate, RefuseLeafAcceptsAnyCertificateOfTheBundle) {
  const Credential old_ca = ca_at(kNow, 1);
  const Credential new_ca = ca_at(kNow, 2);
  const std::string bundle = new_ca.certificate + old_ca.certificate;
  EXPECT_FALSE(refuse_leaf(leaf_of(old_ca).certificate, bundle, replica_uri("c1", "r1"), kNow));
  EXPECT_FALSE(refuse_leaf(leaf_of(new_ca).certificate, bundle, replica_uri("c1", "r1"), kNow));
}

TEST(Certificate, ALeafCannotSignAnother) {
  const Credential ca = ca_at(kNow);
  const Credential leaf = leaf_of(ca);
  const Credential forged = leaf_of(leaf);
  EXPECT_NE(openssl_verdict(forged, leaf, nullptr, kNow), X509_V_OK);
}

TEST(Certificate, LeafNeverOutlivesItsCa) {
  const Credential ca = ca_at(kNow);
  std::string error;
  const WallTime late = kNow + kCaLifetime - 24h;
  EXPECT_EQ(inspect(leaf_of(ca, request(), late).certificate, error)->not_after,
            kNow + kCaLifetime);
  EXPECT_FALSE(issue_leaf(ca, request(), kNow + kCaLifetime, serial(3), error));
  EXPECT_THAT(error, HasSubstr("expired"));
}

TEST(Certificate, BadRequestsAreRefusedWithTheReason) {
  const Credential ca = ca_at(kNow);
  std::string error;
  LeafRequest bad = request();
  bad.ips = {"127.0.0"};
  EXPECT_FALSE(issue_leaf(ca, bad, kNow, serial(3), error));
  EXPECT_THAT(error, HasSubstr("127.0.0"));
  bad = request();
  bad.uri.clear();
  EXPECT_FALSE(issue_leaf(ca, bad, kNow, serial(3), error));
  EXPECT_THAT(error, HasSubstr("URI"));
  bad = request();
  bad.dns = {"a b"};
  EXPECT_FALSE(issue_leaf(ca, bad, kNow, serial(3), error));
  EXPECT_THAT(error, HasSubstr("a b"));
  bad = request();
  bad.lifetime = 0h;
  EXPECT_FALSE(issue_leaf(ca, bad, kNow, serial(3), error));
  EXPECT_THAT(error, HasSubstr("lifetime"));
  EXPECT_FALSE(issue_leaf(Credential{"x", "y"}, request(), kNow, serial(3), error));
  EXPECT_THAT(error, HasSubstr("PEM"));
  EXPECT_FALSE(issue_leaf(Credential{ca.certificate, ca_at(kNow, 9).key}, request(), kNow,
                          serial(3), error));
  EXPECT_THAT(error, HasSubstr("does not belong"));
}

TEST(Certificate, ANameWithACommaStaysOneName) {
  LeafRequest leaf = request();
  leaf.uri = "fairlead://c1/r1,URI:fairlead://c1/operator";
  std::string error;
  const auto info = inspect(leaf_of(ca_at(kNow), leaf).certificate, error);
  ASSERT_TRUE(info);
  EXPECT_THAT(info->uris, ElementsAre(leaf.uri));
}

TEST(Certificate, KeyFitsOnlyItsOwnCertificate) {
  const Credential ca = ca_at(kNow);
  const Credential a = leaf_of(ca);
  const Credential b = leaf_of(ca);
  EXPECT_TRUE(key_fits(a));
  EXPECT_FALSE(key_fits({a.certificate, b.key}));
  EXPECT_FALSE(key_fits({a.certificate, "garbage"}));
}

TEST(Certificate, RenewedAtTwoThirdsPlusJitter) {
  CertificateInfo info;
  info.not_before = kNow;
  info.not_after = kNow + 300h;
  EXPECT_FALSE(needs_renewal(info, kNow + 200h - 1s, 0.0));
  EXPECT_TRUE(needs_renewal(info, kNow + 200h, 0.0));
  EXPECT_FALSE(needs_renewal(info, kNow + 200h, 0.5));
  EXPECT_FALSE(needs_renewal(info, kNow + 215h - 1s, 0.5));
  EXPECT_TRUE(needs_renewal(info, kNow + 215h, 0.5));
}

}  // namespace
}  // namespace fairlead::op
