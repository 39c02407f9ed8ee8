// Accepts links and sends every session's bytes back.
//
//   link-echo-server ADDRESS PORT CERTIFICATE KEY      (port 0: any free one; it is printed)

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>

#include "link/asio/link_listener.h"

namespace {

namespace asio = boost::asio;
namespace link = fairlead::link;
using link::LinkSocket;

class EchoServer : public link::LinkHandler {
 public:
  explicit EchoServer(asio::io_context& io) : deadline_(io) {}

  void add(const std::shared_ptr<LinkSocket>& socket) {
    links_.insert(socket);
    socket->start(this);
  }

  void on_event(LinkSocket& socket, link::Event&& event) override {
    link::Connection& connection = socket.connection();
    const link::Instant now = LinkSocket::now();
    if (const auto* opened = std::get_if<link::event::Opened>(&event)) {
      connection.accept(opened->id, {}, 0, now);
    } else if (auto* data = std::get_if<link::event::Data>(&event)) {
      // write() takes everything at once and holds it until the peer gives credit. What bounds this
      // server's memory is that it does not give credit for bytes it still holds.
      held_[&socket][data->id] += data->bytes.size();
      connection.write(data->id, std::move(data->bytes));
      give_credit(socket, data->id);
    } else if (const auto* credit = std::get_if<link::event::Credit>(&event)) {
      give_credit(socket, credit->id);
    } else if (const auto* finished = std::get_if<link::event::Finished>(&event)) {
      connection.finish(finished->id);  // after everything that is queued
    } else if (const auto* reset = std::get_if<link::event::Reset>(&event)) {
      if (!reset->after_fin) connection.reset(reset->id, reset->code);
    } else if (const auto* retired = std::get_if<link::event::Retired>(&event)) {
      release(socket, retired->id);
    } else if (const auto* cut = std::get_if<link::event::SessionCut>(&event)) {
      release(socket, cut->id);
    } else if (const auto* closed = std::get_if<link::event::Closed>(&event)) {
      std::fprintf(stderr, "link of %s ended: %s\n", socket.source().address().to_string().c_str(),
                   to_string(closed->cut).c_str());
    }
  }

  void on_closed(LinkSocket& socket) override {
    held_.erase(&socket);
    links_.erase(socket.shared_from_this());
    if (links_.empty()) deadline_.cancel();
  }

  // No new sessions; those that run have five seconds. A program that serves for long would close
  // each link as soon as its session_count() is 0.
  void leave() {
    for (const auto& each : links_) {
      each->connection().goaway(link::GoawayReason::kLeave, kGrace, "shutting down",
                                LinkSocket::now());
      each->wake();
    }
    if (links_.empty()) return;
    deadline_.expires_after(kGrace);
    deadline_.async_wait([this](boost::system::error_code) {
      for (const auto& each : links_) {
        each->connection().close(link::code::kOk, "shut down", LinkSocket::now());
        each->wake();
      }
    });
  }

 private:
  static constexpr std::chrono::seconds kGrace{5};

  void give_credit(LinkSocket& socket, link::SessionId id) {
    std::uint64_t& held = held_[&socket][id];
    const std::uint64_t queued = socket.connection().queued(id);
    if (held <= queued) return;
    socket.connection().consume(id, held - queued, LinkSocket::now());
    held = queued;
  }
  void release(LinkSocket& socket, link::SessionId id) {
    held_[&socket].erase(id);
    socket.connection().release(id, LinkSocket::now());
  }

  asio::steady_timer deadline_;
  std::unordered_set<std::shared_ptr<LinkSocket>> links_;
  std::unordered_map<LinkSocket*, std::unordered_map<link::SessionId, std::uint64_t>> held_;
};

int fail(const std::string& text) {
  std::fprintf(stderr, "link-echo-server: %s\n", text.c_str());
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return fail("usage: link-echo-server ADDRESS PORT CERTIFICATE KEY");
  std::string error;
  const auto material = link::read_tls_material(argv[3], argv[4], "", error);
  if (!material) return fail(error);
  link::ListenOptions options;
  options.identity = link::TlsIdentity::create(*material, error);
  if (!options.identity) return fail(error);
  boost::system::error_code wrong;
  options.endpoint = {asio::ip::make_address(argv[1], wrong),
                      static_cast<std::uint16_t>(std::atoi(argv[2]))};
  if (wrong) return fail(std::string(argv[1]) + " is not an address");
  options.config.software = "link-echo-server";

  asio::io_context io(1);
  EchoServer server(io);
  const auto listener = link::LinkListener::listen(
      io, options, [&](const std::shared_ptr<LinkSocket>& socket) { server.add(socket); },
      [](const link::AcceptFailure& failure) {
        std::fprintf(stderr, "refused %s: %s\n", failure.source.address().to_string().c_str(),
                     failure.text.c_str());
      },
      error);
  if (!listener) return fail(error);
  std::printf("listening on port %u\n", listener->endpoint().port());
  std::fflush(stdout);

  asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](boost::system::error_code, int) {
    listener->stop();
    server.leave();
  });
  io.run();  // until nothing is left to be done
  return EXIT_SUCCESS;
}
