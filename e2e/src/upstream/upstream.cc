#include "upstream.h"

#include <utility>

namespace fairlead::e2e {

using boost::system::error_code;

namespace {

using Serve = Task<> (*)(ConnectionPtr, Ledger*);

// The control port's own connections are no part of the book.
ConnectionPtr enter(Ledger& ledger, tcp::socket socket, const std::string& service) {
  if (service != "control") return ledger.add(std::move(socket), service);
  return std::make_shared<Connection>(std::move(socket));
}

Task<> accept_loop(std::shared_ptr<tcp::acceptor> acceptor, std::string service, Ledger* ledger,
                   Serve handler) {
  const auto executor = co_await asio::this_coro::executor;
  while (acceptor->is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor->async_accept(catching(error));
    if (error) continue;  // the visitor gave up, or the listener was closed
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    ConnectionPtr connection = enter(*ledger, std::move(socket), service);
    start(executor, handler(std::move(connection), ledger));
  }
}

}  // namespace

Upstream::Upstream(const asio::any_io_executor& executor, const asio::ip::address& address,
                   Ports ports)
    : ports_{serve(executor, {address, ports.echo}, "echo", serve_echo),
             serve(executor, {address, ports.file}, "file", serve_file),
             serve(executor, {address, ports.http}, "http", serve_http),
             serve(executor, {address, ports.control}, "control", serve_control)} {}

std::uint16_t Upstream::serve(const asio::any_io_executor& executor, const tcp::endpoint& endpoint,
                              const std::string& service, Serve handler) {
  auto acceptor = std::make_shared<tcp::acceptor>(listen_on(executor, endpoint));
  acceptors_.push_back(acceptor);
  start(executor, accept_loop(acceptor, service, &ledger_, handler));
  return acceptor->local_endpoint().port();
}

void Upstream::stop_listening() {
  error_code ignored;
  for (const auto& acceptor : acceptors_) acceptor->close(ignored);
}

}  // namespace fairlead::e2e
