#include "relay/tcp_front.h"

#include <spdlog/spdlog.h>

#include "socket/steady_now.h"
#include "socket/visit_socket.h"

namespace fairlead::dataplane {

using boost::asio::ip::tcp;

bool TcpFront::set_routes(const RouteTable& routes, std::string& error) {
  std::map<std::uint16_t, std::shared_ptr<Listener>> kept;
  for (const std::uint16_t port : routes.tcp_ports()) {
    const TcpOwner owner = *routes.tcp(port);
    const auto found = listeners_.find(port);
    auto listener = found != listeners_.end() ? found->second : nullptr;
    if (!listener) {
      std::string failure;
      listener = Listener::listen(io_, tcp::endpoint(address_, port), failure);
      if (!listener) {
        error += (error.empty() ? "" : "; ") + failure;
        continue;
      }
    }
    listener->serve([this, owner](tcp::socket socket) { accepted(std::move(socket), owner); });
    kept.emplace(port, std::move(listener));
  }
  for (auto& [port, listener] : listeners_) {
    if (!kept.contains(port)) listener->stop();
  }
  listeners_ = std::move(kept);
  return error.empty();
}

void TcpFront::stop() {
  for (auto& [port, listener] : listeners_) listener->stop();
  listeners_.clear();
}

void TcpFront::accepted(tcp::socket socket, const TcpOwner& owner) {
  identify_visitor(std::move(socket), trusted_, [this, owner](Visitor visitor, std::string error) {
    if (!error.empty()) {
      // Dropped with RST: the socket carries SO_LINGER {1, 0}.
      visits_.refuse("proxy_header");
      spdlog::info("tcp {}: a connection is dropped: {}", owner.service, error);
      return;
    }
    visit(std::move(visitor), owner);
  });
}

void TcpFront::visit(Visitor visitor, const TcpOwner& owner) {
  auto lease = visits_.admit(owner.tenant);
  if (!lease) {
    visits_.refuse("overloaded");
    return;
  }
  VisitOpen open = visits_.describe("tcp", owner.tenant, owner.service, to_text(visitor.source));
  const VisitId id = open.id;
  VisitSocket::Callbacks callbacks{
      .path_refused = [this, id](link::Code code) { visits_.path_refused(id, code); },
      .accepted = {},
      .ended = [this](const VisitRecord& record) { visits_.ended(record); }};
  auto socket =
      std::make_shared<VisitSocket>(std::move(visitor.socket), VisitRole::kVisitor, std::move(open),
                                    std::move(*lease), std::move(callbacks), steady_now());
  socket->local_opened(std::move(visitor.early));
  visits_.begin(std::move(socket));
}

}  // namespace fairlead::dataplane
