#include "agent/agent.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <random>

#include "agent/http_upstream.h"
#include "control/message_stream.h"
#include "fairlead/control.pb.h"
#include "link/asio/dial.h"
#include "socket/link_sessions.h"
#include "socket/steady_now.h"
#include "socket/visit_socket.h"

namespace fairlead::dataplane {

namespace asio = boost::asio;
namespace pb = control::v1;

namespace {

std::string random_bytes(std::size_t n) {
  std::random_device device;
  std::string bytes;
  for (std::size_t i = 0; i < n; ++i) bytes += static_cast<char>(device());
  return bytes;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace

// One dial and the link that comes of it: registration on a control session, then visits.
class Agent::Home final : public link::LinkHandler, public std::enable_shared_from_this<Home> {
 public:
  Home(Agent& agent, HomeId id, AgentOptions::Relay relay)
      : agent_(agent), id_(id), relay_(std::move(relay)), timer_(agent.io_) {}

  void dial() {
    link::DialOptions options;
    options.host = relay_.host;
    options.port = relay_.port;
    options.identity = agent_.options_.identity;
    options.policy.host = agent_.options_.server_name;
    options.config.liveness = agent_.options_.liveness;
    options.config.software = "fairlead/" + agent_.options_.version;
    options.config.role = "agent";
    options.config.name = agent_.options_.agent_id;
    options.config.pool = &agent_.credit_;
    dial_ = link::dial(agent_.io_, std::move(options),
                       [self = shared_from_this()](std::shared_ptr<link::LinkSocket> socket,
                                                   const std::string& error) {
                         self->dialled(std::move(socket), error);
                       });
  }

  // Ends the link in order.
  void close(const std::string& why) {
    if (dial_) dial_->cancel();
    if (!socket_) return over(true);
    spdlog::info("home {}: leaving: {}", name(), why);
    socket_->connection().close(link::code::kOk, why, steady_now());
    socket_->wake();
  }

  // Ends the visits here and says nothing.
  void drop() {
    if (sessions_) sessions_->cut_all();
  }

  // The relay shall open no more visits here.
  void leave(const std::string& why) {
    if (!socket_) return;
    spdlog::info("home {}: takes no new visits: {}", name(), why);
    socket_->connection().goaway(link::GoawayReason::kLeave, kStopGrace, why, steady_now());
    socket_->wake();
  }

  std::size_t visits() const {
    return sessions_ ? sessions_->owned() - (control_ != 0 ? 1 : 0) : 0;
  }

  void on_event(link::LinkSocket&, link::Event&& event) override {
    const auto self = shared_from_this();
    if (sessions_->dispatch(event)) {
      agent_.homes_.set_visits(id_, visits(), steady_now());
      agent_.carry_out();
      return;
    }
    if (std::holds_alternative<link::event::Up>(event)) {
      open_control();
    } else if (const auto* opened = std::get_if<link::event::Opened>(&event)) {
      serve(*opened);
    } else if (const auto* drain = std::get_if<link::event::LinkDraining>(&event)) {
      if (drain->phase == 0) {
        spdlog::info("home {}: the replica says goaway: {}", name(), drain->text);
        agent_.homes_.draining(id_, steady_now());
      }
    } else if (const auto* closed = std::get_if<link::event::Closed>(&event)) {
      clean_ =
          closed->cut.code == link::code::kOk && (closed->cut.kind == link::CutKind::kClosed ||
                                                  closed->cut.kind == link::CutKind::kPeerClosed);
      if (clean_) {
        spdlog::info("home {}: link ended: {}", name(), to_string(closed->cut));
      } else {
        spdlog::warn("home {}: link lost: {}", name(), to_string(closed->cut));
      }
    }
    agent_.carry_out();
  }

  void on_closed(link::LinkSocket&) override {
    const auto self = shared_from_this();
    over(clean_);
  }

 private:
  std::string name() const { return replica_.empty() ? relay_.host + ":" + relay_.port : replica_; }

  void dialled(std::shared_ptr<link::LinkSocket> socket, const std::string& error) {
    dial_.reset();
    if (!socket) {
      spdlog::warn("cannot reach the relay: {}", error);
      return over(false);
    }
    socket_ = std::move(socket);
    sessions_ = std::make_unique<LinkSessions>(*socket_);
    timer_.expires_after(std::chrono::seconds(10));
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& failed) {
      if (failed || self->registered_ || !self->socket_) return;
      self->socket_->abort("the relay did not answer the registration within 10 s");
    });
    socket_->start(this);
  }

  void open_control() {
    const link::OpenRequest request{.meta = encode_open(AgentControlOpen{}),
                                    .priority = link::Priority::kUrgent};
    const auto opened =
        sessions_->open(request, [this](const link::Event& event) { on_control(event); });
    if (opened.error != link::OpenError::kNone) {
      socket_->abort(std::string(link::open_error_name(opened.error)));
      return;
    }
    control_ = opened.id;
    pb::AgentMessage message;
    pb::Register& reg = *message.mutable_register_();
    reg.set_token(agent_.options_.token);
    reg.set_agent_id(agent_.options_.agent_id);
    reg.set_instance(agent_.instance_);
    reg.set_generation(agent_.generation_);
    reg.set_version(agent_.options_.version);
    for (const AgentService& each : agent_.options_.services) {
      pb::Service& service = *reg.add_services();
      service.set_kind(each.kind);
      service.set_name(each.name);
    }
    sessions_->write(control_, encode_message(message));
  }

  void on_control(const link::Event& event) {
    if (const auto* data = std::get_if<link::event::Data>(&event)) {
      sessions_->consume(control_, data->bytes.size(), steady_now());
      reader_.feed(data->bytes.bytes());
      while (const auto bytes = reader_.next()) {
        pb::RelayMessage message;
        if (!message.ParseFromString(*bytes)) return socket_->abort("a control message is garbled");
        on_message(message);
      }
      if (reader_.failed()) socket_->abort("a control message is too long");
    } else if (std::holds_alternative<link::event::Retired>(event) ||
               std::holds_alternative<link::event::SessionCut>(event) ||
               std::holds_alternative<link::event::NotProcessed>(event)) {
      sessions_->release(std::exchange(control_, 0), steady_now(), link::code::kCancel);
    } else if (const auto* reset = std::get_if<link::event::Reset>(&event)) {
      // A home and its registration never part.
      socket_->abort("the relay ended the registration: " + link::code_name(reset->code));
    }
  }

  void on_message(const pb::RelayMessage& message) {
    const auto now = steady_now();
    switch (message.what_case()) {
      case pb::RelayMessage::kRegistered: {
        const pb::Registered& answer = message.registered();
        registered_ = true;
        timer_.cancel();
        replica_ = answer.replica_name();
        agent_.generation_ = answer.generation();
        agent_.urls_.assign(answer.urls().begin(), answer.urls().end());
        spdlog::info("home {}: registered", replica_);
        agent_.homes_.registered(id_, answer.replica_uid(),
                                 std::min(answer.target_homes(), agent_.options_.homes), now);
        break;
      }
      case pb::RelayMessage::kRefused: {
        const pb::Refused& refused = message.refused();
        if (refused.kind() == pb::Refused::RETRY) {
          spdlog::info("home {}: not now: {}", name(), refused.text());
          retry_after_ = std::chrono::milliseconds(refused.retry_after_ms());
          socket_->connection().close(link::code::kOk, "refused for now", now);
        } else {
          agent_.refused(refused.text());
        }
        break;
      }
      case pb::RelayMessage::kHomes:
        agent_.homes_.set_target(std::min(message.homes().target_homes(), agent_.options_.homes),
                                 now);
        break;
      case pb::RelayMessage::kMove:
        spdlog::info("home {}: the replica drains ({})", name(), message.move().reason());
        agent_.homes_.draining(id_, now);
        break;
      case pb::RelayMessage::kReplaced:
        agent_.refused(message.replaced().text());
        break;
      case pb::RelayMessage::WHAT_NOT_SET:
        break;  // of a later version: not for us
    }
    agent_.carry_out();
  }

  void refuse(link::SessionId id, link::Code code) {
    sessions_->reset(id, code);
    sessions_->stop(id, code);
    sessions_->release(id, steady_now(), code);
  }

  void serve(const link::event::Opened& opened) {
    std::string error;
    const auto meta = parse_open(opened.meta.bytes(), error);
    const auto* visit = meta ? std::get_if<VisitOpen>(&*meta) : nullptr;
    if (visit == nullptr || !opened.visit) {
      spdlog::warn("home {}: an OPEN that is no visit: {}", name(), error);
      return refuse(opened.id, link::code::kProtocol);
    }
    if (visit->instance != agent_.instance_) return refuse(opened.id, link::code::kNotHere);
    const AgentService* service = agent_.find_service(visit->kind, visit->service);
    if (service == nullptr) return refuse(opened.id, visit_code::kNoService);
    auto lease = agent_.replay_.admit(visit->tenant);
    if (!lease) return refuse(opened.id, visit_code::kOverloaded);
    const SessionPort path(sessions_.get(), opened.id);
    if (service->kind == "http") {
      auto http = std::make_shared<HttpUpstream>(agent_.io_, service->upstream, *visit,
                                                 std::move(*lease), log_ended());
      sessions_->own(opened.id, [http](const link::Event& event) { http->path_event(event); });
      http->path_opened(path, Outcome::kHomeLost);
    } else {
      serve_tcp(*service, *visit, std::move(*lease), path);
    }
    agent_.homes_.set_visits(id_, visits(), steady_now());
  }

  void serve_tcp(const AgentService& service, const VisitOpen& visit, ReplayLease lease,
                 SessionPort path) {
    auto end = std::make_shared<VisitSocket>(
        asio::ip::tcp::socket(agent_.io_), VisitRole::kAgent, visit, std::move(lease),
        VisitSocket::Callbacks{.ended = log_ended()}, steady_now());
    sessions_->own(path.id(), [end](const link::Event& event) { end->path_event(event); });
    end->path_opened(path, Outcome::kHomeLost);
    dial_upstream(agent_.io_, service.upstream,
                  [end](asio::ip::tcp::socket socket, link::Code code, const std::string& error) {
                    if (code != link::code::kOk) {
                      spdlog::warn("visit {}: upstream {}", end->end().visit().id.hex(), error);
                      return end->abort(code);
                    }
                    end->raw() = std::move(socket);
                    end->local_opened();
                  });
  }

  static std::function<void(const VisitRecord&)> log_ended() {
    return [](const VisitRecord& record) {
      if (record.outcome == Outcome::kFinished) {
        spdlog::debug("{}", to_string(record));
      } else {
        spdlog::warn("{}", to_string(record));
      }
    };
  }

  void over(bool clean) {
    timer_.cancel();
    const auto now = steady_now();
    if (registered_) {
      agent_.homes_.lost(id_, clean, now);
    } else {
      agent_.homes_.failed(id_, clean, retry_after_, now);
    }
    agent_.home_over(id_);
  }

  Agent& agent_;
  HomeId id_;
  AgentOptions::Relay relay_;
  asio::steady_timer timer_;
  std::shared_ptr<link::Dial> dial_;
  std::shared_ptr<link::LinkSocket> socket_;
  std::unique_ptr<LinkSessions> sessions_;
  link::SessionId control_ = 0;
  ControlReader reader_;
  std::string replica_;
  bool registered_ = false;
  bool clean_ = false;
  Duration retry_after_{0};
};

Agent::Agent(asio::io_context& io, AgentOptions options, Callbacks callbacks)
    : io_(io),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      instance_(random_bytes(kInstanceSize)),
      homes_(options_.homes, options_.relays.size(), random_seed()),
      timer_(io),
      stop_timer_(io) {}

Agent::~Agent() {
  for (const auto& [id, home] : links_) home->drop();
}

void Agent::start() {
  homes_.start(steady_now());
  carry_out();
}

// One loop does what homes_ wants, however deep the call that caused it.
void Agent::carry_out() {
  if (carrying_out_) return;
  carrying_out_ = true;
  while (const auto action = homes_.poll()) {
    if (const auto* wanted = std::get_if<home_action::Dial>(&*action)) {
      dial(wanted->home, wanted->relay);
    } else if (const auto* leave = std::get_if<home_action::Leave>(&*action)) {
      if (const auto home = find_home(leave->home)) home->leave(leave->why);
    } else if (const auto* close = std::get_if<home_action::Close>(&*action)) {
      if (const auto home = find_home(close->home)) home->close(close->why);
    }
  }
  carrying_out_ = false;
  if (exited_) return;
  tell_homes();
  arm_timer();
  maybe_finish_stop();
}

std::shared_ptr<Agent::Home> Agent::find_home(HomeId id) const {
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : found->second;
}

void Agent::dial(HomeId id, std::size_t relay) {
  const auto home = std::make_shared<Home>(*this, id, options_.relays[relay]);
  links_[id] = home;
  home->dial();
}

void Agent::arm_timer() {
  const auto at = homes_.next_deadline();
  if (!at) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(std::max(*at, steady_now() + std::chrono::milliseconds(1)));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    homes_.on_timer(steady_now());
    carry_out();
  });
}

void Agent::tell_homes() {
  const std::uint32_t standing = homes_.standing();
  if (standing == told_standing_) return;
  told_standing_ = standing;
  if (callbacks_.homes) callbacks_.homes(standing, homes_.target(), urls_);
}

void Agent::home_over(HomeId id) {
  const auto found = links_.find(id);
  if (found != links_.end()) {
    // It may be running below this call.
    asio::post(io_, [old = found->second] {});
    links_.erase(found);
  }
  carry_out();
}

const AgentService* Agent::find_service(const std::string& kind, const std::string& name) const {
  for (const AgentService& each : options_.services) {
    if (each.kind == kind && each.name == name) return &each;
  }
  return nullptr;
}

void Agent::refused(std::string text) {
  exit(AgentExit::kRefused, std::move(text));
}

void Agent::stop() {
  if (stopping_) return exit(AgentExit::kEnded, "ended at once");
  stopping_ = true;
  for (auto& [id, home] : links_) home->leave("the agent ends");
  stop_timer_.expires_after(kStopGrace);
  stop_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) exit(AgentExit::kEnded, "ended with visits that went on for longer than 30 s");
  });
  maybe_finish_stop();
}

void Agent::maybe_finish_stop() {
  if (!stopping_ || exited_) return;
  for (const auto& [id, home] : links_) {
    if (home->visits() > 0) return;
  }
  exit(AgentExit::kEnded, "ended");
}

void Agent::exit(AgentExit code, std::string text) {
  if (exited_) return;
  exited_ = true;
  homes_.stop();
  carry_out();
  timer_.cancel();
  stop_timer_.cancel();
  // A moment for the links to say their CLOSE.
  stop_timer_.expires_after(std::chrono::milliseconds(200));
  stop_timer_.async_wait([this, code, text = std::move(text)](const boost::system::error_code&) {
    if (callbacks_.exit) callbacks_.exit(code, text);
  });
}

}  // namespace fairlead::dataplane
