// The gRPC Admin service of a replica (port 9443), for the operator alone.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace fairlead::admin::v1 {
class Membership;
class MembershipReply;
class DrainRequest;
class DrainStatus;
class StatusRequest;
class StatusReply;
}  // namespace fairlead::admin::v1

namespace fairlead::dataplane {

// What Admin asks of the replica. Called on gRPC's threads; each call may block for a bounded time.
// A text that is not empty is a refusal (FAILED_PRECONDITION); kBusy says the replica did not
// answer in time (UNAVAILABLE): unknown, never "nothing to report".
struct AdminHandlers {
  enum class Outcome { kDone, kRefused, kBusy };
  struct Answer {
    Outcome outcome = Outcome::kDone;
    std::string text;
  };
  std::function<Answer(const admin::v1::Membership&, admin::v1::MembershipReply&)> set_membership;
  std::function<Answer(const admin::v1::DrainRequest&, admin::v1::DrainStatus&)> drain;
  // Also asked once a second for each Drain stream.
  std::function<Answer(const admin::v1::StatusRequest&, admin::v1::StatusReply&)> status;
};

struct AdminServerConfig {
  std::string address;  // host:port
  // PEM files: our leaf and key, and the CA that callers' certificates must come from. The leaf and
  // the key are read again when the files change (checked once a minute).
  std::string cert_file, key_file, ca_file;
  std::string caller_uri;  // the only URI SAN that is let in, "fairlead://<cluster>/operator"
};

// Listens from construction to destruction. Throws std::runtime_error when the address cannot be
// bound or a file cannot be read. At most kMaxStreams Drain streams at once.
class AdminServer {
 public:
  static constexpr int kMaxStreams = 8;

  AdminServer(const AdminServerConfig& config, AdminHandlers handlers);
  ~AdminServer();  // ends running calls; waits at most two seconds for them

  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fairlead::dataplane
