// What Admin and the health server ask of a replica, asked on its own thread.
#pragma once

#include <boost/asio/io_context.hpp>

#include "admin/admin_server.h"
#include "relay/health_server.h"
#include "relay/relay.h"

namespace fairlead::dataplane {

// A question that the byte thread does not answer within this time is answered with "busy".
inline constexpr std::chrono::seconds kAnswerTimeout{2};

// Both may be called from any thread while `io` runs; `relay` must outlive that.
AdminHandlers admin_handlers(boost::asio::io_context& io, Relay& relay);

// GET /healthz   200 while the byte thread answers within a minute
// GET /readyz    200 when visitors may come, else 503
// GET /metrics   Prometheus text
// GET /statusz   a page; ?format=json the same as JSON
// POST /drain    from this host only: drains with the configured deadline
HealthServer::Respond health_responder(boost::asio::io_context& io, Relay& relay);

}  // namespace fairlead::dataplane
