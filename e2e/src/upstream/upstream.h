// The services that visits reach in tests and demos, on four ports of one loopback address:
//
//   echo     TCP: every byte back; FIN after the peer's FIN.
//   file     TCP, one request a connection, then FIN:
//              "GET <size> <seed>\n"  answers <size> bytes of the pattern of <seed>
//              "PUT <seed>\n"         checks the bytes up to FIN, answers "OK <size> <sha256>\n" or
//                                     "BAD <offset>\n"
//   http     HTTP/1.1: GET /file?size=&seed=     with Content-Length
//                      GET /chunked?size=&seed=&chunk=&delay_ms=
//                      GET /sse?count=&interval_ms=
//                      GET /status/<code>
//                      POST /echo                the body back (<= 1 MiB) with X-Body-SHA256
//                      POST /sink                any size; {"size":..,"sha256":..}
//   control  HTTP/1.1: GET /connections          the ledger as JSON
//
// The pattern is pattern.h's. Everything runs on the given executor's single thread.
#pragma once

#include <cstdint>
#include <string>

#include "../net.h"
#include "ledger.h"

namespace fairlead::e2e {

class Upstream {
 public:
  struct Ports {  // 0: the system picks a free one
    std::uint16_t echo = 0;
    std::uint16_t file = 0;
    std::uint16_t http = 0;
    std::uint16_t control = 0;
  };

  // Listens at once; throws boost::system::system_error when an address is taken.
  Upstream(const asio::any_io_executor& executor, const asio::ip::address& address, Ports ports);

  const Ports& ports() const { return ports_; }
  Ledger& ledger() { return ledger_; }
  // Accepts no more; connections that are open go on.
  void stop_listening();

 private:
  using Serve = Task<> (*)(ConnectionPtr, Ledger*);

  std::uint16_t serve(const asio::any_io_executor& executor, const tcp::endpoint& endpoint,
                      const std::string& service, Serve handler);

  Ledger ledger_;
  std::vector<std::shared_ptr<tcp::acceptor>> acceptors_;
  Ports ports_;  // last: opening the ports fills acceptors_
};

// The services, one call a connection.
Task<> serve_echo(ConnectionPtr connection, Ledger* ledger);
Task<> serve_file(ConnectionPtr connection, Ledger* ledger);
Task<> serve_http(ConnectionPtr connection, Ledger* ledger);
Task<> serve_control(ConnectionPtr connection, Ledger* ledger);

}  // namespace fairlead::e2e
