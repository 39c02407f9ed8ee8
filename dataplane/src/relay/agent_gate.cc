#include "relay/agent_gate.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <charconv>

#include "control/message_stream.h"
#include "fairlead/control.pb.h"
#include "socket/proxy_header.h"
#include "socket/steady_now.h"
#include "visit/visit_meta.h"

namespace fairlead::dataplane {

namespace asio = boost::asio;
namespace pb = control::v1;

// One link of an agent. It is a home while it is in the directory.
class AgentLink final : public link::LinkHandler, public std::enable_shared_from_this<AgentLink> {
 public:
  AgentLink(AgentGate& gate, AgentLinkId id, std::shared_ptr<link::LinkSocket> socket)
      : gate_(gate),
        id_(id),
        socket_(std::move(socket)),
        sessions_(*socket_),
        source_(to_text(socket_->source())),
        timer_(gate.io_) {}

  void start() {
    timer_.expires_after(AgentGate::kRegisterTimeout);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->end(link::code::kRefused, "no registration within 10 s");
    });
    socket_->start(this);
  }

  void on_event(link::LinkSocket&, link::Event&& event) override {
    const auto self = shared_from_this();
    if (sessions_.dispatch(event)) return;
    if (const auto* opened = std::get_if<link::event::Opened>(&event)) {
      on_opened(*opened);
    } else if (const auto* draining = std::get_if<link::event::LinkDraining>(&event)) {
      if (draining->phase == 0) {
        spdlog::info("agent {}: takes no new visits: {}", name(), draining->text);
        leave_directory();
      }
    } else if (const auto* closed = std::get_if<link::event::Closed>(&event)) {
      const bool clean =
          closed->cut.code == link::code::kOk && (closed->cut.kind == link::CutKind::kClosed ||
                                                  closed->cut.kind == link::CutKind::kPeerClosed);
      if (registered_) {
        spdlog::log(clean ? spdlog::level::info : spdlog::level::warn, "agent {}: link ended: {}",
                    name(), link::to_string(closed->cut));
      } else if (!clean) {
        gate_.options_.stranger(link::cut_kind_name(closed->cut.kind), source_,
                                "agents: " + link::to_string(closed->cut));
      }
      leave_directory();
    }
  }

  void on_closed(link::LinkSocket&) override {
    const auto self = shared_from_this();
    timer_.cancel();
    gate_.over(id_);
  }

  LinkSessions* sessions() { return &sessions_; }
  bool registered() const { return registered_; }
  const Registration& registration() const { return registration_; }
  bool takes_visits() const {
    return registered_ && !socket_->connection().closed() && !socket_->connection().draining();
  }
  std::size_t load() const { return sessions_.owned(); }
  bool probe_overdue() const { return socket_->connection().probe_overdue(steady_now()); }

  void send(const pb::RelayMessage& message) {
    if (control_ != 0) sessions_.write(control_, encode_message(message));
  }
  void refuse(pb::Refused::Kind kind, const std::string& text,
              std::chrono::milliseconds retry_after = {}) {
    pb::RelayMessage message;
    message.mutable_refused()->set_kind(kind);
    message.mutable_refused()->set_text(text);
    message.mutable_refused()->set_retry_after_ms(static_cast<std::uint32_t>(retry_after.count()));
    send(message);
    end(link::code::kOk, "refused");
  }
  void end(link::Code code, const std::string& why) {
    leave_directory();
    socket_->connection().close(code, why, steady_now());
    socket_->wake();
  }
  void goaway() {
    socket_->connection().goaway(link::GoawayReason::kRoll, std::chrono::seconds(0),
                                 "the replica drains", steady_now());
    socket_->wake();
  }

 private:
  std::string name() const {
    return registered_ ? registration_.agent_id + " (" + source_ + ")" : source_;
  }

  void leave_directory() {
    if (!listed_) return;
    listed_ = false;
    gate_.directory_.remove(id_);
    gate_.options_.changed();
  }

  void on_opened(const link::event::Opened& opened) {
    std::string error;
    const auto meta = parse_open(opened.meta.bytes(), error);
    const bool control = meta && std::holds_alternative<AgentControlOpen>(*meta);
    if (!control || control_ != 0) {
      const std::string why = !meta ? error : control ? "a second registration" : "not for agents";
      spdlog::warn("agent {}: an OPEN is refused: {}", name(), why);
      sessions_.reset(opened.id, link::code::kProtocol);
      sessions_.stop(opened.id, link::code::kProtocol);
      sessions_.release(opened.id, steady_now(), link::code::kProtocol);
      return;
    }
    control_ = opened.id;
    sessions_.own(control_, [this](const link::Event& event) { on_control(event); });
    sessions_.accept(control_, {}, 0, steady_now(), std::nullopt);
  }

  void on_control(const link::Event& event) {
    if (const auto* data = std::get_if<link::event::Data>(&event)) {
      sessions_.consume(control_, data->bytes.size(), steady_now());
      reader_.feed(data->bytes.bytes());
      while (const auto bytes = reader_.next()) {
        pb::AgentMessage message;
        if (!message.ParseFromString(*bytes)) {
          return end(link::code::kProtocol, "a control message is garbled");
        }
        if (message.has_register_()) on_register(message.register_());
      }
      if (reader_.failed()) end(link::code::kProtocol, "a control message is too long");
    } else if (std::holds_alternative<link::event::Reset>(event) ||
               std::holds_alternative<link::event::Finished>(event)) {
      // A home and its registration never part.
      end(link::code::kOk, "the registration ended");
    } else if (std::holds_alternative<link::event::Retired>(event) ||
               std::holds_alternative<link::event::SessionCut>(event)) {
      sessions_.release(std::exchange(control_, 0), steady_now(), link::code::kCancel);
    }
  }

  void on_register(const pb::Register& request) {
    if (registered_) return end(link::code::kProtocol, "a second registration");
    if (gate_.draining_) {
      return refuse(pb::Refused::RETRY, "this replica drains", std::chrono::milliseconds(100));
    }
    const TokenGrant* grant = gate_.options_.routes().tokens().authenticate(request.token());
    if (grant == nullptr) {
      gate_.options_.stranger("token", source_, "agents: a wrong token was presented");
      return refuse(pb::Refused::FINAL,
                    "the token is not known to this relay: check the token file or "
                    "FAIRLEAD_TOKEN, and the relay's tokens.yaml");
    }
    const std::string& least = gate_.options_.min_version;
    if (!least.empty() && !version_at_least(request.version(), least)) {
      return refuse(pb::Refused::FINAL, "version " + request.version() +
                                            " of the agent is too old: this relay takes " + least +
                                            " and later; upgrade `fairlead`");
    }
    Registration registration{
        grant->tenant(), request.agent_id(), request.instance(), request.generation(), {}};
    for (const pb::Service& service : request.services()) {
      if (!grant->may_claim(service.kind(), service.name())) {
        return refuse(pb::Refused::FINAL, "this token may not serve " + service.kind() + " \"" +
                                              service.name() +
                                              "\": add the name to it in the relay's tokens.yaml");
      }
      registration.services.push_back({service.kind(), service.name()});
    }
    const RegistrationResult result = gate_.directory_.add(id_, registration);
    if (const auto* refused = std::get_if<RegistrationRefused>(&result)) {
      return refuse(refused->retry ? pb::Refused::RETRY : pb::Refused::FINAL, refused->text,
                    std::chrono::milliseconds(refused->retry ? 1000 : 0));
    }
    accept_registration(std::move(registration), *grant,
                        std::get<RegistrationAccepted>(result).generation);
  }

  void accept_registration(Registration registration, const TokenGrant& grant,
                           std::uint64_t generation) {
    registration_ = std::move(registration);
    registered_ = listed_ = true;
    timer_.cancel();
    pb::RelayMessage message;
    pb::Registered& answer = *message.mutable_registered();
    answer.set_replica_uid(gate_.options_.replica_uid);
    answer.set_replica_name(gate_.options_.replica_name);
    answer.set_generation(generation);
    answer.set_target_homes(gate_.options_.target_homes());
    for (const ServiceName& service : registration_.services) {
      if (service.kind == "http") {
        answer.add_urls("http://" + gate_.options_.routes().host_of(service.name));
      } else if (const auto port = grant.tcp_port(service.name)) {
        answer.add_urls("tcp port " + std::to_string(*port));
      }
    }
    send(message);
    spdlog::info("agent {}: registered, generation {}", name(), generation);
    gate_.options_.changed();
  }

  AgentGate& gate_;
  AgentLinkId id_;
  std::shared_ptr<link::LinkSocket> socket_;
  LinkSessions sessions_;
  std::string source_;
  asio::steady_timer timer_;
  link::SessionId control_ = 0;
  ControlReader reader_;
  Registration registration_;
  bool registered_ = false;
  bool listed_ = false;  // in the directory
};

AgentGate::AgentGate(asio::io_context& io, Directory& directory, Options options)
    : io_(io), directory_(directory), options_(std::move(options)) {}

AgentGate::~AgentGate() = default;

bool AgentGate::listen(link::ListenOptions options, std::string& error) {
  listener_ = link::LinkListener::listen(
      io_, std::move(options),
      [this](std::shared_ptr<link::LinkSocket> socket) { accepted(std::move(socket)); },
      [this](const link::AcceptFailure& failure) {
        options_.stranger(failure.cause, failure.source.address().to_string(),
                          "agents: " + failure.text);
      },
      error);
  return listener_ != nullptr;
}

void AgentGate::stop_listening() {
  if (listener_) listener_->stop();
}

void AgentGate::accepted(std::shared_ptr<link::LinkSocket> socket) {
  if (links_.size() >= kMaxLinks) {
    options_.stranger("links", socket->source().address().to_string(),
                      "agents: this replica has 20000 links, its limit");
    return;
  }
  const AgentLinkId id = next_id_++;
  const auto link = std::make_shared<AgentLink>(*this, id, std::move(socket));
  links_.emplace(id, link);
  link->start();
}

void AgentGate::over(AgentLinkId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  asio::post(io_, [old = found->second] {});  // it may be running below this call
  links_.erase(found);
  options_.changed();
}

LinkSessions* AgentGate::find(std::string_view tenant, std::string_view agent_id,
                              std::string_view instance) const {
  AgentLink* best = nullptr;
  for (const AgentLinkId id : directory_.links(tenant, agent_id, instance)) {
    const auto found = links_.find(id);
    if (found == links_.end() || !found->second->takes_visits()) continue;
    AgentLink* link = found->second.get();
    const bool better = best == nullptr || std::pair(link->probe_overdue(), link->load()) <
                                               std::pair(best->probe_overdue(), best->load());
    if (better) best = link;
  }
  return best == nullptr ? nullptr : best->sessions();
}

void AgentGate::superseded(AgentLinkId id, const std::string& text) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  const auto link = found->second;
  pb::RelayMessage message;
  message.mutable_replaced()->set_text(text);
  link->send(message);
  link->end(link::code::kOk, "replaced");
}

void AgentGate::evicted(AgentLinkId id, const std::string& text) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  const auto link = found->second;
  link->refuse(pb::Refused::FINAL, text);
}

void AgentGate::tell_homes() {
  pb::RelayMessage message;
  message.mutable_homes()->set_target_homes(options_.target_homes());
  for (const auto& [id, link] : links_) {
    if (link->registered()) link->send(message);
  }
}

void AgentGate::drain(const std::string& reason) {
  draining_ = true;
  pb::RelayMessage message;
  message.mutable_move()->set_reason(reason);
  for (const auto& [id, link] : links_) {
    if (link->registered()) link->send(message);
  }
}

void AgentGate::goaway() {
  for (const auto& [id, link] : links_) link->goaway();
}

void AgentGate::close(const std::string& why) {
  const auto links = links_;
  for (const auto& [id, link] : links) link->end(link::code::kOk, why);
}

std::uint32_t AgentGate::count_without(
    const std::function<bool(const Registration&)>& elsewhere) const {
  std::uint32_t count = 0;
  for (const auto& [id, link] : links_) {
    if (link->takes_visits() && !elsewhere(link->registration())) ++count;
  }
  return count;
}

bool version_at_least(std::string_view version, std::string_view least) {
  const auto next = [](std::string_view& text) {
    std::uint64_t number = 0;
    const std::size_t dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    std::from_chars(part.data(), part.data() + part.size(), number);
    text = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
    return number;
  };
  version = version.substr(0, version.find('-'));
  least = least.substr(0, least.find('-'));
  while (!version.empty() || !least.empty()) {
    const std::uint64_t have = next(version), want = next(least);
    if (have != want) return have > want;
  }
  return true;
}

}  // namespace fairlead::dataplane
