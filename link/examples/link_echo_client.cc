// Sends standard input over one session and prints what comes back.
//
//   link-echo-client HOST PORT CA < input > output

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "link/asio/dial.h"

namespace {

namespace asio = boost::asio;
namespace link = fairlead::link;
using link::LinkSocket;

class EchoClient : public link::LinkHandler {
 public:
  explicit EchoClient(std::string input) : input_(std::move(input)) {}

  void start(const std::shared_ptr<LinkSocket>& socket) {
    socket->start(this);
    // No need to wait for event::Up: a few sessions may be opened from the first moment.
    session_ = socket->connection().open({}, LinkSocket::now()).id;
    socket->wake();
  }

  void on_event(LinkSocket& socket, link::Event&& event) override {
    link::Connection& connection = socket.connection();
    const link::Instant now = LinkSocket::now();
    if (const auto* up = std::get_if<link::event::Up>(&event)) {
      std::fprintf(stderr, "connected to %s\n", up->peer.software.c_str());
    } else if (std::holds_alternative<link::event::Accepted>(event) ||
               std::holds_alternative<link::event::Credit>(event)) {
      send_what_fits(connection);
    } else if (const auto* data = std::get_if<link::event::Data>(&event)) {
      std::cout << data->bytes.text();
      connection.consume(data->id, data->bytes.size(), now);
    } else if (std::holds_alternative<link::event::Finished>(event)) {
      complete_ = true;  // Eof: every byte the server sent has come
    } else if (const auto* reset = std::get_if<link::event::Reset>(&event)) {
      why_ = "the server reset the session: " + link::code_name(reset->code);
    } else if (std::holds_alternative<link::event::Retired>(event)) {
      connection.release(session_, now);
      connection.close(link::code::kOk, "done", now);
    } else if (const auto* closed = std::get_if<link::event::Closed>(&event)) {
      if (!complete_ && why_.empty()) why_ = "the link was cut: " + to_string(closed->cut);
    }
  }

  void on_closed(LinkSocket&) override {}

  // 0 after an Eof, else 1 with the reason on standard error.
  int result() const {
    std::cout.flush();
    if (complete_ && sent_ == input_.size()) return EXIT_SUCCESS;
    std::fprintf(stderr, "link-echo-client: %s\n", why_.c_str());
    return EXIT_FAILURE;
  }

  void failed(std::string why) { why_ = std::move(why); }

 private:
  // At most what the server has given credit for, so that nothing piles up in the queue.
  void send_what_fits(link::Connection& connection) {
    if (finished_) return;
    const std::uint64_t room = connection.send_room(session_);
    const std::string_view next = std::string_view(input_).substr(sent_, room);
    connection.write(session_, link::Slice::copy_of(next));
    sent_ += next.size();
    if (sent_ == input_.size()) finished_ = connection.finish(session_);
  }

  const std::string input_;
  link::SessionId session_ = 0;
  std::size_t sent_ = 0;
  bool finished_ = false;  // our half
  bool complete_ = false;  // the server's
  std::string why_;
};

int fail(const std::string& text) {
  std::fprintf(stderr, "link-echo-client: %s\n", text.c_str());
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fail("usage: link-echo-client HOST PORT CA < input > output");
  std::string error;
  const auto material = link::read_tls_material("", "", argv[3], error);
  if (!material) return fail(error);
  link::DialOptions options;
  options.host = argv[1];
  options.port = argv[2];
  options.identity = link::TlsIdentity::create(*material, error);
  if (!options.identity) return fail(error);
  options.config.software = "link-echo-client";

  std::ios::sync_with_stdio(false);
  EchoClient client(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  asio::io_context io(1);
  link::dial(io, options, [&](const std::shared_ptr<LinkSocket>& socket, std::string why) {
    if (socket) {
      client.start(socket);
    } else {
      client.failed(std::move(why));
    }
  });
  io.run();  // until the link is closed
  return client.result();
}
