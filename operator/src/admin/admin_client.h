// Calls to the Admin service of one replica (port 9443) over mutual TLS.
//
// The client dials an IP address and accepts exactly the replica whose leaf names the expected URI,
// under the cluster's CA; no host name is involved. Every call blocks its thread for at most its
// deadline, and for all of it when the replica cannot be reached, so each replica is polled from a
// thread of its own. Any thread may call; gRPC does not
// show in this header.
//
// An answer is either the replica's own or an error, never a guess: in particular nothing here
// turns "could not ask" into "no visits".
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "plan/membership.h"
#include "plan/replica.h"
#include "reconcile/backend.h"

namespace fairlead::op {

inline constexpr std::chrono::milliseconds kAdminDeadline{2000};

enum class AdminCode {
  kOk,
  kUnavailable,  // no answer: not reachable, TLS refused by either side, or the deadline passed
  kRefused,      // the replica holds a higher epoch, or the same one with another digest
  kFailed,       // the replica answered with any other error
};

template <class T>
struct AdminResult {
  AdminCode code = AdminCode::kUnavailable;
  std::string text;  // of an error: gRPC's code and the replica's words
  T value;           // only for kOk
  bool ok() const { return code == AdminCode::kOk; }
};

struct StatusAnswer {
  std::string uid;
  std::string name;
  std::string certificate_serial;  // lower-case hex, of the leaf that it serves now
  AdminSample sample;              // age 0
};

// The operator's side of mutual TLS, PEM.
struct AdminIdentity {
  std::string ca;
  std::string certificate;
  std::string key;
};

class AdminClient {
 public:
  // `address` is IP:port, `uri` the identity that the replica must prove. Connects on the first
  // call and again, with a pause of at most a second, when a connection was lost.
  AdminClient(const std::string& address, const std::string& uri, const AdminIdentity& identity);
  ~AdminClient();
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  // `epoch` 0 reads without leading: it is never refused.
  AdminResult<StatusAnswer> status(std::uint64_t epoch,
                                   std::chrono::milliseconds deadline = kAdminDeadline);
  AdminResult<std::monostate> set_membership(const std::string& cluster_uid,
                                             const Membership& membership,
                                             std::chrono::milliseconds deadline = kAdminDeadline);
  // Gives the order and returns the first status that answers it; the drain goes on without us.
  AdminResult<DrainSample> drain(const DrainOrder& order,
                                 std::chrono::milliseconds deadline = kAdminDeadline);

  // Ends the calls that are under way and every later one at once, as kUnavailable.
  void stop();

 private:
  class Impl;
  class Call;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fairlead::op
