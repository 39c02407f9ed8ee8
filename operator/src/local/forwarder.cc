#include "local/forwarder.h"

#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "local/durable_file.h"
#include "local/file_watch.h"
#include "local/splice.h"
#include "routes/proxy_v2.h"

namespace fairlead::op {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using namespace std::chrono_literals;

// How often listeners that failed are tried again, the status is written, and the endpoints file is
// looked at without a hint from inotify.
constexpr auto kTick = 1s;
// Pause of a listener when the process has no file descriptor left.
constexpr auto kAcceptPause = 100ms;
constexpr int kBacklog = 4096;

void set_tcp_option(tcp::socket& socket, int name, int value) {
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof value);
}

// Not Asio's option: with that, the destructor of a socket would take the linger back and a socket
// that is dropped with its handlers would end with FIN.
void set_linger(tcp::socket& socket) {
  const ::linger reset{1, 0};
  ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

// Both sides: RST unless a clean end was decided, no delay of small writes, and a peer that
// vanished without a word is found after about two minutes.
void prepare(tcp::socket& socket) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  set_linger(socket);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  set_tcp_option(socket, TCP_KEEPIDLE, 60);
  set_tcp_option(socket, TCP_KEEPINTVL, 10);
  set_tcp_option(socket, TCP_KEEPCNT, 6);
}

dataplane::SocketAddress plain(const tcp::endpoint& endpoint) {
  const asio::ip::address& address = endpoint.address();
  return {address.is_v4() ? dataplane::IpAddress::v4(address.to_v4().to_bytes())
                          : dataplane::IpAddress::v6(address.to_v6().to_bytes()),
          endpoint.port()};
}

std::string proxy_header(const tcp::endpoint& visitor, const tcp::endpoint& dialled) {
  return dataplane::encode_proxy_v2({plain(visitor), plain(dialled)});
}

std::string to_text(const tcp::endpoint& endpoint) {
  std::ostringstream text;
  text << endpoint;
  return text.str();
}

}  // namespace

class Forwarder::Impl : public std::enable_shared_from_this<Forwarder::Impl> {
 public:
  Impl(asio::io_context& io, ForwarderOptions options, std::function<void(const std::string&)> log)
      : io_(io), options_(std::move(options)), log_(std::move(log)), tick_(io), hint_(io) {}

  void start() {
    std::string error;
    if (std::optional<FileWatch> watch = FileWatch::open(options_.endpoints, error)) {
      hint_.assign(::dup(watch->fd()));
      watch_.emplace(std::move(*watch));
      await_hint();
    } else {
      log_(error + "; looking at it every second instead");
    }
    tick();
  }

  void stop() {
    stopped_ = true;
    error_code ignored;
    tick_.cancel();
    hint_.close(ignored);
    listeners_.clear();
    write_status();
  }

 private:
  class Dial;

  struct Listener {
    explicit Listener(asio::io_context& io) : acceptor(io), pause(io) {}
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    std::size_t dealt = 0;  // connections so far: where the next one goes
  };

  void await_hint() {
    hint_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const error_code& ec) {
                       if (ec || self->stopped_) return;
                       if (self->watch_->take()) self->reload();
                       self->await_hint();
                     });
  }

  void tick() {
    if (stopped_) return;
    reload();
    listen();
    write_status();
    tick_.expires_after(kTick);
    tick_.async_wait([self = shared_from_this()](const error_code& ec) {
      if (!ec) self->tick();
    });
  }

  void reload() {
    std::string error;
    const std::optional<std::string> text = read_file(options_.endpoints, error);
    if (text && text == text_) return;
    const std::optional<Endpoints> read = text ? parse_endpoints(*text, error) : std::nullopt;
    if (!read) {
      if (error != reported_) log_("endpoints file unusable, keeping the last one: " + error);
      reported_ = error;
      return;
    }
    reported_.clear();
    text_ = text;
    endpoints_ = *read;
    std::string names;
    for (const Endpoint& one : endpoints_.ready) names += " " + one.name;
    log_("ready replicas:" + (names.empty() ? " none" : names));
    listen();
  }

  // Opens and closes listeners until they are those of the endpoints file.
  void listen() {
    const std::set<std::uint16_t> wanted(endpoints_.ports.begin(), endpoints_.ports.end());
    std::erase_if(listeners_, [&](const auto& entry) { return !wanted.contains(entry.first); });
    std::erase_if(status_.failed, [&](const auto& entry) { return !wanted.contains(entry.first); });
    for (const std::uint16_t port : wanted) {
      if (!listeners_.contains(port)) open(port);
    }
    status_.listening.clear();
    for (const auto& [port, listener] : listeners_) status_.listening.push_back(port);
  }

  void open(std::uint16_t port) {
    auto listener = std::make_shared<Listener>(io_);
    const tcp::endpoint at(options_.listen, port);
    error_code ec;
    listener->acceptor.open(at.protocol(), ec);
    if (!ec) listener->acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    if (!ec) listener->acceptor.bind(at, ec);
    if (!ec) listener->acceptor.listen(kBacklog, ec);
    if (ec) {
      const std::string reason = ec.message();
      if (status_.failed[port] != reason) {
        log_("cannot listen on " + to_text(at) + ": " + reason + "; trying again every second");
      }
      status_.failed[port] = reason;
      return;
    }
    log_("listening on " + to_text(at));
    status_.failed.erase(port);
    listeners_[port] = listener;
    accept(listener);
  }

  void accept(const std::shared_ptr<Listener>& listener);

  // The ready replicas in the order in which this connection tries them.
  std::vector<Endpoint> deal(Listener& listener) {
    std::vector<Endpoint> order = endpoints_.ready;
    if (!order.empty()) {
      const auto first = static_cast<std::ptrdiff_t>(listener.dealt++ % order.size());
      std::rotate(order.begin(), order.begin() + first, order.end());
    }
    return order;
  }

  void ended(SpliceEnd how) {
    ForwarderCounters& counters = status_.counters;
    --counters.live;
    if (how == SpliceEnd::kFinished) ++counters.finished;
    if (how == SpliceEnd::kVisitorReset) ++counters.visitor_reset;
    if (how == SpliceEnd::kReplicaReset) ++counters.replica_reset;
  }

  void write_status() {
    if (written_ == status_) return;
    const auto failed = replace_file(options_.status, to_json(status_), Durability::kVisible);
    if (failed && *failed != reported_status_) log_(*failed);
    reported_status_ = failed.value_or("");
    if (!failed) written_ = status_;
  }

  asio::io_context& io_;
  const ForwarderOptions options_;
  const std::function<void(const std::string&)> log_;
  asio::steady_timer tick_;
  std::optional<FileWatch> watch_;
  asio::posix::stream_descriptor hint_;
  std::optional<std::string> text_;  // of the endpoints file in force
  std::string reported_;
  std::string reported_status_;
  Endpoints endpoints_;
  std::map<std::uint16_t, std::shared_ptr<Listener>> listeners_;
  ForwarderStatus status_;
  std::optional<ForwarderStatus> written_;
  Splice::Scratch scratch_;
  bool stopped_ = false;
};

// An accepted connection until it reaches a replica. Kept alive by its own handlers.
class Forwarder::Impl::Dial : public std::enable_shared_from_this<Forwarder::Impl::Dial> {
 public:
  Dial(std::shared_ptr<Impl> owner, tcp::socket visitor, std::vector<Endpoint> candidates)
      : owner_(std::move(owner)),
        visitor_(std::move(visitor)),
        replica_(owner_->io_),
        timeout_(owner_->io_),
        candidates_(std::move(candidates)) {}

  void start() {
    prepare(visitor_);
    error_code ec;
    visitor_address_ = visitor_.remote_endpoint(ec);
    if (!ec) dialled_address_ = visitor_.local_endpoint(ec);
    if (ec) return fail(owner_->status_.counters.visitor_reset);
    dial_next();
  }

 private:
  void dial_next() {
    if (next_ == candidates_.size()) return fail(owner_->status_.counters.no_replica);
    error_code ec;
    const auto address = asio::ip::make_address(candidates_[next_++].address, ec);
    if (ec) return dial_next();
    replica_ = tcp::socket(owner_->io_);
    timeout_.expires_after(owner_->options_.dial_timeout);
    timeout_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      error_code ignored;
      if (!cancelled) self->replica_.close(ignored);
    });
    replica_.async_connect(
        tcp::endpoint(address, dialled_address_.port()),
        [self = shared_from_this()](const error_code& failed) { self->dialled(failed); });
  }

  void dialled(error_code failed) {
    // The timer may have closed the socket after the connect had succeeded.
    if (!failed && !replica_.is_open()) failed = asio::error::timed_out;
    timeout_.cancel();
    if (failed == asio::error::connection_refused) {
      ++owner_->status_.counters.refused_dials;
      return dial_next();
    }
    if (failed) return fail(owner_->status_.counters.dial_failed);
    prepare(replica_);
    const auto splice = std::make_shared<Splice>(
        std::move(visitor_), std::move(replica_), proxy_header(visitor_address_, dialled_address_),
        owner_->scratch_, [owner = owner_](SpliceEnd how) { owner->ended(how); });
    splice->start();
  }

  // Nothing was passed on: the visitor is reset and nobody else knows.
  void fail(std::uint64_t& counter) {
    ++counter;
    --owner_->status_.counters.live;
    error_code ignored;
    visitor_.close(ignored);
  }

  std::shared_ptr<Impl> owner_;
  tcp::socket visitor_;
  tcp::socket replica_;
  asio::steady_timer timeout_;
  std::vector<Endpoint> candidates_;
  std::size_t next_ = 0;
  tcp::endpoint visitor_address_;
  tcp::endpoint dialled_address_;
};

void Forwarder::Impl::accept(const std::shared_ptr<Listener>& listener) {
  listener->acceptor.async_accept(
      [self = shared_from_this(), listener](const error_code& ec, tcp::socket visitor) {
        if (self->stopped_ || ec == asio::error::operation_aborted) return;
        if (!ec) {
          ++self->status_.counters.accepted;
          ++self->status_.counters.live;
          std::make_shared<Dial>(self, std::move(visitor), self->deal(*listener))->start();
        }
        if (ec == asio::error::no_descriptors || ec == asio::error::no_memory ||
            ec == asio::error::no_buffer_space) {
          listener->pause.expires_after(kAcceptPause);
          listener->pause.async_wait([self, listener](const error_code& cancelled) {
            if (!cancelled) self->accept(listener);
          });
          return;
        }
        self->accept(listener);
      });
}

Forwarder::Forwarder(asio::io_context& io, ForwarderOptions options,
                     std::function<void(const std::string&)> log)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(log))) {}

Forwarder::~Forwarder() = default;

void Forwarder::start() {
  impl_->start();
}
void Forwarder::stop() {
  impl_->stop();
}

}  // namespace fairlead::op
