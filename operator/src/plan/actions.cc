#include "plan/actions.h"

namespace fairlead::op {
namespace {

struct Describe {
  std::string operator()(const PutRevision& a) const { return "PutRevision " + a.record.revision; }
  std::string operator()(const PersistMembership& a) const {
    return "PersistMembership " + std::to_string(a.membership.epoch);
  }
  std::string operator()(const PushMembership& a) const { return "PushMembership " + a.name; }
  std::string operator()(const UpdateEndpoints& a) const {
    std::string text = "UpdateEndpoints";
    for (const std::string& uid : a.uids) text += " " + uid;
    return text;
  }
  std::string operator()(const SetMeshGate& a) const {
    return std::string(a.open ? "OpenGate " : "CloseGate ") + a.name;
  }
  std::string operator()(const DeleteReplica& a) const { return "Delete " + a.name; }
  std::string operator()(const CreateReplica& a) const { return "Create " + a.name; }
  std::string operator()(const RequestDrain& a) const {
    return "RequestDrain " + a.name + " " + a.intent.reason;
  }
  std::string operator()(const SendDrain& a) const { return "SendDrain " + a.name; }
  std::string operator()(const RemoveRevision& a) const { return "RemoveRevision " + a.revision; }
};

}  // namespace

std::string to_string(const Action& action) {
  return std::visit(Describe{}, action);
}

}  // namespace fairlead::op
