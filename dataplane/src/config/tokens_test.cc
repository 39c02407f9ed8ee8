#include "config/tokens.h"

#include <gmock/gmock.h>
#include <openssl/sha.h>

namespace fairlead::dataplane {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::string_view kDomain = "relay.localhost";

std::string sha256(std::string_view token) {
  std::array<unsigned char, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string entry(std::string_view tenant, std::string_view token, std::string_view rest) {
  return "  - {tenant: " + std::string(tenant) + ", sha256: " + sha256(token) + ", " +
         std::string(rest) + "}\n";
}

Tokens parsed(const std::string& entries) {
  std::vector<std::string> errors;
  const auto tokens = Tokens::parse("tokens:\n" + entries, "tokens.yaml", kDomain, errors);
  EXPECT_THAT(errors, IsEmpty());
  return tokens.value_or(Tokens());
}

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> errors;
  const auto tokens = Tokens::parse(text, "tokens.yaml", kDomain, errors);
  EXPECT_EQ(tokens.has_value(), errors.empty());
  return errors;
}

TEST(Tokens, KnownVectorOfSha256) {
  // NIST's example: the hash that people make with sha256sum is the one that is looked up.
  const Tokens tokens = parsed(
      "  - {tenant: t, sha256: "
      "BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad, names: [web]}\n");
  EXPECT_NE(tokens.authenticate("abc"), nullptr);
  EXPECT_EQ(tokens.authenticate("abd"), nullptr);
}

TEST(Tokens, FindsTheGrantOfAToken) {
  const Tokens tokens =
      parsed(entry("acme", "one", "names: [web]") + entry("acme", "two", "names: [api]") +
             entry("corp", "three", "tcp: [{name: db, port: 20000}]"));
  ASSERT_NE(tokens.authenticate("one"), nullptr);
  EXPECT_TRUE(tokens.authenticate("one")->may_claim("http", "web"));
  EXPECT_FALSE(tokens.authenticate("one")->may_claim("http", "api"));
  EXPECT_TRUE(tokens.authenticate("two")->may_claim("http", "api"));
  EXPECT_EQ(tokens.authenticate("three")->tenant(), "corp");
  EXPECT_TRUE(tokens.authenticate("three")->may_claim("tcp", "db"));
  EXPECT_EQ(tokens.authenticate("three")->tcp_port("db"), 20000);
  EXPECT_EQ(tokens.authenticate("three")->tcp_port("web"), std::nullopt);
}

TEST(Tokens, DeniesByDefault) {
  for (const std::string text : {"", "# nothing\n", "tokens: []\n", "---\n"}) {
    std::vector<std::string> errors;
    const auto tokens = Tokens::parse(text, "tokens.yaml", kDomain, errors);
    ASSERT_TRUE(tokens) << text;
    EXPECT_EQ(tokens->authenticate(""), nullptr);
    EXPECT_EQ(tokens->authenticate("one"), nullptr);
    EXPECT_EQ(tokens->ownership().http_tenant("web"), std::nullopt);
  }
  EXPECT_EQ(Tokens().authenticate("one"), nullptr);
  const Tokens tokens = parsed(entry("acme", "one", "names: [web]"));
  EXPECT_EQ(tokens.authenticate(""), nullptr);
  EXPECT_EQ(tokens.authenticate("one "), nullptr);
  EXPECT_EQ(tokens.authenticate(sha256("one")), nullptr) << "the hash is not the token";
  EXPECT_EQ(tokens.authenticate(std::string(kMaxTokenBytes + 1, 'x')), nullptr);
  EXPECT_FALSE(tokens.authenticate("one")->may_claim("tcp", "web"));
  EXPECT_FALSE(tokens.authenticate("one")->may_claim("udp", "web"));
  EXPECT_FALSE(tokens.authenticate("one")->may_claim("http", ""));
}

TEST(Tokens, WildcardsCoverExactlyOneLabel) {
  const Tokens tokens = parsed(entry("acme", "one", "names: ['*.dev', '*']"));
  const TokenGrant* grant = tokens.authenticate("one");
  for (const std::string_view name : {"x.dev", "a-b.dev", "web", "api"}) {
    EXPECT_TRUE(grant->may_claim("http", name)) << name;
  }
  for (const std::string_view name :
       {"x.y.dev", ".dev", "*.dev", "*", "X.dev", "x.dev.", "x.devs", "-x.dev", "a.b", "we b"}) {
    EXPECT_FALSE(grant->may_claim("http", name)) << name;
  }
}

TEST(Tokens, AnExactNameGoesBeforeAnotherTenantsWildcard) {
  const Tokens tokens =
      parsed(entry("acme", "one", "names: ['*.dev']") + entry("corp", "two", "names: [shop.dev]"));
  EXPECT_EQ(tokens.ownership().http_tenant("shop.dev"), "corp");
  EXPECT_EQ(tokens.ownership().http_tenant("other.dev"), "acme");
  EXPECT_FALSE(tokens.authenticate("one")->may_claim("http", "shop.dev"));
  EXPECT_TRUE(tokens.authenticate("two")->may_claim("http", "shop.dev"));
}

TEST(Tokens, OneTenantMayHoldTwoTokensForTheSameServices) {
  const std::string rest = "names: [web], tcp: [{name: db, port: 20000}]";
  const Tokens tokens = parsed(entry("acme", "old", rest) + entry("acme", "new", rest));
  for (const std::string_view token : {"old", "new"}) {
    EXPECT_TRUE(tokens.authenticate(token)->may_claim("http", "web"));
    EXPECT_EQ(tokens.authenticate(token)->tcp_port("db"), 20000);
  }
}

TEST(Tokens, GrantOutlivesACopyOfTheTokens) {
  const Tokens tokens = parsed(entry("acme", "one", "names: [web]"));
  TokenGrant grant;
  {
    const Tokens copy = tokens;  // NOLINT(performance-unnecessary-copy-initialization)
    grant = *copy.authenticate("one");
  }
  EXPECT_TRUE(grant.may_claim("http", "web"));
}

TEST(Tokens, RefusesWithLineColumnAndRemedy) {
  struct Case {
    std::string entries, error;
  };
  const std::vector<Case> cases{
      {entry("acme", "a", "names: [web]") + entry("corp", "b", "names: [web]"),
       "tokens.yaml:3:102: tokens[1].names[0]: \"web\" belongs to tenant \"acme\""},
      {entry("acme", "a", "names: ['*']") + entry("corp", "b", "names: ['*']"),
       "\"*\" belongs to tenant \"acme\""},
      {entry("acme", "a", "names: [web, web]"), "tokens[0].names[1]: \"web\" is listed twice"},
      {entry("acme", "a", "names: [web]") + entry("acme", "a", "names: [api]"),
       "tokens[1].sha256: is the same token as in line 2"},
      {entry("acme", "a", "tcp: [{name: db, port: 1}]") +
           entry("corp", "b", "tcp: [{name: db, port: 1}]"),
       "tokens[1].tcp[0]: port 1 belongs to \"db\" of tenant \"acme\""},
      {entry("acme", "a", "tcp: [{name: db, port: 1}, {name: web, port: 1}]"),
       "port 1 belongs to \"db\""},
      {entry("acme", "a", "tcp: [{name: db, port: 1}, {name: db, port: 2}]"),
       "\"db\" is listed twice"},
      {entry("acme", "a", "tcp: [{name: db, port: 1}]") +
           entry("acme", "b", "tcp: [{name: db, port: 2}]"),
       "\"db\" is at port 1 already"},
      {entry("acme", "a", "tcp: [{name: db, port: 0}]"),
       "tokens[0].tcp[0].port: \"0\" is out of "
       "bounds; allowed is 1 to 65535"},
      {entry("acme", "a", "tcp: [{name: db}]"), "tokens[0].tcp[0].port: is missing"},
      {entry("acme", "a", "tcp: [{name: a.b, port: 1}]"), "\"a.b\" is not a name"},
      {entry("acme", "a", "tcp: db"), "tokens[0].tcp: is a single value; allowed is a list"},
      {entry("acme", "a", "names: [Web]"), "\"Web\" is not a name"},
      {entry("acme", "a", "names: ['a.*']"), "\"a.*\" is not a name"},
      {entry("acme", "a", "names: ['*.*.dev']"), "is not a name"},
      {entry("acme", "a", "names: ['*x.dev']"), "is not a name"},
      {entry("acme", "a", "names: ['x.dev.']"), "is not a name"},
      {entry("acme", "a", "names: [web.relay.localhost]"),
       "is under visitors.domain; write "
       "\"web\""},
      {entry("acme", "a", "names: ['*.relay.localhost']"), "write \"*\""},
      {entry("Acme", "a", "names: [web]"), "tokens[0].tenant: \"Acme\" is not a tenant"},
      {entry("acme", "a", "nams: [web]"),
       "tokens[0].nams: unknown key; allowed are tenant, "
       "sha256, names, tcp"},
      {"  - {tenant: acme, names: [web]}\n", "tokens[0].sha256: is missing"},
      {"  - {tenant: acme, sha256: abcd, names: [web]}\n", "allowed are 64 hex digits"},
      {"  - {tenant: acme, sha256: " + std::string(64, 'g') + ", names: [web]}\n", "64 hex digits"},
      {"  - {tenant: acme, sha256: " + sha256("a") + "}\n", "tokens[0]: permits nothing"},
      {"  - web\n", "tokens[0]: is a single value; allowed is a mapping"},
  };
  for (const Case& c : cases) {
    const auto errors = errors_of("tokens:\n" + c.entries);
    EXPECT_THAT(errors, Contains(HasSubstr(c.error))) << c.entries;
  }
  EXPECT_THAT(errors_of("tokens: {}\n"), ElementsAre(HasSubstr("is a mapping; allowed is a list")));
  EXPECT_THAT(errors_of("token: []\n"), SizeIs(2));
}

TEST(Tokens, ErrorsDoNotShowASecret) {
  const auto errors =
      errors_of("tokens:\n  - {tenant: t, sha256: my-secret-token, names: [web]}\n");
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_THAT(errors[0], Not(HasSubstr("my-secret")));
}

}  // namespace
}  // namespace fairlead::dataplane
