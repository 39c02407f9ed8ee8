#include "local/replica_poller.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace fairlead::op {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A replica that starts or drains is asked often, since something waits for it.
constexpr auto kBusyPause = 100ms;
constexpr auto kCalmPause = 500ms;
constexpr auto kProbeLimit = 2000ms;
constexpr int kFailedProbesForUnready = 2;

bool wait_for(int fd, short events, Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  pollfd entry{fd, events, 0};
  return left.count() > 0 && ::poll(&entry, 1, static_cast<int>(left.count())) > 0;
}

bool connected(int fd, const std::string& address, std::uint16_t port, Clock::time_point until) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return false;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return true;
  if (errno != EINPROGRESS || !wait_for(fd, POLLOUT, until)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

std::optional<int> http_get_status(const std::string& address, std::uint16_t port,
                                   const std::string& path, std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || !connected(fd.get(), address, port, until)) return std::nullopt;
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  // A fresh socket takes a request this small at once.
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return std::nullopt;
  }
  std::string answer;
  constexpr std::size_t kStatusLine = sizeof "HTTP/1.1 200" - 1;
  while (answer.size() < kStatusLine) {
    char buffer[512];
    if (!wait_for(fd.get(), POLLIN, until)) return std::nullopt;
    const ssize_t size = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (size <= 0) return std::nullopt;
    answer.append(buffer, static_cast<std::size_t>(size));
  }
  if (answer.compare(0, 7, "HTTP/1.") != 0) return std::nullopt;
  return std::atoi(answer.substr(9, 3).c_str());
}

ReplicaPoller::ReplicaPoller(Target target, const AdminIdentity& identity,
                             std::function<void()> on_news)
    : target_(std::move(target)),
      on_news_(std::move(on_news)),
      admin_(target_.address + ":" + std::to_string(target_.admin_port), target_.uri, identity),
      view_{.ready = target_.ready,
            .ready_since = Clock::now(),
            .sample = {},
            .certificate_serial = {}},
      thread_([this] { run(); }) {}

ReplicaPoller::~ReplicaPoller() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  admin_.stop();
  wake_.notify_all();
  thread_.join();
}

ReplicaView ReplicaPoller::view() const {
  const std::lock_guard lock(mutex_);
  ReplicaView copy = view_;
  if (copy.sample) {
    copy.sample->age =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - sampled_at_);
  }
  return copy;
}

AdminClient* ReplicaPoller::admin() {
  const std::lock_guard lock(mutex_);
  return answers_ ? &admin_ : nullptr;
}

void ReplicaPoller::hurry() {
  {
    const std::lock_guard lock(mutex_);
    hurry_ = true;
  }
  wake_.notify_all();
}

void ReplicaPoller::run() {
  bool alive = true;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      hurry_ = false;
    }
    const bool was_alive = std::exchange(alive, is_alive(target_.process));
    bool news = was_alive != alive;
    if (alive) {
      const Probe health = probe();
      news = news || health.news;
      // Before its health endpoint is up there is no Admin endpoint either.
      if (health.answered || view().sample) news = ask() || news;
    } else {
      const std::lock_guard lock(mutex_);
      news = set_ready(false) || news;
    }
    if (news) on_news_();
    pause();
  }
}

// Readiness comes with one good answer and goes with two bad ones in a row.
ReplicaPoller::Probe ReplicaPoller::probe() {
  const auto status = http_get_status(target_.address, target_.health_port, "/readyz", kProbeLimit);
  const std::lock_guard lock(mutex_);
  failed_probes_ = status == 200 ? 0 : failed_probes_ + 1;
  const bool ready = status == 200 || (view_.ready && failed_probes_ < kFailedProbesForUnready);
  return {status.has_value(), set_ready(ready)};
}

// True when that is news.
bool ReplicaPoller::set_ready(bool ready) {
  if (ready == view_.ready) return false;
  view_.ready = ready;
  view_.ready_since = Clock::now();
  return true;
}

// True when the answer differs from the last one in what passes decide by.
bool ReplicaPoller::ask() {
  AdminResult<StatusAnswer> answer = admin_.status(0);
  const std::lock_guard lock(mutex_);
  answers_ = answer.ok() && answer.value.uid == target_.uid;
  if (!answers_) return false;
  const AdminSample& fresh = answer.value.sample;
  const bool first = !view_.sample;
  const auto summary = [](const AdminSample& s) {
    return std::tuple(s.process_id, s.epoch, s.digest, s.drain.phase, s.drain.visits,
                      s.drain.agents, s.drain.keepalive_sockets);
  };
  bool news = first || summary(*view_.sample) != summary(fresh) ||
              view_.certificate_serial != answer.value.certificate_serial ||
              view_.sample->peers.size() != fresh.peers.size();
  for (std::size_t i = 0; !news && i < fresh.peers.size(); ++i) {
    news = view_.sample->peers[i].uid != fresh.peers[i].uid ||
           view_.sample->peers[i].links_up != fresh.peers[i].links_up;
  }
  draining_ = fresh.drain.phase != DrainPhase::kNone;
  view_.certificate_serial = answer.value.certificate_serial;
  view_.sample = fresh;
  sampled_at_ = Clock::now();
  return news;
}

void ReplicaPoller::pause() {
  std::unique_lock lock(mutex_);
  const bool busy = !view_.ready || draining_;
  wake_.wait_for(lock, busy ? kBusyPause : kCalmPause, [this] { return stop_ || hurry_; });
}

}  // namespace fairlead::op
