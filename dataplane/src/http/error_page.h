// The answers that Fairlead gives by itself: stable codes, small fixed pages.
//
// Nothing of a request is ever repeated in a page, so that there is nothing to escape.
// docs/errors.md lists the codes; a test holds the two together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "visit/outcome.h"

namespace fairlead::dataplane {

// The number in FL-<number>. Stable: never renumber or reuse.
enum class HttpError : std::uint16_t {
  kNoSuchService = 1001,
  kAgentOffline = 1002,
  kUpstreamRefused = 1003,
  kDraining = 1004,
  kBadRequest = 1005,
  kHeadTooLarge = 1006,
  kUpgradeUnsupported = 1007,
  kPathLost = 1008,
  kUpstreamBroke = 1009,
  kConnectUnsupported = 1010,
  kRequestTimeout = 1011,
  kOverloaded = 1012,
  kInternal = 1013,
};

struct HttpErrorInfo {
  HttpError error;
  int status;
  std::string_view reason;  // of the status line
  std::string_view title;   // what happened
  std::string_view remedy;  // who can do what about it
  int retry_after_s = 0;    // Retry-After; 0: none
};

// Every error, ascending.
std::span<const HttpErrorInfo> http_errors();
const HttpErrorInfo& http_error_info(HttpError error);
// "FL-1001".
std::string http_error_code(HttpError error);

// What a visitor is told when its visit was lost before a response began.
HttpError http_error_of(Outcome outcome);

struct PageStyle {
  bool html = false;          // else plain text
  bool without_body = false;  // the answer to HEAD
  // Value of the Connection field; none when empty.
  std::string_view connection = {};
};

// A whole response: status line, X-Fairlead-Error, Content-Length, the page.
std::string render_error(HttpError error, const PageStyle& style);

}  // namespace fairlead::dataplane
