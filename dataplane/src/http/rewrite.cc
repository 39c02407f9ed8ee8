#include "http/rewrite.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace fairlead::dataplane {
namespace {

constexpr std::array<std::string_view, 11> kPerConnection{"Connection",
                                                          "Keep-Alive",
                                                          "TE",
                                                          "Upgrade",
                                                          "Transfer-Encoding",
                                                          "Proxy",
                                                          "HTTP2-Settings",
                                                          "Content-Length",
                                                          "Proxy-Connection",
                                                          "Proxy-Authenticate",
                                                          "Proxy-Authorization"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view each) { return iequals(each, name); });
}

// Gateways of the CGI kind read X_Forwarded_For as X-Forwarded-For: both are the same field here.
bool starts_with_field(std::string_view name, std::string_view prefix) {
  if (name.size() < prefix.size()) return false;
  std::string dashed(name.substr(0, prefix.size()));
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return iequals(dashed, prefix);
}

bool is_field(std::string_view name, std::string_view wanted) {
  return name.size() == wanted.size() && starts_with_field(name, wanted);
}

// The names that Connection lists: fields of this connection only.
std::vector<std::string_view> connection_names(const Fields& fields) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!iequals(fields[i].name, "Connection")) continue;
    for_each_token(fields[i].value, [&](std::string_view token) { names.push_back(token); });
  }
  return names;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

// Copies every end-to-end field that `keep` wants.
template <typename Keep>
void append_end_to_end(std::string& out, const Fields& fields, Keep keep) {
  const std::vector<std::string_view> named = connection_names(fields);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Fields::Field field = fields[i];
    if (is_one_of(kPerConnection, field.name) || is_one_of(named, field.name)) continue;
    if (keep(field.name)) append_field(out, field.name, field.value);
  }
}

void append_framing(std::string& out, const MessageHead& head, Framing framing) {
  if (framing == Framing::kChunked) {
    append_field(out, "Transfer-Encoding", "chunked");
  } else if (framing != Framing::kUntilClose && head.content_length) {
    append_field(out, "Content-Length", std::to_string(*head.content_length));
  }
}

std::string request_line(const RequestHead& head) {
  std::string out = head.method;
  out.append(" ").append(head.target).append(" HTTP/1.1\r\n");
  append_field(out, "Host", head.authority);
  return out;
}

// All values of a list field as one list.
std::string joined(const Fields& fields, std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!iequals(fields[i].name, name) || fields[i].value.empty()) continue;
    if (!out.empty()) out += ", ";
    out += fields[i].value;
  }
  return out;
}

void append_forwarded(std::string& out, const RequestHead& head, const VisitorSource& source) {
  std::string forwarded_for;
  std::optional<std::string_view> proto;
  std::optional<std::string_view> host;
  if (source.trusted_proxy) {
    forwarded_for = joined(head.fields, "X-Forwarded-For");
    proto = head.fields.find("X-Forwarded-Proto");
    host = head.fields.find("X-Forwarded-Host");
  }
  if (!forwarded_for.empty()) forwarded_for += ", ";
  append_field(out, "X-Forwarded-For", forwarded_for + to_string(source.ip));
  append_field(out, "X-Forwarded-Proto", proto.value_or(source.tls ? "https" : "http"));
  append_field(out, "X-Forwarded-Host", host.value_or(head.authority));
}

std::string status_line(const ResponseHead& head) {
  std::string status = std::to_string(head.status);
  return "HTTP/1.1 " + status + " " + head.reason + "\r\n";
}

// A response whose length is stated though it has no body: to HEAD, and 304.
bool has_no_length(const ResponseHead& head) {
  return head.informational() || head.status == 204;
}

}  // namespace

std::string visit_request_head(const RequestHead& head, const VisitorSource& source) {
  std::string out = request_line(head);
  append_end_to_end(out, head.fields, [&](std::string_view name) {
    if (iequals(name, "Host") || starts_with_field(name, "X-Fairlead-")) return false;
    // HTTP/1.0 knows no 100, so its Expect means nothing.
    if (head.minor == 0 && iequals(name, "Expect")) return false;
    if (is_field(name, "X-Forwarded-For") || is_field(name, "X-Forwarded-Proto") ||
        is_field(name, "X-Forwarded-Host")) {
      return false;
    }
    if (source.trusted_proxy) return true;
    return !starts_with_field(name, "X-Forwarded-") && !is_field(name, "Forwarded") &&
           !is_field(name, "X-Real-IP");
  });
  append_forwarded(out, head, source);
  append_framing(out, head, head.framing);
  return out.append("\r\n");
}

std::string upstream_request_head(const RequestHead& head) {
  std::string out = request_line(head);
  append_end_to_end(out, head.fields, [](std::string_view name) { return !iequals(name, "Host"); });
  append_framing(out, head, head.framing);
  append_field(out, "Connection", "close");
  return out.append("\r\n");
}

std::string visit_response_head(const ResponseHead& head) {
  std::string out = status_line(head);
  append_end_to_end(out, head.fields,
                    [](std::string_view name) { return !starts_with_field(name, "X-Fairlead-"); });
  const Framing framing = head.framing == Framing::kUntilClose ? Framing::kChunked : head.framing;
  if (!has_no_length(head)) append_framing(out, head, framing);
  return out.append("\r\n");
}

std::string visitor_response_head(const ResponseHead& head, Framing framing,
                                  std::string_view connection) {
  std::string out = status_line(head);
  append_end_to_end(out, head.fields, [](std::string_view) { return true; });
  if (!has_no_length(head)) append_framing(out, head, framing);
  if (!connection.empty()) append_field(out, "Connection", connection);
  return out.append("\r\n");
}

}  // namespace fairlead::dataplane
