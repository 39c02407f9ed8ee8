#include "visit/outcome.h"

namespace fairlead::dataplane {

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFinished:
      return "finished";
    case Outcome::kVisitorReset:
      return "visitor_reset";
    case Outcome::kUpstreamRefused:
      return "upstream_refused";
    case Outcome::kUpstreamUnreachable:
      return "upstream_unreachable";
    case Outcome::kUpstreamReset:
      return "upstream_reset";
    case Outcome::kNoService:
      return "no_service";
    case Outcome::kNoAgent:
      return "no_agent";
    case Outcome::kNotHere:
      return "not_here";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kOverloaded:
      return "overloaded";
    case Outcome::kAgentLost:
      return "agent_lost";
    case Outcome::kHomeLost:
      return "home_lost";
    case Outcome::kPeerLost:
      return "peer_lost";
    case Outcome::kPathLost:
      return "path_lost";
    case Outcome::kDrainTimeout:
      return "drain_timeout";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kSlow:
      return "slow";
    case Outcome::kProtocol:
      return "protocol";
    case Outcome::kInternal:
      return "internal";
    case Outcome::kApplication:
      return "application";
  }
  return "unknown";
}

Outcome outcome_of(link::Code code) {
  switch (code) {
    case link::code::kOk:
    case link::code::kProtocol:
    case link::code::kFlow:
    case link::code::kVersion:
      return Outcome::kProtocol;
    case link::code::kCalm:
    case link::code::kRefused:
      return Outcome::kRefused;
    case link::code::kCancel:
      return Outcome::kCancelled;
    case link::code::kDrainTimeout:
      return Outcome::kDrainTimeout;
    case link::code::kInternal:
      return Outcome::kInternal;
    case link::code::kSlow:
      return Outcome::kSlow;
    case link::code::kSuperseded:
    case link::code::kPathLost:
      return Outcome::kPathLost;
    case link::code::kNotHere:
      return Outcome::kNotHere;
    case visit_code::kUpstreamRefused:
      return Outcome::kUpstreamRefused;
    case visit_code::kUpstreamUnreachable:
      return Outcome::kUpstreamUnreachable;
    case visit_code::kUpstreamReset:
      return Outcome::kUpstreamReset;
    case visit_code::kVisitorReset:
      return Outcome::kVisitorReset;
    case visit_code::kNoService:
      return Outcome::kNoService;
    case visit_code::kOverloaded:
      return Outcome::kOverloaded;
    default:
      return code >= link::code::kFirstApplication ? Outcome::kApplication : Outcome::kProtocol;
  }
}

}  // namespace fairlead::dataplane
