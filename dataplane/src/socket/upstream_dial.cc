#include "socket/upstream_dial.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "socket/stream_socket.h"
#include "visit/outcome.h"

namespace fairlead::dataplane {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

class UpstreamDial : public std::enable_shared_from_this<UpstreamDial> {
 public:
  using Done = std::function<void(tcp::socket, link::Code, std::string)>;

  UpstreamDial(asio::io_context& io, const Upstream& upstream, Done done)
      : upstream_(upstream), done_(std::move(done)), socket_(io), resolver_(io), timer_(io) {}

  void start() {
    timer_.expires_after(kUpstreamTimeout);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->finish(asio::error::timed_out);
    });
    resolver_.async_resolve(upstream_.host, upstream_.port,
                            [self = shared_from_this()](const error_code& error,
                                                        const tcp::resolver::results_type& found) {
                              if (error) return self->finish(error);
                              self->connect(found);
                            });
  }

 private:
  void connect(const tcp::resolver::results_type& found) {
    if (done_ == nullptr) return;
    asio::async_connect(socket_, found,
                        [self = shared_from_this()](const error_code& error, const tcp::endpoint&) {
                          self->finish(error);
                        });
  }

  void finish(const error_code& error) {
    if (done_ == nullptr) return;
    const auto done = std::move(done_);
    done_ = nullptr;
    timer_.cancel();
    resolver_.cancel();
    if (!error) {
      // Whoever wanted it may be gone: a connection that is dropped is no empty visit.
      close_means_reset(socket_);
      return done(std::move(socket_), link::code::kOk, "");
    }
    error_code ignored;
    socket_.close(ignored);
    const bool refused = error == asio::error::connection_refused;
    done(std::move(socket_),
         refused ? visit_code::kUpstreamRefused : visit_code::kUpstreamUnreachable,
         to_string(upstream_) + ": " + error.message());
  }

  Upstream upstream_;
  Done done_;
  tcp::socket socket_;
  tcp::resolver resolver_;
  asio::steady_timer timer_;
};

}  // namespace

void dial_upstream(asio::io_context& io, const Upstream& upstream,
                   std::function<void(tcp::socket, link::Code, std::string)> done) {
  std::make_shared<UpstreamDial>(io, upstream, std::move(done))->start();
}

}  // namespace fairlead::dataplane
