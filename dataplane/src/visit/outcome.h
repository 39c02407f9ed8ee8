// How a visit ended, in the words of logs and metrics, and the codes that carry it between its
// ends.
#pragma once

#include <cstdint>
#include <string_view>

#include "fairlead/link/types.h"

namespace fairlead::dataplane {

// Codes of RESET and STOP that the two ends of a visit give each other. Relays pass them on as they
// are. Stable: never renumber.
namespace visit_code {
inline constexpr link::Code kUpstreamRefused = 256;      // the upstream refused the connection
inline constexpr link::Code kUpstreamUnreachable = 257;  // no route, no name, or no answer in time
inline constexpr link::Code kUpstreamReset = 258;        // the upstream reset its connection
inline constexpr link::Code kVisitorReset = 259;         // the visitor reset its connection
inline constexpr link::Code kNoService = 260;            // the agent does not serve what OPEN names
inline constexpr link::Code kOverloaded = 261;  // the agent has no memory for one more visit
}  // namespace visit_code

// Why a visit is over. Each is counted apart; only kFinished is not a loss.
enum class Outcome : std::uint8_t {
  kFinished,             // both halves ended and both ends have every byte
  kVisitorReset,         // the visitor's connection was reset
  kUpstreamRefused,      // the agent's upstream refused the connection
  kUpstreamUnreachable,  // the agent's upstream could not be reached
  kUpstreamReset,        // the agent's upstream reset the connection
  kNoService,            // the agent does not serve it
  kNoAgent,              // no home was known, within the wait for one
  kNotHere,              // every home that was tried said that the agent is not there
  kRefused,              // every home that was tried refused; nothing reached an agent
  kOverloaded,           // an end had no memory for one more visit
  kAgentLost,            // the link to the agent ended
  kHomeLost,             // seen by an agent: the link to its relay ended
  kPeerLost,             // the link to another replica ended
  kPathLost,             // a hop further on broke
  kDrainTimeout,         // still open at the drain deadline
  kCancelled,            // an end gave up
  kSlow,                 // its reader held memory under pressure
  kProtocol,             // the other end broke the rules
  kInternal,             // a fault of ours
  kApplication,          // a code of 256 or above that has no name here
};
inline constexpr int kOutcomes = static_cast<int>(Outcome::kApplication) + 1;

// Stable names: "finished", "visitor_reset", ...; values of a metric's label.
std::string_view outcome_name(Outcome outcome);

// What a final RESET or STOP with this code means at the end that gets it. kOk is a clean end only
// where one is due, which the caller must know; here it is a breach (kProtocol).
Outcome outcome_of(link::Code code);

// The session ended because its path did (9, 10): the visit's other end may well live.
constexpr bool is_path_broken(link::Code code) {
  return code == link::code::kSuperseded || code == link::code::kPathLost;
}
// Nothing of the visit was passed to an agent: another home may be tried.
constexpr bool is_not_passed_on(link::Code code) {
  return code == link::code::kRefused || code == link::code::kNotHere;
}

}  // namespace fairlead::dataplane
