#include "admin/fake_relay.h"

#include <arpa/inet.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fairlead/admin.grpc.pb.h"

namespace fairlead::op {
namespace {

namespace proto = fairlead::admin::v1;
namespace tls = grpc::experimental;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kPollMs = 20;

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int listen_on(const std::string& address, std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || ::listen(fd, 256) != 0) {
    ::close(fd);
    throw std::runtime_error("cannot listen on " + address + ":" + std::to_string(port));
  }
  return fd;
}

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, kPollMs) > 0;
}

void set_linger(int fd, bool reset) {
  const linger value{reset ? 1 : 0, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &value, sizeof value);
}

std::string random_id() {
  std::random_device random;
  return std::to_string(random()) + std::to_string(random());
}

}  // namespace

FakeRelayConfig load_fake_relay_config(const std::string& path) {
  const YAML::Node root = YAML::LoadFile(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  FakeRelayConfig config;
  config.cluster_uid = root["cluster"]["uid"].as<std::string>();
  config.uid = root["replica"]["uid"].as<std::string>();
  config.name = root["replica"]["name"].as<std::string>();
  config.address = root["listen"]["address"].as<std::string>();
  config.http = root["listen"]["http"].as<std::uint16_t>();
  config.admin = root["listen"]["admin"].as<std::uint16_t>();
  config.health = root["listen"]["health"].as<std::uint16_t>();
  config.certificate = file_text(folder / root["tls"]["cert"].as<std::string>());
  config.key = file_text(folder / root["tls"]["key"].as<std::string>());
  config.ca = file_text(folder / root["tls"]["ca"].as<std::string>());
  config.drain_timeout = std::chrono::seconds(root["drain"]["timeout_seconds"].as<int>());
  config.endpoint_delay = std::chrono::seconds(root["drain"]["endpoint_delay_seconds"].as<int>());
  return config;
}

class FakeRelay::Impl final : public proto::Admin::Service {
 public:
  explicit Impl(FakeRelayConfig config) : config_(std::move(config)), process_id_(random_id()) {
    if (config_.http != 0) http_fd_ = listen_on(config_.address, config_.http);
    health_fd_ = listen_on(config_.address, config_.health);
    start_admin();
    if (http_fd_ >= 0) threads_.emplace_back([this] { accept_visitors(); });
    threads_.emplace_back([this] { answer_probes(); });
    threads_.emplace_back([this] { run_drain(); });
  }

  ~Impl() override {
    stop_ = true;
    hang_ = false;
    server_->Shutdown(std::chrono::system_clock::now() + 200ms);
    for (std::thread& thread : threads_) thread.join();
    while (live_ > 0) std::this_thread::sleep_for(1ms);
    if (http_fd_ >= 0) ::close(http_fd_);
    ::close(health_fd_);
  }

  void start_drain(std::chrono::milliseconds deadline, std::chrono::milliseconds delay,
                   const std::string& reason) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (drain_ == proto::DrainStatus::NONE) {
      drain_ = proto::DrainStatus::DELAY;
      started_ = now;
      closes_ = now + delay;
      deadline_ = now + deadline;
      reason_ = reason;
    }
    deadline_ = std::min(deadline_, now + deadline);
  }

  std::atomic<std::uint32_t> extra_visits_{0};
  std::atomic<bool> hang_{false};
  std::atomic<std::uint64_t> lost_{0};
  mutable std::mutex mutex_;
  std::uint64_t epoch_ = 0;
  std::string digest_;
  proto::DrainStatus::State drain_ = proto::DrainStatus::NONE;
  proto::Membership members_;

 private:
  void start_admin() {
    tls::TlsServerCredentialsOptions options(std::make_shared<tls::StaticDataCertificateProvider>(
        config_.ca, std::vector<tls::IdentityKeyCertPair>{{config_.key, config_.certificate}}));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.set_check_call_host(false);
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    int port = 0;
    builder.AddListeningPort(config_.address + ":" + std::to_string(config_.admin),
                             tls::TlsServerCredentials(options), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) throw std::runtime_error("cannot serve the Admin port");
  }

  grpc::Status admit(const grpc::ServerContext& context) const {
    const std::string operator_role = "fairlead://" + config_.cluster_uid + "/operator";
    for (const auto& uri :
         context.auth_context()->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
      if (operator_role == std::string(uri.data(), uri.size())) return grpc::Status::OK;
    }
    return {grpc::StatusCode::PERMISSION_DENIED, "not the operator"};
  }

  void wait_while_hanging(const grpc::ServerContext& context) const {
    while (hang_ && !context.IsCancelled()) std::this_thread::sleep_for(5ms);
  }

  grpc::Status SetMembership(grpc::ServerContext* context, const proto::Membership* request,
                             proto::MembershipReply* reply) override {
    if (const grpc::Status status = admit(*context); !status.ok()) return status;
    wait_while_hanging(*context);
    const std::lock_guard lock(mutex_);
    if (request->epoch() < epoch_ ||
        (request->epoch() == epoch_ && !digest_.empty() && request->digest() != digest_)) {
      return {grpc::StatusCode::FAILED_PRECONDITION,
              "epoch " + std::to_string(epoch_) + " digest " + digest_};
    }
    epoch_ = request->epoch();
    digest_ = request->digest();
    members_ = *request;
    reply->set_epoch(epoch_);
    reply->set_digest(digest_);
    return grpc::Status::OK;
  }

  grpc::Status Drain(grpc::ServerContext* context, const proto::DrainRequest* request,
                     grpc::ServerWriter<proto::DrainStatus>* writer) override {
    if (const grpc::Status status = admit(*context); !status.ok()) return status;
    wait_while_hanging(*context);
    {
      const std::lock_guard lock(mutex_);
      if (request->epoch() < epoch_) {
        return {grpc::StatusCode::FAILED_PRECONDITION, "epoch " + std::to_string(epoch_)};
      }
    }
    start_drain(std::chrono::milliseconds(request->deadline_ms()),
                std::chrono::milliseconds(request->endpoint_delay_ms()), request->reason());
    while (!stop_ && !context->IsCancelled()) {
      const proto::DrainStatus status = drain_status();
      if (!writer->Write(status) || status.state() >= proto::DrainStatus::DRAINED) break;
      for (int i = 0; i < 50 && !stop_ && !context->IsCancelled(); ++i) {
        std::this_thread::sleep_for(20ms);
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status Status(grpc::ServerContext* context, const proto::StatusRequest* request,
                      proto::StatusReply* reply) override {
    if (const grpc::Status status = admit(*context); !status.ok()) return status;
    wait_while_hanging(*context);
    *reply->mutable_drain() = drain_status();
    const std::lock_guard lock(mutex_);
    if (request->epoch() != 0 && request->epoch() < epoch_) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "epoch " + std::to_string(epoch_)};
    }
    reply->set_uid(config_.uid);
    reply->set_name(config_.name);
    reply->set_version(config_.version);
    reply->set_process_id(process_id_);
    reply->set_state(drain_ == proto::DrainStatus::NONE ? proto::ACTIVE : proto::DRAINING);
    reply->set_epoch(epoch_);
    reply->set_digest(digest_);
    for (const proto::Member& member : members_.members()) {
      if (member.uid() == config_.uid) continue;
      proto::PeerStatus& peer = *reply->add_peers();
      peer.set_uid(member.uid());
      peer.set_name(member.name());
      peer.set_links_up(4);
      peer.set_links_expected(4);
    }
    proto::VisitCounts& visits = *reply->add_visits();
    visits.set_kind("tcp");
    visits.set_opened(opened_);
    visits.set_live(live_ + extra_visits_);
    visits.set_finished(opened_ - live_ - lost_);
    if (lost_ > 0) (*visits.mutable_lost_by_cause())["drain_timeout"] = lost_;
    return grpc::Status::OK;
  }

  proto::DrainStatus drain_status() const {
    const std::lock_guard lock(mutex_);
    proto::DrainStatus status;
    status.set_state(drain_);
    status.set_reason(reason_);
    status.set_process_id(process_id_);
    status.set_lost(lost_);
    if (const std::uint32_t visits = live_ + extra_visits_; visits > 0) {
      (*status.mutable_visits_by_kind())["tcp"] = visits;
    }
    if (drain_ != proto::DrainStatus::NONE) {
      status.set_elapsed_ms(milliseconds_between(started_, Clock::now()));
      status.set_deadline_ms(milliseconds_between(started_, deadline_));
    }
    return status;
  }

  static std::uint64_t milliseconds_between(Clock::time_point from, Clock::time_point to) {
    const auto span = std::chrono::duration_cast<std::chrono::milliseconds>(to - from);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, span.count()));
  }

  void run_drain() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
      const std::lock_guard lock(mutex_);
      const auto now = Clock::now();
      if (drain_ == proto::DrainStatus::DELAY && now >= closes_) {
        drain_ = proto::DrainStatus::DRAINING;
        close_listener_ = true;
      } else if (drain_ == proto::DrainStatus::DRAINING) {
        if (listener_closed_ && live_ + extra_visits_ == 0) {
          drain_ = proto::DrainStatus::DRAINED;
        } else if (now >= deadline_) {
          lost_ = live_ + extra_visits_;
          reset_visits_ = true;
          drain_ = proto::DrainStatus::FORCED;
        }
      }
    }
  }

  void accept_visitors() {
    while (!stop_) {
      const bool ready = readable(http_fd_);
      if (ready) {
        const int fd = ::accept4(http_fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) continue;
        set_linger(fd, true);
        ++live_;
        ++opened_;
        std::thread([this, fd] { echo(fd); }).detach();
      } else if (close_listener_) {
        ::close(http_fd_);
        http_fd_ = -1;
        break;
      }
    }
    listener_closed_ = true;
  }

  // Echoes what follows the PROXY header until the visitor's FIN.
  void echo(int fd) {
    char buffer[16384];
    std::size_t skip = 28;
    bool clean = false;
    while (!stop_ && !reset_visits_) {
      if (!readable(fd)) continue;
      const ssize_t size = ::recv(fd, buffer, sizeof buffer, 0);
      if (size < 0) break;
      if (size == 0) {
        clean = true;
        break;
      }
      const std::size_t skipped = std::min(skip, static_cast<std::size_t>(size));
      skip -= skipped;
      for (auto at = static_cast<ssize_t>(skipped); at < size;) {
        const ssize_t n =
            ::send(fd, buffer + at, static_cast<std::size_t>(size - at), MSG_NOSIGNAL);
        if (n <= 0) break;
        at += n;
      }
    }
    if (clean) set_linger(fd, false);
    ::close(fd);
    --live_;
  }

  void answer_probes() {
    while (!stop_) {
      if (!readable(health_fd_)) continue;
      const int fd = ::accept4(health_fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const timeval limit{0, 200'000};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      char request[2048];
      if (::recv(fd, request, sizeof request, 0) > 0) {
        const std::string answer =
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
        ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      }
      ::close(fd);
    }
  }

  const FakeRelayConfig config_;
  const std::string process_id_;
  int http_fd_ = -1;
  int health_fd_ = -1;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> close_listener_{false};
  std::atomic<bool> listener_closed_{config_.http == 0};
  std::atomic<bool> reset_visits_{false};
  std::atomic<std::uint32_t> live_{0};
  std::atomic<std::uint64_t> opened_{0};
  Clock::time_point started_;
  Clock::time_point closes_;
  Clock::time_point deadline_;
  std::string reason_;
};

FakeRelay::FakeRelay(FakeRelayConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
FakeRelay::~FakeRelay() = default;

void FakeRelay::set_visits(std::uint32_t visits) {
  impl_->extra_visits_ = visits;
}
void FakeRelay::hang(bool hang) {
  impl_->hang_ = hang;
}

void FakeRelay::set_epoch(std::uint64_t epoch, const std::string& digest) {
  const std::lock_guard lock(impl_->mutex_);
  impl_->epoch_ = epoch;
  impl_->digest_ = digest;
}

std::uint64_t FakeRelay::epoch() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->epoch_;
}

std::string FakeRelay::computed_digest() const {
  proto::Membership only_members;
  {
    const std::lock_guard lock(impl_->mutex_);
    *only_members.mutable_members() = impl_->members_.members();
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream output(&bytes);
    google::protobuf::io::CodedOutputStream coded(&output);
    coded.SetSerializationDeterministic(true);
    only_members.SerializeToCodedStream(&coded);
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kHex[digest[i] >> 4];
    hex += kHex[digest[i] & 15];
  }
  return hex;
}

void FakeRelay::drain(std::chrono::milliseconds deadline, std::chrono::milliseconds delay) {
  impl_->start_drain(deadline, delay, "SIGTERM");
}

bool FakeRelay::drained() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->drain_ >= proto::DrainStatus::DRAINED;
}

std::uint64_t FakeRelay::lost() const {
  return impl_->lost_;
}

}  // namespace fairlead::op
