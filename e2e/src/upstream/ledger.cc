#include "ledger.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <utility>

namespace fairlead::e2e {

using boost::system::error_code;

namespace {

HalfEnd end_of(const error_code& error) {
  if (!error || error == asio::error::eof) return HalfEnd::kFin;
  if (error == asio::error::connection_reset || error == asio::error::broken_pipe) {
    return HalfEnd::kReset;
  }
  return HalfEnd::kError;
}

}  // namespace

std::string_view half_end_name(HalfEnd end) {
  switch (end) {
    case HalfEnd::kLive:
      return "live";
    case HalfEnd::kFin:
      return "fin";
    case HalfEnd::kReset:
      return "rst";
    case HalfEnd::kError:
      return "error";
  }
  return "";
}

// The first end of a half is the one that was seen; a later error on it tells nothing new.
void Connection::inbound_ended(const error_code& error) {
  if (in == HalfEnd::kLive) in = end_of(error);
}

void Connection::outbound_ended(const error_code& error) {
  if (out == HalfEnd::kLive) out = end_of(error);
  if (out == HalfEnd::kReset && in == HalfEnd::kLive) in = HalfEnd::kReset;
}

void Connection::look_at_kernel() {
  if (!socket.is_open()) return;
  int queued = 0;
  if (::ioctl(socket.native_handle(), SIOCOUTQ, &queued) == 0) {
    unsent = static_cast<std::uint64_t>(queued);
  }
}

Task<bool> send(ConnectionPtr connection, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    error_code error;
    const std::size_t n = co_await write_some(connection->socket, bytes, error);
    connection->bytes_out += n;
    if (error) {
      connection->outbound_ended(error);
      co_return false;
    }
    bytes = bytes.subspan(n);
  }
  co_return true;
}

ConnectionPtr Ledger::add(tcp::socket socket, std::string service) {
  auto connection = std::make_shared<Connection>(std::move(socket));
  connection->service = std::move(service);
  error_code error;
  const auto peer = connection->socket.remote_endpoint(error);
  if (!error) connection->peer = to_text(peer);
  connections_.push_back(connection);
  return connection;
}

nlohmann::json Ledger::to_json() {
  auto list = nlohmann::json::array();
  for (const auto& c : connections_) {
    c->look_at_kernel();
    list.push_back({{"service", c->service},
                    {"peer", c->peer},
                    {"request", c->request},
                    {"bytes_in", c->bytes_in},
                    {"bytes_out", c->bytes_out},
                    {"unsent", c->unsent},
                    {"requests", c->requests},
                    {"requests_complete", c->requests_complete},
                    {"in", half_end_name(c->in)},
                    {"out", half_end_name(c->out)}});
  }
  return list;
}

}  // namespace fairlead::e2e
