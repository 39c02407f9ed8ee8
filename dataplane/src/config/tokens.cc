#include "config/tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "config/yaml_reader.h"
#include "routes/host.h"

namespace fairlead::dataplane {
namespace {

using Presence = YamlSection::Presence;

// "x.dev" is covered by "*.dev", "web" by "*".
std::string wildcard_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? "*" : "*" + std::string(name.substr(dot));
}

bool is_name(std::string_view text) {
  if (text.starts_with("*.")) {
    text.remove_prefix(2);
    return is_label(text) || is_full_host(text);
  }
  return text == "*" || is_label(text) || is_full_host(text);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> Ownership::covering(std::string_view name) const {
  if (std::string exact(name); http_.contains(exact)) return exact;
  if (std::string wildcard = wildcard_of(name); http_.contains(wildcard)) return wildcard;
  return std::nullopt;
}

std::optional<std::string_view> Ownership::http_tenant(std::string_view name) const {
  if (!is_label(name) && !is_full_host(name)) return std::nullopt;
  const auto entry = covering(name);
  if (!entry) return std::nullopt;
  return http_.find(*entry)->second;
}

bool TokenGrant::may_claim(std::string_view kind, std::string_view name) const {
  if (kind == "tcp") return tcp_.contains(name);
  if (kind != "http" || ownership_->http_tenant(name) != tenant_) return false;
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& listed) {
    return listed == name || listed == wildcard_of(name);
  });
}

std::optional<std::uint16_t> TokenGrant::tcp_port(std::string_view name) const {
  const auto found = tcp_.find(name);
  if (found == tcp_.end()) return std::nullopt;
  return found->second;
}

// Builds Tokens; keeps where each name and port was first listed, for errors.
class TokensReader {
 public:
  TokensReader(std::string_view domain, Problems& problems)
      : suffix_("." + std::string(domain)), problems_(problems) {}

  Tokens read(const YAML::Node& root) {
    Tokens tokens;
    if (root.IsNull()) return tokens;
    YamlSection top({root, ""}, problems_);
    const auto value = top.find("tokens", Presence::kRequired);
    if (value) {
      const std::vector<YamlValue> items = read_list(*value, problems_);
      if (items.size() > kMaxTokens) {
        problems_.add(value->node.Mark(), value->path,
                      "has more than " + std::to_string(kMaxTokens) + " tokens");
      } else {
        for (const YamlValue& item : items) entry(item, tokens);
      }
    }
    top.finish();
    const auto shared = std::make_shared<const Ownership>(std::move(ownership_));
    for (Tokens::Entry& read : tokens.entries_) read.grant.ownership_ = shared;
    tokens.ownership_ = shared;
    return tokens;
  }

 private:
  void entry(const YamlValue& item, Tokens& tokens) {
    YamlSection part(item, problems_);
    Tokens::Entry& read = tokens.entries_.emplace_back();
    tenant(part, read.grant.tenant_);
    digest(part, read.digest);
    const auto names = part.find("names", Presence::kOptional);
    if (names) read_names(*names, read.grant);
    const auto tcp = part.find("tcp", Presence::kOptional);
    if (tcp) read_tcp(*tcp, read.grant);
    part.finish();
    if (!names && !tcp) {
      problems_.add(part.mark(), part.path(),
                    "permits nothing; list http names in `names` or services in `tcp`");
    }
  }

  void tenant(YamlSection& part, std::string& out) {
    const auto value = part.find("tenant", Presence::kRequired);
    if (!value) return;
    const auto text = read_text(*value, problems_);
    if (!text) return;
    if (is_label(*text)) {
      out = *text;
    } else {
      problems_.add(value->node.Mark(), value->path,
                    in_quotes(*text) +
                        " is not a tenant; allowed are 1 to 63 lower-case letters, "
                        "digits or '-', not beginning or ending with '-'");
    }
  }

  void digest(YamlSection& part, Tokens::Digest& out) {
    const auto value = part.find("sha256", Presence::kRequired);
    if (!value) return;
    const auto text = read_text(*value, problems_);
    if (!text) return;
    bool valid = text->size() == out.size() * 2;
    for (std::size_t i = 0; valid && i < out.size(); ++i) {
      const int high = hex_digit((*text)[i * 2]);
      const int low = hex_digit((*text)[i * 2 + 1]);
      valid = high >= 0 && low >= 0;
      out[i] = static_cast<std::uint8_t>(high * 16 + low);
    }
    if (!valid) {
      // The text may be the token itself: it is not shown.
      problems_.add(value->node.Mark(), value->path,
                    "is not a SHA-256; allowed are 64 hex digits (printf %s TOKEN | sha256sum)");
      return;
    }
    const auto [first, fresh] = digests_.emplace(out, value->node.Mark().line);
    if (!fresh) {
      problems_.add(value->node.Mark(), value->path,
                    "is the same token as in line " + std::to_string(first->second + 1) +
                        "; each entry needs its own");
    }
  }

  void read_names(const YamlValue& value, TokenGrant& grant) {
    const std::vector<YamlValue> items = read_list(value, problems_);
    if (items.size() > kMaxNamesPerToken) {
      problems_.add(value.node.Mark(), value.path,
                    "has more than " + std::to_string(kMaxNamesPerToken) + " names");
      return;
    }
    for (const YamlValue& item : items) {
      const auto text = read_text(item, problems_);
      if (text) name(item, *text, grant);
    }
  }

  void name(const YamlValue& item, const std::string& text, TokenGrant& grant) {
    const auto refuse = [&](const std::string& why) {
      problems_.add(item.node.Mark(), item.path, in_quotes(text) + " " + why);
    };
    if (!is_name(text)) {
      return refuse(
          "is not a name; allowed are a lower-case label (web), a host "
          "(shop.example.com), a host with a wildcard as its first label (*.dev) and *");
    }
    if (text.ends_with(suffix_)) {
      return refuse("is under visitors.domain; write " +
                    in_quotes(text.substr(0, text.size() - suffix_.size())));
    }
    if (std::find(grant.names_.begin(), grant.names_.end(), text) != grant.names_.end()) {
      return refuse("is listed twice");
    }
    grant.names_.push_back(text);
    const auto [owner, fresh] = ownership_.http_.emplace(text, grant.tenant_);
    if (!fresh && owner->second != grant.tenant_) {
      refuse("belongs to tenant " + in_quotes(owner->second) + "; a name has one tenant");
    }
  }

  void read_tcp(const YamlValue& value, TokenGrant& grant) {
    const std::vector<YamlValue> items = read_list(value, problems_);
    if (items.size() > kMaxNamesPerToken) {
      problems_.add(value.node.Mark(), value.path,
                    "has more than " + std::to_string(kMaxNamesPerToken) + " services");
      return;
    }
    for (const YamlValue& item : items) tcp(item, grant);
  }

  void tcp(const YamlValue& item, TokenGrant& grant) {
    YamlSection part(item, problems_);
    std::string service;
    std::uint64_t port = 0;
    const bool has_name = part.text("name", Presence::kRequired, service);
    const bool has_port = part.number("port", Presence::kRequired, 1, 65535, port);
    part.finish();
    if (has_name && !is_label(service)) {
      problems_.add(
          part.mark(), part.path_of("name"),
          in_quotes(service) + " is not a name; allowed is a lower-case label such as db");
      return;
    }
    if (!has_name || !has_port) return;
    if (!grant.tcp_.emplace(service, static_cast<std::uint16_t>(port)).second) {
      problems_.add(part.mark(), part.path(), in_quotes(service) + " is listed twice");
      return;
    }
    own_port(part, {grant.tenant_, service}, static_cast<std::uint16_t>(port));
  }

  void own_port(const YamlSection& part, const TcpOwner& owner, std::uint16_t port) {
    const auto [holder, fresh] = ownership_.tcp_.emplace(port, owner);
    if (!fresh && holder->second != owner) {
      problems_.add(part.mark(), part.path(),
                    "port " + std::to_string(port) + " belongs to " +
                        in_quotes(holder->second.service) + " of tenant " +
                        in_quotes(holder->second.tenant) + "; a port has one service");
    }
    // Two tokens of a tenant may both list a service, but they must agree on where it is.
    const auto [known, first] =
        service_ports_.emplace(std::pair(owner.tenant, owner.service), port);
    if (!first && known->second != port) {
      problems_.add(part.mark(), part.path(),
                    in_quotes(owner.service) + " is at port " + std::to_string(known->second) +
                        " already; a service has one port");
    }
  }

  const std::string suffix_;
  Problems& problems_;
  Ownership ownership_;
  std::map<Tokens::Digest, int> digests_;
  std::map<std::pair<std::string, std::string>, std::uint16_t> service_ports_;
};

Tokens::Tokens() : ownership_(std::make_shared<const Ownership>()) {}

std::optional<Tokens> Tokens::parse(std::string_view text, const std::filesystem::path& file,
                                    std::string_view domain, std::vector<std::string>& errors) {
  Problems problems(file.string());
  std::optional<Tokens> tokens;
  if (const auto root = load_yaml(text, problems)) {
    tokens = TokensReader(domain, problems).read(*root);
  }
  errors = problems.sorted();
  if (!errors.empty()) return std::nullopt;
  return tokens;
}

const TokenGrant* Tokens::authenticate(std::string_view token) const {
  if (token.empty() || token.size() > kMaxTokenBytes) return nullptr;
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  const TokenGrant* found = nullptr;
  // No early end: the time must not tell which entry fitted.
  for (const Entry& entry : entries_) {
    const bool fits = CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0;
    found = fits ? &entry.grant : found;
  }
  return found;
}

}  // namespace fairlead::dataplane
