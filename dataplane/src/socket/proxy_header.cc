#include "socket/proxy_header.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <vector>

#include "routes/ip_address.h"
#include "routes/proxy_v2.h"

namespace fairlead::dataplane {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

IpAddress to_ip(const asio::ip::address& address) {
  if (address.is_v4()) return IpAddress::v4(address.to_v4().to_bytes());
  return IpAddress::v6(address.to_v6().to_bytes());
}

tcp::endpoint to_endpoint(const SocketAddress& address) {
  if (address.ip.is_v4()) {
    asio::ip::address_v4::bytes_type bytes;
    std::copy_n(address.ip.data(), bytes.size(), bytes.begin());
    return {asio::ip::address_v4(bytes), address.port};
  }
  asio::ip::address_v6::bytes_type bytes;
  std::copy_n(address.ip.data(), bytes.size(), bytes.begin());
  return {asio::ip::address_v6(bytes), address.port};
}

class HeaderReader : public std::enable_shared_from_this<HeaderReader> {
 public:
  HeaderReader(tcp::socket socket, tcp::endpoint peer,
               std::function<void(Visitor, std::string)> done)
      : socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        peer_(std::move(peer)),
        done_(std::move(done)) {}

  void start() {
    timer_.expires_after(kProxyHeaderTimeout);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->timed_out();
    });
    read();
  }

 private:
  void read() {
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const error_code& error) {
                         if (self->done_ == nullptr) return;
                         if (error) return self->finish(false, self->peer_, error.message());
                         self->on_readable();
                       });
  }

  void on_readable() {
    std::byte part[kMaxProxyHeader];
    error_code error;
    const std::size_t n = socket_.read_some(
        asio::buffer(part, kMaxProxyHeader - std::min(held_.size(), kMaxProxyHeader - 1)), error);
    if (error == asio::error::would_block) return read();
    // An end or a failure right away is the visitor's own business: whoever serves it sees it too.
    if (error == asio::error::eof) return finish(false, peer_, "closed before a PROXY header");
    if (error) return finish(false, peer_, error.message());
    held_.insert(held_.end(), part, part + n);
    const ProxyParse parse = parse_proxy_v2(held_);
    switch (parse.status) {
      case ProxyParse::Status::kNeedMore:
        return read();
      case ProxyParse::Status::kBad:
        return finish(false, peer_, "PROXY header: " + std::string(parse.error));
      case ProxyParse::Status::kNotProxy:
        return finish(false, peer_, "");
      case ProxyParse::Status::kHeader:
        held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(parse.consumed));
        return finish(true, parse.endpoints ? to_endpoint(parse.endpoints->source) : peer_, "");
    }
  }

  void timed_out() {
    if (done_ == nullptr) return;
    finish(false, peer_, held_.empty() ? "" : "a PROXY header was not complete within 5 s");
  }

  void finish(bool proxied, const tcp::endpoint& source, std::string error) {
    const auto done = std::move(done_);
    done_ = nullptr;
    timer_.cancel();
    error_code ignored;
    if (socket_.is_open()) socket_.cancel(ignored);
    done(Visitor{std::move(socket_), source, proxied, link::Slice::copy_of(held_)},
         std::move(error));
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  tcp::endpoint peer_;
  std::function<void(Visitor, std::string)> done_;
  std::vector<std::byte> held_;
};

}  // namespace

void identify_visitor(tcp::socket socket, const CidrSet& trusted,
                      std::function<void(Visitor, std::string error)> done) {
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  socket.non_blocking(true, error);
  const auto executor = socket.get_executor();
  if (error || !trusted.contains(to_ip(peer.address()))) {
    // Boost 1.74 wants handlers it can copy; a socket cannot be.
    auto visitor = std::make_shared<Visitor>(Visitor{std::move(socket), peer, false, {}});
    asio::post(executor, [visitor, done = std::move(done), text = error.message(),
                          failed = static_cast<bool>(error)] {
      done(std::move(*visitor), failed ? text : "");
    });
    return;
  }
  std::make_shared<HeaderReader>(std::move(socket), peer, std::move(done))->start();
}

link::PreTls proxy_before_tls(const CidrSet& trusted) {
  return [trusted](link::Bytes so_far, const tcp::endpoint& from) {
    link::PreTlsResult result;
    if (!trusted.contains(to_ip(from.address()))) return result;
    const ProxyParse parse = parse_proxy_v2(so_far);
    switch (parse.status) {
      case ProxyParse::Status::kNeedMore:
        result.verdict = link::PreTlsResult::Verdict::kMore;
        break;
      case ProxyParse::Status::kNotProxy:
        break;
      case ProxyParse::Status::kBad:
        result.verdict = link::PreTlsResult::Verdict::kRefused;
        result.text = "PROXY header: " + std::string(parse.error);
        break;
      case ProxyParse::Status::kHeader:
        result.consumed = parse.consumed;
        if (parse.endpoints) result.source = to_endpoint(parse.endpoints->source);
        break;
    }
    return result;
  };
}

std::string to_text(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(endpoint.port());
}

}  // namespace fairlead::dataplane
