#include "mesh/directory_messages.h"

#include <algorithm>
#include <string_view>

#include "fairlead/control.pb.h"
#include "visit/visit_meta.h"

namespace fairlead::dataplane {
namespace {

namespace wire = control::v1;

void write(const AgentEntry& entry, wire::AgentEntry& message) {
  message.set_agent_id(entry.agent_id);
  message.set_tenant(entry.tenant);
  message.set_instance(entry.instance);
  message.set_generation(entry.generation);
  message.set_leaving(entry.leaving);
  for (const ServiceName& service : entry.services) {
    wire::Service& added = *message.add_services();
    added.set_kind(service.kind);
    added.set_name(service.name);
  }
}

bool bad_text(const char* field, std::string_view text, std::size_t most, std::string& error) {
  if (text.empty() || text.size() > most) {
    error = std::string(field) + " has " + std::to_string(text.size()) +
            " bytes; it must have 1 to " + std::to_string(most);
  } else if (std::any_of(text.begin(), text.end(),
                         [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    error = std::string(field) + " has a control character";
  } else {
    return false;
  }
  return true;
}

bool read(const wire::AgentEntry& message, bool key_only, AgentEntry& entry, std::string& error) {
  if (bad_text("agent_id", message.agent_id(), kMaxAgentId, error) ||
      bad_text("tenant", message.tenant(), kMaxTenant, error)) {
    return false;
  }
  if (message.instance().size() != kInstanceSize) {
    error = "instance has " + std::to_string(message.instance().size()) + " bytes; it must have 16";
    return false;
  }
  entry = {message.agent_id(), message.tenant(), message.instance(), message.generation(), {}, {}};
  entry.leaving = message.leaving();
  if (key_only) return true;
  if (message.generation() == 0 || message.generation() > kMaxGeneration) {
    error = "generation " + std::to_string(message.generation()) + " is out of range";
    return false;
  }
  if (static_cast<std::size_t>(message.services_size()) > kMaxServicesPerAgent) {
    error = std::to_string(message.services_size()) + " services; at most " +
            std::to_string(kMaxServicesPerAgent) + " are allowed";
    return false;
  }
  for (const wire::Service& service : message.services()) {
    if (bad_text("service.kind", service.kind(), 16, error) ||
        bad_text("service.name", service.name(), kMaxService, error)) {
      return false;
    }
    entry.services.push_back({service.kind(), service.name()});
  }
  return true;
}

template <typename Messages>
bool read_all(const Messages& messages, bool key_only, std::vector<AgentEntry>& entries,
              const char* field, std::string& error) {
  if (static_cast<std::size_t>(messages.size()) > kMaxEntriesPerOwner) {
    error = std::string(field) + " has " + std::to_string(messages.size()) + " entries; at most " +
            std::to_string(kMaxEntriesPerOwner) + " are allowed";
    return false;
  }
  entries.resize(static_cast<std::size_t>(messages.size()));
  for (int i = 0; i < messages.size(); ++i) {
    if (read(messages[i], key_only, entries[static_cast<std::size_t>(i)], error)) continue;
    error = std::string(field) + '[' + std::to_string(i) + "]: " + error;
    return false;
  }
  return true;
}

template <typename Message>
bool read_version(const Message& message, std::string& error) {
  return !bad_text("owner_uid", message.owner_uid(), 253, error) &&
         !bad_text("boot_id", message.boot_id(), kMaxBootId, error);
}

}  // namespace

wire::DirectorySnapshot to_wire(const DirectorySnapshot& snapshot) {
  wire::DirectorySnapshot message;
  message.set_owner_uid(snapshot.owner_uid);
  message.set_boot_id(snapshot.boot_id);
  message.set_seq(snapshot.seq);
  for (const AgentEntry& entry : snapshot.agents) write(entry, *message.add_agents());
  return message;
}

wire::DirectoryDelta to_wire(const DirectoryDelta& delta) {
  wire::DirectoryDelta message;
  message.set_owner_uid(delta.owner_uid);
  message.set_boot_id(delta.boot_id);
  message.set_seq(delta.seq);
  for (const AgentEntry& entry : delta.upsert) write(entry, *message.add_upsert());
  for (const AgentEntry& entry : delta.remove) write(entry, *message.add_remove());
  return message;
}

std::optional<DirectorySnapshot> from_wire(const wire::DirectorySnapshot& message,
                                           std::string& error) {
  DirectorySnapshot snapshot{message.owner_uid(), message.boot_id(), message.seq(), {}};
  if (!read_version(message, error) ||
      !read_all(message.agents(), false, snapshot.agents, "agents", error)) {
    return std::nullopt;
  }
  return snapshot;
}

std::optional<DirectoryDelta> from_wire(const wire::DirectoryDelta& message, std::string& error) {
  DirectoryDelta delta{message.owner_uid(), message.boot_id(), message.seq(), {}, {}};
  if (!read_version(message, error) ||
      !read_all(message.upsert(), false, delta.upsert, "upsert", error) ||
      !read_all(message.remove(), true, delta.remove, "remove", error)) {
    return std::nullopt;
  }
  return delta;
}

}  // namespace fairlead::dataplane
