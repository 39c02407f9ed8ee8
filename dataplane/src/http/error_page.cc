#include "http/error_page.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace fairlead::dataplane {
namespace {

constexpr std::array<HttpErrorInfo, 13> kErrors{{
    {HttpError::kNoSuchService, 404, "Not Found", "No such service",
     "No agent may claim this host. Check the name, or let a token list it."},
    {HttpError::kAgentOffline, 503, "Service Unavailable", "Agent offline",
     "The service is known, but no agent serves it now. Start its agent or try again.", 5},
    {HttpError::kUpstreamRefused, 502, "Bad Gateway", "Upstream refused",
     "The agent could not connect to the service. Check that it runs and listens."},
    {HttpError::kDraining, 503, "Service Unavailable", "Relay draining",
     "This relay is shutting down. Try again: another one will answer.", 1},
    {HttpError::kBadRequest, 400, "Bad Request", "Malformed request",
     "The request breaks the rules of HTTP/1.1 and was not passed on."},
    {HttpError::kHeadTooLarge, 431, "Request Header Fields Too Large", "Request header too large",
     "Allowed are a request line of 8 KiB, 64 KiB of header and 100 fields."},
    {HttpError::kUpgradeUnsupported, 501, "Not Implemented", "Upgrade not supported",
     "This version passes on no protocol upgrades such as WebSocket."},
    {HttpError::kPathLost, 502, "Bad Gateway", "Path lost",
     "The way to the agent broke before a response began. The request may have been processed."},
    {HttpError::kUpstreamBroke, 502, "Bad Gateway", "Upstream broke",
     "The service closed its connection or sent a malformed response before an answer began."},
    {HttpError::kConnectUnsupported, 501, "Not Implemented", "CONNECT not supported",
     "This is no forward proxy. Use a tcp service for raw connections."},
    {HttpError::kRequestTimeout, 408, "Request Timeout", "Request header timed out",
     "The header of the request took too long to arrive."},
    {HttpError::kOverloaded, 503, "Service Unavailable", "Overloaded",
     "The relay or the agent has no room for one more request. Try again.", 2},
    {HttpError::kInternal, 502, "Bad Gateway", "Internal fault",
     "The relay and the agent did not understand each other. Please report it."},
}};

}  // namespace

std::span<const HttpErrorInfo> http_errors() {
  return kErrors;
}

const HttpErrorInfo& http_error_info(HttpError error) {
  const auto* const found = std::find_if(kErrors.begin(), kErrors.end(),
                                         [&](const auto& info) { return info.error == error; });
  assert(found != kErrors.end());
  return *found;
}

std::string http_error_code(HttpError error) {
  return "FL-" + std::to_string(static_cast<int>(error));
}

HttpError http_error_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kUpstreamRefused:
    case Outcome::kUpstreamUnreachable:
      return HttpError::kUpstreamRefused;
    case Outcome::kUpstreamReset:
    case Outcome::kApplication:
      return HttpError::kUpstreamBroke;
    case Outcome::kNoService:
    case Outcome::kNoAgent:
    case Outcome::kNotHere:
    case Outcome::kRefused:
      return HttpError::kAgentOffline;
    case Outcome::kOverloaded:
    case Outcome::kSlow:
      return HttpError::kOverloaded;
    case Outcome::kAgentLost:
    case Outcome::kHomeLost:
    case Outcome::kPeerLost:
    case Outcome::kPathLost:
    case Outcome::kCancelled:
      return HttpError::kPathLost;
    case Outcome::kDrainTimeout:
      return HttpError::kDraining;
    case Outcome::kFinished:
    case Outcome::kVisitorReset:
    case Outcome::kProtocol:
    case Outcome::kInternal:
      return HttpError::kInternal;
  }
  return HttpError::kInternal;
}

std::string render_error(HttpError error, const PageStyle& style) {
  const HttpErrorInfo& info = http_error_info(error);
  const std::string code = http_error_code(error);
  std::string page;
  if (style.html) {
    page.append("<!doctype html><meta charset=utf-8><title>").append(info.title);
    page.append("</title><h1>").append(info.title).append("</h1><p>").append(info.remedy);
    page.append("</p><p><code>").append(code).append("</code></p>\n");
  } else {
    page.append(code).append(": ").append(info.title).append("\n");
    page.append(info.remedy).append("\n");
  }
  std::string out = "HTTP/1.1 " + std::to_string(info.status) + " ";
  out.append(info.reason).append("\r\nX-Fairlead-Error: ").append(code);
  out.append("\r\nContent-Type: ").append(style.html ? "text/html" : "text/plain");
  out.append("; charset=utf-8\r\nContent-Length: ").append(std::to_string(page.size()));
  out.append("\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
  if (style.html) out.append("Content-Security-Policy: default-src 'none'\r\n");
  if (info.retry_after_s > 0) {
    out.append("Retry-After: ").append(std::to_string(info.retry_after_s)).append("\r\n");
  }
  if (!style.connection.empty()) out.append("Connection: ").append(style.connection).append("\r\n");
  out.append("\r\n");
  return style.without_body ? out : out + page;
}

}  // namespace fairlead::dataplane
