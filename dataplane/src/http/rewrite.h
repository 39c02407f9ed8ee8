// Heads as they are passed on: what is end to end stays as it was sent, what belongs to one
// connection is removed, and where a visitor comes from is stated. Pure functions.
#pragma once

#include <string>

#include "http/message.h"
#include "routes/ip_address.h"

namespace fairlead::dataplane {

// Whose connection a request came in by.
struct VisitorSource {
  IpAddress ip;
  // The peer is a proxy that may say who its client is: what it says in X-Forwarded-* and Forwarded
  // is kept and added to. From anybody else those fields are replaced and Forwarded removed.
  bool trusted_proxy = false;
  bool tls = false;
};

// Every function removes Connection and the fields that it names, Keep-Alive, Proxy-*, TE, Upgrade,
// HTTP2-Settings and the framing fields, and states the framing anew. Host, the framing and what
// Fairlead sets itself cannot be removed by naming it in Connection.

// The request as it goes into a visit. X-Forwarded-For, -Proto and -Host are set, X-Fairlead-* and,
// from an untrusted peer, X-Forwarded-* and X-Real-IP removed (also when spelled with underscores).
std::string visit_request_head(const RequestHead& head, const VisitorSource& source);
// The same as an agent sends it upstream: one request on a connection of its own.
std::string upstream_request_head(const RequestHead& head);

// The response as it goes into a visit. A body until the close becomes chunks, so that a cut can be
// told; X-Fairlead-* of the upstream are removed.
std::string visit_response_head(const ResponseHead& head);
// The response as a visitor gets it, with this framing and value of Connection (none when empty).
std::string visitor_response_head(const ResponseHead& head, Framing framing,
                                  std::string_view connection);

}  // namespace fairlead::dataplane
