#include "routes/host.h"

#include <algorithm>

#include "routes/ip_address.h"

namespace fairlead::dataplane {
namespace {

char fold(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_claimable(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

// Calls `valid` with each label; false at the first that is not.
template <typename Valid>
bool every_label(std::string_view name, Valid valid) {
  for (;;) {
    const std::size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    if (label.empty() || label.size() > kMaxLabel || !valid(label)) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

// Splits "name[:port]" or "[v6][:port]"; the port's text is empty when there is none.
bool split(std::string_view text, std::string_view& name, std::string_view& port) {
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return false;
    name = text.substr(0, close + 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return false;
    port = rest.empty() ? rest : rest.substr(1);
    return true;
  }
  const std::size_t colon = text.find(':');
  name = text.substr(0, colon);
  port = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  return true;
}

}  // namespace

std::optional<HostPort> parse_host(std::string_view text) {
  std::string_view name;
  std::string_view port;
  if (!split(text, name, port)) return std::nullopt;
  HostPort result;
  if (!port.empty()) {
    result.port = parse_port(port);
    if (!result.port) return std::nullopt;
  }
  if (name.starts_with('[')) {
    const std::string_view inner = name.substr(1, name.size() - 2);
    const auto ip = IpAddress::parse(inner);
    if (!ip || inner.find(':') == std::string_view::npos) return std::nullopt;
    result.host = "[" + to_string(*ip) + "]";
    return result;
  }
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.size() > kMaxHost) return std::nullopt;
  result.host.resize(name.size());
  std::transform(name.begin(), name.end(), result.host.begin(), fold);
  const bool valid = every_label(result.host, [](std::string_view label) {
    return std::all_of(label.begin(), label.end(),
                       [](char c) { return is_claimable(c) || c == '_'; });
  });
  if (!valid) return std::nullopt;
  return result;
}

bool is_label(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLabel && text.front() != '-' && text.back() != '-' &&
         std::all_of(text.begin(), text.end(), is_claimable);
}

bool is_full_host(std::string_view text) {
  return text.size() <= kMaxHost && text.find('.') != std::string_view::npos &&
         every_label(text, is_label);
}

}  // namespace fairlead::dataplane
