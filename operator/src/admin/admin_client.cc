#include "admin/admin_client.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "fairlead/admin.grpc.pb.h"

namespace fairlead::op {
namespace {

namespace proto = fairlead::admin::v1;
namespace tls = grpc::experimental;
using std::chrono::milliseconds;

// Runs after gRPC has verified the chain: accepts the one identity that was dialled.
class UriVerifier : public tls::ExternalCertificateVerifier {
 public:
  explicit UriVerifier(std::string uri) : uri_(std::move(uri)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const std::vector<grpc::string_ref> names = request->uri_names();
    const bool named = std::any_of(names.begin(), names.end(), [&](const grpc::string_ref& name) {
      return std::string_view(name.data(), name.size()) == uri_;
    });
    *sync_status = named ? grpc::Status::OK
                         : grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                                        "the replica's certificate does not name " + uri_);
    return true;
  }

  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::string uri_;
};

std::shared_ptr<grpc::Channel> make_channel(const std::string& address, const std::string& uri,
                                            const AdminIdentity& identity) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      identity.ca, std::vector<tls::IdentityKeyCertPair>{{identity.key, identity.certificate}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(tls::ExternalCertificateVerifier::Create<UriVerifier>(uri));
  options.set_check_call_host(false);
  grpc::ChannelArguments arguments;
  // A connection of our own: shared ones would carry another replica's verifier.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Not a pause: how long an attempt to connect may take at least, handshake included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, tls::TlsCredentials(options), arguments);
}

std::string code_name(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case grpc::StatusCode::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case grpc::StatusCode::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case grpc::StatusCode::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    default:
      return "code " + std::to_string(code);
  }
}

template <class T>
void set_outcome(const grpc::Status& status, AdminResult<T>& result) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      result.code = AdminCode::kOk;
      return;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      result.code = AdminCode::kUnavailable;
      break;
    case grpc::StatusCode::FAILED_PRECONDITION:
      result.code = AdminCode::kRefused;
      break;
    default:
      result.code = AdminCode::kFailed;
  }
  result.text = code_name(status.error_code()) + ": " + status.error_message();
}

DrainPhase to_phase(proto::DrainStatus::State state) {
  switch (state) {
    case proto::DrainStatus::DELAY:
      return DrainPhase::kDelay;
    case proto::DrainStatus::DRAINING:
      return DrainPhase::kDraining;
    case proto::DrainStatus::DRAINED:
      return DrainPhase::kDrained;
    case proto::DrainStatus::FORCED:
      return DrainPhase::kForced;
    default:
      return DrainPhase::kNone;
  }
}

DrainSample to_sample(const proto::DrainStatus& drain) {
  DrainSample sample;
  sample.phase = to_phase(drain.state());
  sample.reason = drain.reason();
  for (const auto& [kind, count] : drain.visits_by_kind()) sample.visits += count;
  sample.agents = drain.agents();
  sample.keepalive_sockets = drain.keepalive_sockets();
  sample.elapsed = milliseconds(drain.elapsed_ms());
  sample.deadline = milliseconds(drain.deadline_ms());
  sample.lost = drain.lost();
  return sample;
}

StatusAnswer to_answer(const proto::StatusReply& reply) {
  StatusAnswer answer;
  answer.uid = reply.uid();
  answer.name = reply.name();
  answer.certificate_serial = reply.certificate_serial();
  AdminSample& sample = answer.sample;
  sample.process_id = reply.process_id();
  sample.version = reply.version();
  sample.epoch = reply.epoch();
  sample.digest = reply.digest();
  for (const proto::PeerStatus& peer : reply.peers()) {
    sample.peers.push_back({peer.uid(), peer.links_up(), peer.links_expected()});
  }
  for (const proto::VisitCounts& visits : reply.visits()) sample.visits += visits.live();
  sample.agents = reply.agents();
  sample.forwarding = reply.forwarding();
  sample.drain = to_sample(reply.drain());
  return answer;
}

proto::Membership to_proto(const std::string& cluster_uid, const Membership& membership) {
  proto::Membership message;
  message.set_cluster_uid(cluster_uid);
  message.set_epoch(membership.epoch);
  message.set_digest(membership.digest);
  for (const Member& member : membership.members) {
    proto::Member& added = *message.add_members();
    added.set_uid(member.uid);
    added.set_name(member.name);
    added.set_peer_address(member.peer_address);
    added.set_state(static_cast<proto::MemberState>(member.state));
  }
  return message;
}

}  // namespace

class AdminClient::Impl {
 public:
  Impl(const std::string& address, const std::string& uri, const AdminIdentity& identity)
      : stub(proto::Admin::NewStub(make_channel(address, uri, identity))) {}

  std::unique_ptr<proto::Admin::Stub> stub;
  std::mutex mutex;
  bool stopped = false;
  std::set<grpc::ClientContext*> calls;  // under way
};

// The context of one call, for as long as it is under way.
class AdminClient::Call {
 public:
  // The call waits for its connection. One that failed at once while none stands would leave nobody
  // to drive the connecting: gRPC does that on the threads of waiting calls.
  Call(Impl& impl, milliseconds deadline) : impl_(impl) {
    context_.set_wait_for_ready(true);
    context_.set_deadline(std::chrono::system_clock::now() + deadline);
    const std::lock_guard lock(impl_.mutex);
    impl_.calls.insert(&context_);
    if (impl_.stopped) context_.TryCancel();
  }
  ~Call() {
    const std::lock_guard lock(impl_.mutex);
    impl_.calls.erase(&context_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  grpc::ClientContext* context() { return &context_; }

 private:
  Impl& impl_;
  grpc::ClientContext context_;
};

AdminClient::AdminClient(const std::string& address, const std::string& uri,
                         const AdminIdentity& identity)
    : impl_(std::make_unique<Impl>(address, uri, identity)) {}

AdminClient::~AdminClient() = default;

void AdminClient::stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stopped = true;
  for (grpc::ClientContext* const context : impl_->calls) context->TryCancel();
}

AdminResult<StatusAnswer> AdminClient::status(std::uint64_t epoch, milliseconds deadline) {
  Call call(*impl_, deadline);
  proto::StatusRequest request;
  request.set_epoch(epoch);
  proto::StatusReply reply;
  AdminResult<StatusAnswer> result;
  set_outcome(impl_->stub->Status(call.context(), request, &reply), result);
  if (result.ok()) result.value = to_answer(reply);
  return result;
}

AdminResult<std::monostate> AdminClient::set_membership(const std::string& cluster_uid,
                                                        const Membership& membership,
                                                        milliseconds deadline) {
  Call call(*impl_, deadline);
  proto::MembershipReply reply;
  AdminResult<std::monostate> result;
  set_outcome(impl_->stub->SetMembership(call.context(), to_proto(cluster_uid, membership), &reply),
              result);
  return result;
}

AdminResult<DrainSample> AdminClient::drain(const DrainOrder& order, milliseconds deadline) {
  Call call(*impl_, deadline);
  proto::DrainRequest request;
  request.set_epoch(order.epoch);
  request.set_reason(order.reason);
  request.set_deadline_ms(
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, order.deadline.count())));
  request.set_endpoint_delay_ms(
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, order.endpoint_delay.count())));
  request.set_final(order.final);
  const auto stream = impl_->stub->Drain(call.context(), request);
  AdminResult<DrainSample> result;
  proto::DrainStatus first;
  if (stream->Read(&first)) {
    result.code = AdminCode::kOk;
    result.value = to_sample(first);
    call.context()->TryCancel();
    stream->Finish();
    return result;
  }
  const grpc::Status status = stream->Finish();
  set_outcome(status, result);
  if (result.ok()) {
    result.code = AdminCode::kFailed;
    result.text = "the replica ended the drain's stream without a status";
  }
  return result;
}

}  // namespace fairlead::op
