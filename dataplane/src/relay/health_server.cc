#include "health_server.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

namespace fairlead::dataplane {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

class HealthServer::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, HealthServer& server) : stream_(std::move(socket)), server_(server) {
    ++server_.connections_;
    parser_.header_limit(8 * 1024);
    parser_.body_limit(0);
  }
  ~Session() { --server_.connections_; }

  void start() {
    stream_.expires_after(kRequestTimeout);
    http::async_read(stream_, buffer_, parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       // A scanner's garbage, a timeout or a closed socket: nothing to answer.
                       if (!error) self->answer();
                     });
  }

 private:
  void answer() {
    const auto& request = parser_.get();
    const std::string target(request.target());
    const std::size_t mark = target.find('?');
    beast::error_code error;
    const tcp::endpoint peer = stream_.socket().remote_endpoint(error);
    const tcp::endpoint own = stream_.socket().local_endpoint(error);
    const bool here = !error && (peer.address().is_loopback() || peer.address() == own.address());
    const HealthReply reply =
        server_.respond_(std::string(request.method_string()), target.substr(0, mark),
                         mark == std::string::npos ? "" : target.substr(mark + 1), here);
    response_.version(request.version());
    response_.result(reply.status);
    response_.set(http::field::content_type, reply.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.keep_alive(false);
    response_.body() = request.method() == http::verb::head ? "" : reply.body;
    response_.content_length(reply.body.size());
    stream_.expires_after(kRequestTimeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code, std::size_t) {
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                      });
  }

  beast::tcp_stream stream_;
  HealthServer& server_;
  beast::flat_buffer buffer_{16 * 1024};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
};

HealthServer::HealthServer(const tcp::endpoint& endpoint, Respond respond)
    : respond_(std::move(respond)),
      acceptor_(context_, endpoint),
      endpoint_(acceptor_.local_endpoint()) {
  accept();
  thread_ = std::thread([this] { context_.run(); });
}

HealthServer::~HealthServer() {
  context_.stop();
  thread_.join();
}

void HealthServer::accept() {
  acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error && connections_ < kMaxConnections) {
      std::make_shared<Session>(std::move(socket), *this)->start();
    }
    if (error) {
      // Out of descriptors, most likely: let some close first.
      auto pause = std::make_shared<asio::steady_timer>(context_, std::chrono::milliseconds(100));
      pause->async_wait([this, pause](beast::error_code) { accept(); });
      return;
    }
    accept();
  });
}

}  // namespace fairlead::dataplane
