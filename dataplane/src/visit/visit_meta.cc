#include "visit/visit_meta.h"

#include <cassert>

#include "fairlead/control.pb.h"
#include "fairlead/link/connection.h"

namespace fairlead::dataplane {
namespace {

namespace wire = control::v1;

link::Slice encode(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  assert(bytes.size() <= link::kMaxMeta);
  return link::Slice::copy_of(bytes);
}

// The first thing that is wrong with a message; later checks keep it.
class Check {
 public:
  explicit Check(std::string& error) : error_(error) { error_.clear(); }

  bool ok() const { return error_.empty(); }
  void fail(std::string text) {
    if (ok()) error_ = std::move(text);
  }
  void size(const char* field, std::string_view value, std::size_t wanted) {
    if (value.size() == wanted) return;
    fail(std::string(field) + " has " + std::to_string(value.size()) + " bytes; it must have " +
         std::to_string(wanted));
  }
  // Text for logs and keys: bounded, and without control characters that would forge a log line.
  void text(const char* field, std::string_view value, std::size_t most) {
    if (value.size() > most) {
      fail(std::string(field) + " has " + std::to_string(value.size()) + " bytes; at most " +
           std::to_string(most) + " are allowed");
    }
    for (const char c : value) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        fail(std::string(field) + " has a control character");
      }
    }
  }
  void name(const char* field, std::string_view value, std::size_t most) {
    if (value.empty()) fail(std::string(field) + " is empty");
    text(field, value, most);
  }
  void hold(std::uint32_t ms) {
    const std::chrono::milliseconds value(ms);
    if (value >= kMinHold && value <= kMaxHold) return;
    fail("hold_ms is " + std::to_string(ms) + "; it must be " + std::to_string(kMinHold.count()) +
         " to " + std::to_string(kMaxHold.count()));
  }

 private:
  std::string& error_;
};

wire::Visit to_wire(const VisitOpen& open) {
  wire::Visit visit;
  visit.set_id(open.id.raw());
  visit.set_secret(open.secret);
  visit.set_attempt(open.attempt);
  visit.set_hold_ms(static_cast<std::uint32_t>(open.hold.count()));
  visit.set_kind(open.kind);
  visit.set_tenant(open.tenant);
  visit.set_service(open.service);
  visit.set_agent_id(open.agent_id);
  visit.set_instance(open.instance);
  visit.set_visitor(open.visitor);
  visit.set_edge(open.edge);
  return visit;
}

std::optional<OpenMeta> from_wire(wire::Visit& visit, std::string& error) {
  Check check(error);
  check.size("visit.id", visit.id(), VisitId::kSize);
  if (visit.secret().empty() && !visit.proof().empty()) {
    check.fail("visit.secret is missing: this version starts visits and does not resume them");
  }
  check.size("visit.secret", visit.secret(), kSecretSize);
  if (visit.attempt() < 1) check.fail("visit.attempt is 0; attempts count from 1");
  check.hold(visit.hold_ms());
  if (visit.kind() != "tcp" && visit.kind() != "http") {
    check.name("visit.kind", visit.kind(), 16);
    check.fail("visit.kind is \"" + visit.kind() + "\"; known are \"tcp\" and \"http\"");
  }
  check.name("visit.tenant", visit.tenant(), kMaxTenant);
  check.name("visit.service", visit.service(), kMaxService);
  check.name("visit.agent_id", visit.agent_id(), kMaxAgentId);
  check.size("visit.instance", visit.instance(), kInstanceSize);
  check.text("visit.visitor", visit.visitor(), kMaxVisitor);
  check.text("visit.edge", visit.edge(), kMaxEdge);
  if (!check.ok()) return std::nullopt;
  return VisitOpen{.id = *VisitId::from_bytes(visit.id()),
                   .secret = std::move(*visit.mutable_secret()),
                   .attempt = visit.attempt(),
                   .hold = std::chrono::milliseconds(visit.hold_ms()),
                   .kind = std::move(*visit.mutable_kind()),
                   .tenant = std::move(*visit.mutable_tenant()),
                   .service = std::move(*visit.mutable_service()),
                   .agent_id = std::move(*visit.mutable_agent_id()),
                   .instance = std::move(*visit.mutable_instance()),
                   .visitor = std::move(*visit.mutable_visitor()),
                   .edge = std::move(*visit.mutable_edge())};
}

}  // namespace

link::Slice encode_open(const OpenMeta& open) {
  wire::Open message;
  if (const auto* visit = std::get_if<VisitOpen>(&open)) {
    *message.mutable_visit() = to_wire(*visit);
  } else if (const auto* peer = std::get_if<PeerControlOpen>(&open)) {
    message.mutable_peer_control()->set_boot_id(peer->boot_id);
  } else {
    message.mutable_agent_control();
  }
  return encode(message);
}

link::Slice encode_accept(const VisitAccept& accept) {
  wire::VisitAccept message;
  message.set_received(accept.received);
  message.set_base(accept.base);
  message.set_hold_ms(static_cast<std::uint32_t>(accept.hold.count()));
  return encode(message);
}

std::optional<OpenMeta> parse_open(link::Bytes meta, std::string& error) {
  Check check(error);
  wire::Open message;
  if (!message.ParseFromArray(meta.data(), static_cast<int>(meta.size()))) {
    check.fail("the metadata of OPEN is not an Open message");
    return std::nullopt;
  }
  switch (message.what_case()) {
    case wire::Open::kAgentControl:
      return AgentControlOpen{};
    case wire::Open::kPeerControl:
      check.name("peer_control.boot_id", message.peer_control().boot_id(), kMaxBootId);
      if (!check.ok()) return std::nullopt;
      return PeerControlOpen{message.peer_control().boot_id()};
    case wire::Open::kVisit:
      return from_wire(*message.mutable_visit(), error);
    case wire::Open::WHAT_NOT_SET:
      break;
  }
  check.fail("the metadata of OPEN names no purpose this version knows");
  return std::nullopt;
}

std::optional<VisitAccept> parse_accept(link::Bytes meta, std::string& error) {
  Check check(error);
  wire::VisitAccept message;
  if (!message.ParseFromArray(meta.data(), static_cast<int>(meta.size()))) {
    check.fail("the metadata of ACCEPT is not a VisitAccept message");
    return std::nullopt;
  }
  check.hold(message.hold_ms());
  if (message.received() != 0 || message.base() != 0 || message.done()) {
    check.fail("ACCEPT resumes a visit that this end has started anew");
  }
  if (!check.ok()) return std::nullopt;
  return VisitAccept{message.received(), message.base(),
                     std::chrono::milliseconds(message.hold_ms())};
}

}  // namespace fairlead::dataplane
