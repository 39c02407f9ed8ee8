#include "relay/http_front.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

#include "relay/http_connection.h"

namespace fairlead::dataplane {

using boost::asio::ip::tcp;

namespace {

IpAddress to_ip(const boost::asio::ip::address& address) {
  if (address.is_v4()) return IpAddress::v4(address.to_v4().to_bytes());
  return IpAddress::v6(address.to_v6().to_bytes());
}

}  // namespace

HttpFront::HttpFront(boost::asio::io_context& io, Visits& visits, Options options)
    : io_(io), visits_(visits), options_(std::move(options)) {}

HttpFront::~HttpFront() = default;

bool HttpFront::listen(const tcp::endpoint& endpoint, std::string& error) {
  listener_ = Listener::listen(io_, endpoint, error);
  if (!listener_) return false;
  listener_->serve([this](tcp::socket socket) { accepted(std::move(socket)); });
  return true;
}

void HttpFront::accepted(tcp::socket socket) {
  if (connections_.size() >= kMaxConnections) {
    visits_.refuse("connections");
    return;
  }
  identify_visitor(
      std::move(socket), options_.trusted, [this](Visitor visitor, const std::string& error) {
        if (!error.empty()) {
          visits_.refuse("proxy_header");
          spdlog::info("http: a connection is dropped: {}", error);
          return;
        }
        ExchangeEdge::Config config;
        config.source.ip = to_ip(visitor.source.address());
        const auto connection = std::make_shared<HttpConnection>(*this, std::move(visitor), config);
        connections_.insert(connection);
        connection->start();
        if (draining_) connection->drain();
        options_.changed();
      });
}

void HttpFront::stop() {
  if (listener_) listener_->stop();
  listener_.reset();
}

void HttpFront::drain() {
  draining_ = true;
  // Draining one may end it.
  const std::vector<std::shared_ptr<HttpConnection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->drain();
}

void HttpFront::close_idle() {
  const std::vector<std::shared_ptr<HttpConnection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->close();
}

std::uint32_t HttpFront::idle() const {
  return static_cast<std::uint32_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [](const auto& connection) { return !connection->carries_visit(); }));
}

}  // namespace fairlead::dataplane
