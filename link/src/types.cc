#include "fairlead/link/types.h"

#include <cstring>

namespace fairlead::link {

Slice Slice::copy_of(Bytes bytes) {
  if (bytes.empty()) return {};
  // make_shared_for_overwrite of an array costs one allocation for the count and the bytes.
  auto owner = std::make_shared_for_overwrite<std::byte[]>(bytes.size());
  std::memcpy(owner.get(), bytes.data(), bytes.size());
  const Bytes view(owner.get(), bytes.size());
  return Slice(std::move(owner), view);
}

std::string code_name(Code code) {
  switch (code) {
    case code::kOk:
      return "ok";
    case code::kProtocol:
      return "protocol";
    case code::kFlow:
      return "flow";
    case code::kCalm:
      return "calm";
    case code::kRefused:
      return "refused";
    case code::kCancel:
      return "cancel";
    case code::kDrainTimeout:
      return "drain timeout";
    case code::kInternal:
      return "internal";
    case code::kSlow:
      return "slow";
    case code::kSuperseded:
      return "superseded";
    case code::kPathLost:
      return "path lost";
    case code::kVersion:
      return "version";
    case code::kNotHere:
      return "not here";
    default:
      break;
  }
  const char* kind = code >= code::kFirstApplication ? "application " : "unknown ";
  return kind + std::to_string(code);
}

std::string_view cut_kind_name(CutKind kind) {
  switch (kind) {
    case CutKind::kTransport:
      return "transport failed";
    case CutKind::kEnded:
      return "transport ended without CLOSE";
    case CutKind::kDeadPeer:
      return "dead peer";
    case CutKind::kUnanswered:
      return "unanswered ping";
    case CutKind::kStalled:
      return "stalled write";
    case CutKind::kPeerClosed:
      return "closed by the peer";
    case CutKind::kClosed:
      return "closed here";
    case CutKind::kProtocolError:
      return "protocol error";
  }
  return "unknown";
}

std::string to_string(const Cut& cut) {
  std::string text(cut_kind_name(cut.kind));
  const bool coded = cut.kind == CutKind::kPeerClosed || cut.kind == CutKind::kClosed ||
                     cut.kind == CutKind::kProtocolError;
  if (coded && cut.code != code::kOk) text += " (" + code_name(cut.code) + ")";
  if (!cut.text.empty()) text += ": " + cut.text;
  return text;
}

}  // namespace fairlead::link
