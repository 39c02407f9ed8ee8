#include "admin_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "fairlead/admin.grpc.pb.h"

namespace fairlead::dataplane {
namespace {

namespace pb = admin::v1;

constexpr char kSubjectAlternativeName[] = "x509_subject_alternative_name";
constexpr unsigned kReloadSeconds = 60;
constexpr std::chrono::seconds kStreamPeriod{1};

grpc::Status to_status(const AdminHandlers::Answer& answer) {
  switch (answer.outcome) {
    case AdminHandlers::Outcome::kDone:
      return grpc::Status::OK;
    case AdminHandlers::Outcome::kRefused:
      return {grpc::StatusCode::FAILED_PRECONDITION, answer.text};
    case AdminHandlers::Outcome::kBusy:
      break;
  }
  return {grpc::StatusCode::UNAVAILABLE, "the replica did not answer in time"};
}

bool over(const pb::DrainStatus& status) {
  return status.state() == pb::DrainStatus::DRAINED || status.state() == pb::DrainStatus::FORCED;
}

class Service final : public pb::Admin::Service {
 public:
  Service(AdminHandlers handlers, std::string caller_uri)
      : handlers_(std::move(handlers)), caller_uri_(std::move(caller_uri)) {}

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stopped_.notify_all();
  }

  grpc::Status SetMembership(grpc::ServerContext* context, const pb::Membership* request,
                             pb::MembershipReply* reply) override {
    if (grpc::Status status = authorise(*context); !status.ok()) return status;
    return to_status(handlers_.set_membership(*request, *reply));
  }

  grpc::Status Status(grpc::ServerContext* context, const pb::StatusRequest* request,
                      pb::StatusReply* reply) override {
    if (grpc::Status status = authorise(*context); !status.ok()) return status;
    return to_status(handlers_.status(*request, *reply));
  }

  grpc::Status Drain(grpc::ServerContext* context, const pb::DrainRequest* request,
                     grpc::ServerWriter<pb::DrainStatus>* writer) override {
    if (grpc::Status status = authorise(*context); !status.ok()) return status;
    pb::DrainStatus first;
    if (grpc::Status status = to_status(handlers_.drain(*request, first)); !status.ok()) {
      return status;
    }
    if (!writer->Write(first) || over(first)) return grpc::Status::OK;
    if (streams_.fetch_add(1) >= AdminServer::kMaxStreams) {
      --streams_;
      return {grpc::StatusCode::RESOURCE_EXHAUSTED,
              "the drain goes on, but 8 Drain streams are open already: ask Status instead"};
    }
    const grpc::Status status = follow(*context, request->epoch(), *writer);
    --streams_;
    return status;
  }

 private:
  grpc::Status follow(grpc::ServerContext& context, std::uint64_t epoch,
                      grpc::ServerWriter<pb::DrainStatus>& writer) {
    pb::StatusRequest ask;
    ask.set_epoch(epoch);
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (stopped_.wait_for(lock, kStreamPeriod, [this] { return stopping_; })) {
          return {grpc::StatusCode::UNAVAILABLE, "the replica is going away"};
        }
      }
      if (context.IsCancelled()) return grpc::Status::CANCELLED;
      pb::StatusReply now;
      if (grpc::Status status = to_status(handlers_.status(ask, now)); !status.ok()) return status;
      if (!writer.Write(now.drain()) || over(now.drain())) return grpc::Status::OK;
    }
  }

  // The chain was verified by TLS; that any member of the cluster has such a chain is why the role
  // is checked for every call.
  grpc::Status authorise(const grpc::ServerContext& context) const {
    const auto names = context.auth_context()->FindPropertyValues(kSubjectAlternativeName);
    for (const grpc::string_ref& name : names) {
      if (name == caller_uri_) return grpc::Status::OK;
    }
    return {grpc::StatusCode::PERMISSION_DENIED,
            "Admin is for " + caller_uri_ + " only: the certificate has another identity"};
  }

  AdminHandlers handlers_;
  std::string caller_uri_;
  std::atomic<int> streams_{0};
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
};

std::shared_ptr<grpc::ServerCredentials> credentials(const AdminServerConfig& config) {
  using grpc::experimental::FileWatcherCertificateProvider;
  using grpc::experimental::TlsServerCredentialsOptions;
  auto provider = std::make_shared<FileWatcherCertificateProvider>(
      config.key_file, config.cert_file, config.ca_file, kReloadSeconds);
  TlsServerCredentialsOptions options(provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

class AdminServer::Impl {
 public:
  Impl(const AdminServerConfig& config, AdminHandlers handlers)
      : service_(std::move(handlers), config.caller_uri) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(config.address, credentials(config), &port_);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(1 << 20);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
    // Garbage and half-open connections are dropped after this long.
    builder.AddChannelArgument("grpc.server_handshake_timeout_ms", 10'000);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      throw std::runtime_error("cannot serve Admin on " + config.address +
                               ": is the address in use, are the TLS files readable?");
    }
  }
  ~Impl() {
    service_.stop();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  }
  int port() const { return port_; }

 private:
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

AdminServer::AdminServer(const AdminServerConfig& config, AdminHandlers handlers)
    : impl_(std::make_unique<Impl>(config, std::move(handlers))) {}
AdminServer::~AdminServer() = default;
int AdminServer::port() const {
  return impl_->port();
}

}  // namespace fairlead::dataplane
