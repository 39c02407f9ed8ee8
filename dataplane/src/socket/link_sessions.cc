#include "socket/link_sessions.h"

#include <utility>

namespace fairlead::dataplane {

std::optional<link::SessionId> session_of(const link::Event& event) {
  return std::visit(
      [](const auto& each) -> std::optional<link::SessionId> {
        if constexpr (requires { each.id; }) {
          return each.id;
        } else {
          return std::nullopt;
        }
      },
      event);
}

link::OpenResult LinkSessions::open(const link::OpenRequest& request, OnEvent on_event) {
  const link::OpenResult result = core().open(request, link::LinkSocket::now());
  if (result.error == link::OpenError::kNone) {
    own(result.id, std::move(on_event));
    socket_.wake();
  }
  return result;
}

void LinkSessions::own(link::SessionId id, OnEvent on_event) {
  owners_[id] = std::make_shared<OnEvent>(std::move(on_event));
}

bool LinkSessions::dispatch(const link::Event& event) {
  const auto id = session_of(event);
  if (!id || std::holds_alternative<link::event::Opened>(event)) return false;
  const auto found = owners_.find(*id);
  if (found != owners_.end()) {
    const auto owner = found->second;
    (*owner)(event);
  }
  return true;
}

void LinkSessions::cut_all() {
  for (const auto& [id, owner] : std::exchange(owners_, {})) (*owner)(link::event::SessionCut{id});
}

bool LinkSessions::woken(bool done) {
  if (done) socket_.wake();
  return done;
}

bool LinkSessions::accept(link::SessionId id, link::Slice meta, std::uint32_t path_rtt_us,
                          link::Instant now, std::optional<std::uint64_t> credit_cap) {
  return woken(core().accept(id, std::move(meta), path_rtt_us, now, credit_cap));
}
bool LinkSessions::write(link::SessionId id, link::Slice bytes) {
  return woken(core().write(id, std::move(bytes)));
}
bool LinkSessions::finish(link::SessionId id) {
  return woken(core().finish(id));
}
bool LinkSessions::reset(link::SessionId id, link::Code code) {
  return woken(core().reset(id, code));
}
bool LinkSessions::stop(link::SessionId id, link::Code code) {
  return woken(core().stop(id, code));
}
bool LinkSessions::consume(link::SessionId id, std::uint64_t n, link::Instant now) {
  return woken(core().consume(id, n, now));
}
bool LinkSessions::relay_credit(link::SessionId id, std::uint64_t cap, std::uint64_t received,
                                link::Instant now) {
  return woken(core().relay_credit(id, cap, received, now));
}
bool LinkSessions::acknowledge_fin(link::SessionId id, link::Instant now) {
  return woken(core().acknowledge_fin(id, now));
}
bool LinkSessions::release(link::SessionId id, link::Instant now, link::Code code) {
  owners_.erase(id);
  return woken(core().release(id, now, code));
}

std::uint64_t LinkSessions::send_room(link::SessionId id) const {
  return socket_.connection().send_room(id);
}
std::uint64_t LinkSessions::peer_limit(link::SessionId id) const {
  return socket_.connection().peer_limit(id);
}
std::uint32_t LinkSessions::rtt_us() const {
  return socket_.connection().rtt_us();
}

}  // namespace fairlead::dataplane
