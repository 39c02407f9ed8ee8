#include "local/local_operator.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "api/relay_cluster.h"
#include "local/cluster_state.h"
#include "local/durable_file.h"
#include "local/file_watch.h"
#include "local/forwarder_process.h"
#include "local/local_backend.h"
#include "local/log_line.h"
#include "local/unique_fd.h"
#include "reconcile/reconciler.h"

namespace fairlead::op {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr char kDefaultListen[] = "127.0.0.1";
// The file is looked at this often without a hint that it changed, and a pass runs: it also is what
// notices that an image has appeared or that a process has outstayed its grace.
constexpr auto kLookAgain = 1s;
// Between two renames of an editor the file may be missing for a moment.
constexpr auto kMissingIsNews = 2s;

void print_event(const Event& event) {
  std::string line = event.type == Event::Type::kWarning ? "warning: " : "";
  line += event.reason;
  if (!event.about.empty()) line += " " + event.about;
  if (!event.text.empty()) line += ": " + event.text;
  std::cout << log_line(line) << std::endl;
}

int refuse(const std::string& error) {
  std::cerr << "fairlead-operator: " << error << std::endl;
  return 2;
}

// Signals as a descriptor. Blocked before any thread starts, so that none of them is interrupted.
UniqueFd open_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

std::string describe(const ParsedCluster& parsed) {
  std::string text;
  for (const FieldError& error : parsed.errors) {
    text += (text.empty() ? "" : "; ") + to_string(error);
  }
  return text;
}

class LocalOperator {
 public:
  explicit LocalOperator(const LocalArguments& arguments)
      : arguments_(arguments),
        signals_(open_signals()),
        news_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  int run();
  int take_down(std::optional<std::chrono::seconds> limit);

 private:
  std::optional<std::string> first_cluster();
  std::optional<std::string> settle_record();
  std::optional<std::string> open();
  void accept(const std::string& text, RelayCluster cluster);
  void reload();
  void pass();
  bool wait();
  void announce() const;

  const LocalArguments arguments_;
  const UniqueFd signals_;
  const UniqueFd news_;  // written by pollers: run a pass now
  std::unique_ptr<ClusterState> state_;
  std::unique_ptr<LocalBackend> backend_;
  std::unique_ptr<ForwarderProcess> forwarder_;
  std::unique_ptr<Reconciler> reconciler_;
  std::optional<FileWatch> watch_;
  RelayCluster cluster_;             // in force
  std::string invalid_;              // why the file's present text is not
  std::optional<std::string> text_;  // of the file, as last seen
  Clock::time_point present_at_{};   // the file was there
  Clock::time_point pass_due_{};
  std::string reported_error_;
};

// The cluster to start with: from the file, or the last good one when the file is wrong now.
std::optional<std::string> LocalOperator::first_cluster() {
  std::string error;
  const auto text = read_file(arguments_.file, error);
  const ParsedCluster parsed = parse_relay_cluster_yaml(text.value_or(""));
  if (text && parsed.cluster) {
    cluster_ = *parsed.cluster;
    text_ = text;
    return std::nullopt;
  }
  invalid_ = text ? describe(parsed) : error;
  const std::optional<std::string> last = state_->last_good();
  const ParsedCluster before = parse_relay_cluster_yaml(last.value_or(""));
  if (!state_->record() || !before.cluster) {
    return text ? arguments_.file.string() + " is not a valid RelayCluster: " + invalid_ : error;
  }
  cluster_ = *before.cluster;
  text_ = text;
  print_event({Event::Type::kWarning, "InvalidSpec", "",
               invalid_ + "; the last valid spec stays in force"});
  return std::nullopt;
}

// What was decided when the cluster was made stays: running replicas depend on it.
std::optional<std::string> LocalOperator::settle_record() {
  if (!state_->record()) {
    std::string subnet = arguments_.subnet.value_or("");
    if (subnet.empty()) {
      std::mt19937_64 random(std::random_device{}());
      const auto found = find_free_subnet(replica_ports(cluster_.spec, {}), random);
      if (!found) return "found no free subnet under 127.0.0.0/8; give one with --subnet";
      subnet = found->to_string();
    }
    return state_->found(cluster_.name, subnet, arguments_.listen.value_or(kDefaultListen));
  }
  const ClusterRecord& record = *state_->record();
  const std::string way_out = "; `fairlead-operator local down` first, or give another --state";
  if (record.name != cluster_.name) {
    return state_->folder().string() + " belongs to cluster " + record.name + ", not " +
           cluster_.name + way_out;
  }
  if (arguments_.listen.value_or(record.listen) != record.listen) {
    return "--listen: this cluster is served on " + record.listen + way_out;
  }
  if (arguments_.subnet.value_or(record.subnet) != record.subnet) {
    return "--subnet: the replicas of this cluster live in " + record.subnet + way_out;
  }
  return std::nullopt;
}

std::optional<std::string> LocalOperator::open() {
  const ClusterRecord& record = *state_->record();
  LocalOptions options;
  options.state = std::filesystem::absolute(state_->folder());
  options.status_file = status_file(arguments_.file);
  options.images = arguments_.images;
  options.relay = arguments_.programs / "fairlead-relay";
  options.secrets = std::filesystem::absolute(arguments_.secrets);
  options.cluster_uid = record.uid;
  options.cluster_name = record.name;
  options.listen = record.listen;
  options.subnet = record.subnet;
  options.ca = state_->ca();
  options.seed = std::random_device{}();
  options.on_news = [fd = news_.get()] { ::eventfd_write(fd, 1); };
  options.on_event = print_event;
  std::string error;
  backend_ = LocalBackend::open(options, error);
  if (!backend_) return error;
  forwarder_ = std::make_unique<ForwarderProcess>(
      options.state, arguments_.programs / "fairlead-forwarder", record.listen, print_event);
  reconciler_ = std::make_unique<Reconciler>(*backend_);
  return std::nullopt;
}

void LocalOperator::accept(const std::string& text, RelayCluster cluster) {
  const std::int64_t before = state_->record()->generation;
  if (const auto failed = state_->accept(text, cluster)) {
    print_event({Event::Type::kWarning, "StateNotWritten", "", *failed});
  }
  cluster.uid = state_->record()->uid;
  cluster.generation = state_->record()->generation;
  cluster_ = std::move(cluster);
  backend_->set_spec(cluster_.spec);
  if (cluster_.generation != before) {
    print_event({Event::Type::kNormal, "SpecAccepted", "",
                 "generation " + std::to_string(cluster_.generation) + ": " +
                     std::to_string(cluster_.spec.replicas) + " replicas of " +
                     cluster_.spec.image});
  }
}

void LocalOperator::reload() {
  const auto now = Clock::now();
  std::string error;
  const auto text = read_file(arguments_.file, error);
  if (text) present_at_ = now;
  if (!text && now - present_at_ < kMissingIsNews) return;
  if (text == text_ && (text || !invalid_.empty())) return;
  text_ = text;
  pass_due_ = now;
  const ParsedCluster parsed = parse_relay_cluster_yaml(text.value_or(""));
  const std::string before = std::exchange(invalid_, "");
  if (!text) {
    invalid_ = error;
  } else if (!parsed.cluster) {
    invalid_ = describe(parsed);
  } else if (parsed.cluster->name != cluster_.name) {
    invalid_ = "metadata.name: must stay " + cluster_.name + ", not " + parsed.cluster->name;
  } else {
    accept(*text, *parsed.cluster);
    return;
  }
  if (invalid_ != before) {
    print_event({Event::Type::kWarning, "InvalidSpec", "",
                 invalid_ + "; the last valid spec stays in force"});
  }
}

void LocalOperator::pass() {
  const PassResult result = reconciler_->run(cluster_, invalid_);
  if (result.error != reported_error_ && !result.error.empty()) {
    print_event({Event::Type::kWarning, "PassFailed", "", result.error});
  }
  reported_error_ = result.error;
  pass_due_ = Clock::now() + std::min<std::chrono::milliseconds>(result.after, kLookAgain);
}

// Until something is to be done; false when a signal asks to stop.
bool LocalOperator::wait() {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(pass_due_ - Clock::now());
  pollfd entries[] = {{signals_.get(), POLLIN, 0},
                      {news_.get(), POLLIN, 0},
                      {watch_ ? watch_->fd() : -1, POLLIN, 0}};
  ::poll(entries, std::size(entries),
         static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000)));
  if (entries[0].revents != 0) return false;
  eventfd_t count = 0;
  if (::eventfd_read(news_.get(), &count) == 0) pass_due_ = Clock::now();
  if (watch_) watch_->take();
  return true;
}

void LocalOperator::announce() const {
  const std::string listen = state_->record()->listen;
  const RelayPorts ports;
  std::string text =
      "cluster " + cluster_.name + ": agents dial " + listen + ":" + std::to_string(ports.agents);
  if (cluster_.spec.visitors.http) {
    text += ", visitors http://<name>." + cluster_.spec.visitors.domain + ":" +
            std::to_string(ports.http) + " at " + listen;
  }
  text += "; CA " + (state_->folder() / "ca.pem").string();
  print_event({Event::Type::kNormal, "Serving", "", text});
}

int LocalOperator::run() {
  std::string error;
  state_ = ClusterState::open(arguments_.state, error);
  if (!state_) return refuse(error);
  if (const auto wrong = first_cluster()) return refuse(*wrong);
  if (const auto wrong = settle_record()) return refuse(*wrong);
  if (const auto wrong = open()) return refuse(*wrong);
  accept(invalid_.empty() ? *text_ : *state_->last_good(), cluster_);
  watch_ = FileWatch::open(arguments_.file, error);
  if (!watch_) print_event({Event::Type::kWarning, "FileNotWatched", "", error + "; polling it"});
  present_at_ = Clock::now();
  announce();
  do {
    reload();
    forwarder_->check(Clock::now());
    if (Clock::now() >= pass_due_) pass();
  } while (wait());
  print_event({Event::Type::kNormal, "Stopped", "",
               "replicas and forwarder go on; to take them over: fairlead-operator local -f " +
                   arguments_.file.string() +
                   "; to bring them down: fairlead-operator local down -f " +
                   arguments_.file.string()});
  return 0;
}

int LocalOperator::take_down(std::optional<std::chrono::seconds> limit) {
  std::error_code ec;
  if (!std::filesystem::exists(arguments_.state, ec)) {
    std::cout << log_line("nothing runs from " + arguments_.state.string()) << std::endl;
    return 0;
  }
  std::string error;
  state_ = ClusterState::open(arguments_.state, error);
  if (!state_) return refuse(error);
  const ParsedCluster last = parse_relay_cluster_yaml(state_->last_good().value_or(""));
  if (state_->record() && last.cluster) {
    if (const auto wrong = open()) return refuse(*wrong);
    cluster_ = *last.cluster;
    cluster_.uid = state_->record()->uid;
    cluster_.generation = state_->record()->generation;
    cluster_.spec.replicas = 0;
    cluster_.spec.rollout.paused = false;
    cluster_.spec.drain.timeout =
        std::min(limit.value_or(cluster_.spec.drain.timeout), cluster_.spec.drain.timeout);
    backend_->set_spec(cluster_.spec);
    do {
      forwarder_->check(Clock::now());
      if (Clock::now() >= pass_due_) pass();
      if (!backend_->empty()) continue;
      forwarder_->stop();
      backend_.reset();
      break;
    } while (wait());
    if (backend_) {
      std::cerr << "fairlead-operator: interrupted; what is left goes on. Repeat the command.\n";
      return 1;
    }
  }
  std::filesystem::remove(status_file(arguments_.file), ec);
  std::filesystem::remove_all(arguments_.state, ec);
  if (ec) {
    std::cerr << "fairlead-operator: cannot remove " << arguments_.state << ": " << ec.message()
              << "\n";
    return 1;
  }
  print_event({Event::Type::kNormal, "Down", "", "no process and no state is left"});
  return 0;
}

std::string describe(const ReplicaRecord& record) {
  std::string text = record.name + "  " + record.address + "  " + record.image + "  ";
  if (record.ended_at) return text + "ended, " + record.ended_how;
  if (!record.process || !is_alive(*record.process)) return text + "not running";
  text += "process " + std::to_string(record.process->pid);
  if (record.deletion_requested) return text + ", ending";
  if (record.drain) return text + ", draining (" + record.drain->reason + ")";
  return text + (record.mesh_gate.value_or(false) ? ", serving" : ", joining");
}

}  // namespace

std::filesystem::path default_state(const std::filesystem::path& file) {
  return file.string() + ".state";
}

std::filesystem::path status_file(const std::filesystem::path& file) {
  return file.string() + ".status.yaml";
}

int run_local(const LocalArguments& arguments) {
  return LocalOperator(arguments).run();
}

int take_local_down(const LocalArguments& arguments, std::optional<std::chrono::seconds> limit) {
  return LocalOperator(arguments).take_down(limit);
}

int print_local_status(const LocalArguments& arguments) {
  std::string error;
  const auto status = read_file(status_file(arguments.file), error);
  std::cout << (status ? *status : "no status: " + error + "\n") << "\nreplicas:\n";
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(arguments.state / "replicas", ec)) {
    const auto text = read_file(entry.path() / "record.json", error);
    const auto record = text ? parse_replica_record(*text, error) : std::nullopt;
    if (record) std::cout << "  " << describe(*record) << "\n";
  }
  return status ? 0 : 1;
}

}  // namespace fairlead::op
