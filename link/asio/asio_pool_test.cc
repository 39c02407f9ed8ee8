#include "link/asio/asio_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "link/asio/testing_rig.h"

namespace fairlead::link {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class News : public PoolHandler {
 public:
  void on_event(LinkSocket& link, Event&& event) override {
    if (on) on(link, event);
  }
  void on_news(const PoolAction& news) override {
    if (std::holds_alternative<action::Up>(news)) {
      ++ups;
      if (on_up) on_up();
    }
    if (std::holds_alternative<action::Draining>(news)) ++draining;
    if (auto* down = std::get_if<action::Down>(&news)) downs.push_back(*down);
    if (auto* failed = std::get_if<action::DialFailed>(&news)) failures.push_back(failed->cause);
  }
  std::function<void(LinkSocket&, Event&)> on;
  std::function<void()> on_up;
  int ups = 0, draining = 0;
  std::vector<action::Down> downs;
  std::vector<std::string> failures;
};

class AsioPoolTest : public testing::AsioTest {
 protected:
  void start(std::uint32_t size, DialOptions options) {
    AsioPoolOptions pool_options;
    pool_options.dial = std::move(options);
    pool_options.pool.size = size;
    pool_options.pool.backoff_first = milliseconds(20);
    pool_options.pool.backoff_max = milliseconds(100);
    pool_options.seed = 1;
    pool_ = AsioPool::create(io_, pool_options, &news_);
    pool_->start();
  }
  void start(std::uint32_t size) {
    listen();
    start(size, dial_options());
    ASSERT_TRUE(run_until([&] { return pool_->links_up() == size; }));
  }

  News news_;
  std::shared_ptr<AsioPool> pool_;
};

TEST_F(AsioPoolTest, SessionsSpreadOverTheLinks) {
  start(4);
  EXPECT_EQ(news_.ups, 4);
  std::map<LinkSocket*, int> spread;
  for (int n = 0; n < 40; ++n) {
    const auto opened = pool_->open({});
    ASSERT_TRUE(opened.link);
    ++spread[opened.link.get()];
  }
  EXPECT_THAT(spread, SizeIs(4));
  for (const auto& [link, count] : spread) EXPECT_EQ(count, 10);
}

TEST_F(AsioPoolTest, FullLinkIsPassedOver) {
  listen();
  DialOptions options = dial_options();
  start(2, options);
  ASSERT_TRUE(run_until([&] { return pool_->links_up() == 2; }));
  std::size_t opened = 0;
  while (pool_->open({}).link) ++opened;
  EXPECT_EQ(pool_->open({}).error, OpenError::kExhausted);
  EXPECT_EQ(opened, 2048u) << "both links were filled to the peer's limit";
}

TEST_F(AsioPoolTest, CutLinkIsRedialled) {
  start(2);
  served_links_[0]->abort("pulled");
  ASSERT_TRUE(run_until([&] { return !news_.downs.empty() && pool_->links_up() == 2; }));
  EXPECT_THAT(news_.downs[0].cause, HasSubstr("reset by peer"));
  EXPECT_FALSE(news_.downs[0].clean);
  EXPECT_EQ(news_.ups, 3);
}

TEST_F(AsioPoolTest, PeerThatComesLateIsFound) {
  listen();
  DialOptions options = dial_options();
  const auto endpoint = listener_->endpoint();
  listener_->close();
  start(1, options);
  ASSERT_TRUE(run_until([&] { return news_.failures.size() >= 3; }));
  EXPECT_THAT(news_.failures, Each(HasSubstr("Connection refused")));
  EXPECT_FALSE(pool_->open({}).link);
  ListenOptions again = listen_options();
  again.endpoint = endpoint;
  listen(again);
  EXPECT_TRUE(run_until([&] { return pool_->links_up() == 1; }));
}

// The server refuses our certificate after our handshake is done: a failed dial with its words.
TEST_F(AsioPoolTest, RefusedCertificateIsAFailedDial) {
  ListenOptions options = listen_options();
  options.policy = {ClientCertificate::kRequired, require_uri("fairlead://c/r1")};
  listen(options);
  start(1, dial_options());
  ASSERT_TRUE(run_until([&] { return news_.failures.size() >= 2; }));
  EXPECT_THAT(news_.failures[0], HasSubstr("does not accept this side's certificate"));
  EXPECT_EQ(news_.ups, 0);
}

// Short visits over the pool: each says its number, gets it back and is done. What a goaway
// excluded is opened again, what no link takes waits for the next one.
class GoawayTest : public AsioPoolTest {
 protected:
  struct Visit {
    std::string got;
    bool done = false;
  };

  GoawayTest() {
    news_.on = [this](LinkSocket& link, Event& event) { on_event(link, event); };
    news_.on_up = [this] {
      for (const std::size_t visit : std::exchange(waiting_, {})) open(visit);
    };
  }

  void visit() {
    visits_.emplace_back();
    open(visits_.size() - 1);
  }

  // The peer says goaway on every link that has none yet.
  void roll_all() {
    for (; rolled_ < served_links_.size(); ++rolled_) {
      LinkSocket& link = *served_links_[rolled_];
      link.connection().goaway(GoawayReason::kRoll, seconds(5), "roll", LinkSocket::now());
      link.wake();
    }
  }
  // The peer closes its rolled links that are empty.
  void close_drained() {
    for (std::size_t n = 0; n < rolled_; ++n) {
      LinkSocket& old = *served_links_[n];
      if (served_[n]->cut || old.connection().session_count() > 0) continue;
      old.connection().close(code::kOk, "drained", LinkSocket::now());
      old.wake();
    }
  }
  void visit_for(Duration time) {
    const Instant end = LinkSocket::now() + time;
    while (LinkSocket::now() < end) {
      for (int n = 0; n < 5; ++n) visit();
      run_for(milliseconds(5));
    }
  }

  std::vector<Visit> visits_;
  std::vector<std::size_t> waiting_;
  int reopened_ = 0;
  int cut_ = 0;
  std::size_t rolled_ = 0;

 private:
  void open(std::size_t visit) {
    const auto opened = pool_->open({});
    if (!opened.link) return waiting_.push_back(visit);
    live_[{opened.link.get(), opened.id}] = visit;
    opened.link->connection().write(opened.id, Slice::copy_of("visit " + std::to_string(visit)));
    opened.link->connection().finish(opened.id);
    opened.link->wake();
  }
  std::size_t release(LinkSocket& link, SessionId id) {
    const std::size_t visit = live_.at({&link, id});
    live_.erase({&link, id});
    link.connection().release(id, LinkSocket::now());
    return visit;
  }
  void on_event(LinkSocket& link, Event& event) {
    if (auto* data = std::get_if<event::Data>(&event)) {
      visits_[live_.at({&link, data->id})].got += data->bytes.text();
      link.connection().consume(data->id, data->bytes.size(), LinkSocket::now());
    } else if (auto* end = std::get_if<event::Finished>(&event)) {
      visits_[live_.at({&link, end->id})].done = true;
    } else if (auto* retired = std::get_if<event::Retired>(&event)) {
      release(link, retired->id);
    } else if (auto* refused = std::get_if<event::NotProcessed>(&event)) {
      ++reopened_;
      open(release(link, refused->id));
    } else if (auto* lost = std::get_if<event::SessionCut>(&event)) {
      ++cut_;
      release(link, lost->id);
    }
  }

  std::map<std::pair<LinkSocket*, SessionId>, std::size_t> live_;
};

// Visits come all the time while the peer rolls both links at once, twice.
TEST_F(GoawayTest, LosesNoOpen) {
  start(2);
  for (int round = 0; round < 2; ++round) {
    visit_for(milliseconds(1200));  // a link that stood for less would be redialled after a pause
    roll_all();
    // An open between any two handlers: some cross the goaway's second phase.
    for (int n = 0; n < 60; ++n) {
      visit();
      io_.poll_one();
    }
    visit_for(milliseconds(300));
    close_drained();
  }
  EXPECT_TRUE(run_until([&] {
    return std::all_of(visits_.begin(), visits_.end(), [](const Visit& each) { return each.done; });
  }));
  for (std::size_t n = 0; n < visits_.size(); ++n) {
    ASSERT_EQ(visits_[n].got, "visit " + std::to_string(n));
  }
  EXPECT_EQ(cut_, 0);
  EXPECT_EQ(rolled_, 4u);
  EXPECT_EQ(news_.draining, 4);
  EXPECT_TRUE(run_until([&] { return news_.downs.size() == 4; })) << news_.downs.size();
  for (const auto& down : news_.downs) EXPECT_TRUE(down.clean) << down.cause;
  EXPECT_EQ(pool_->links_up(), 2u);
  EXPECT_GT(reopened_, 0) << "no open crossed a goaway: the test shows less than it should";
}

TEST_F(AsioPoolTest, LeaveIsNotRedialled) {
  start(2);
  for (const auto& link : served_links_) {
    link->connection().goaway(GoawayReason::kLeave, seconds(1), "leaving", LinkSocket::now());
    link->wake();
  }
  ASSERT_TRUE(run_until([&] { return news_.draining == 2; }));
  run_for(milliseconds(300));
  EXPECT_EQ(pool_->links_up(), 0u);
  EXPECT_EQ(news_.ups, 2);
}

TEST_F(AsioPoolTest, StopClosesInOrder) {
  start(3);
  pool_->stop();
  ASSERT_TRUE(run_until([&] {
    return std::all_of(served_.begin(), served_.end(),
                       [](const auto& each) { return each->socket_closed; });
  }));
  for (const auto& each : served_) EXPECT_EQ(each->cut->kind, CutKind::kPeerClosed);
  EXPECT_THAT(news_.downs, SizeIs(3));
  run_for(milliseconds(200));
  EXPECT_EQ(news_.ups, 3) << "nothing is dialled after stop()";
  EXPECT_FALSE(pool_->open({}).link);
}

TEST_F(AsioPoolTest, StopDuringDialsLeavesNothingBehind) {
  listen();
  start(4, dial_options());
  run_for(milliseconds(3));
  pool_->stop();
  run_for(milliseconds(300));
  EXPECT_EQ(pool_->links_up(), 0u);
  for (const auto& each : served_) EXPECT_TRUE(each->cut);
}

TEST_F(AsioPoolTest, DroppedPoolCutsItsLinksWithoutACall) {
  start(2);
  const int ups = news_.ups;
  pool_.reset();
  ASSERT_TRUE(run_until([&] {
    return std::all_of(served_.begin(), served_.end(),
                       [](const auto& each) { return each->cut.has_value(); });
  }));
  EXPECT_EQ(news_.ups, ups);
  EXPECT_THAT(news_.downs, IsEmpty());
}

TEST_F(AsioPoolTest, NewTargetIsUsedByTheNextDial) {
  start(1);
  const auto old = listener_;
  listen();
  pool_->set_target("127.0.0.1", std::to_string(listener_->endpoint().port()));
  old->close();
  served_links_[0]->abort("moved");
  ASSERT_TRUE(run_until([&] { return news_.ups == 2; }));
  EXPECT_EQ(pool_->links()[0]->remote(), listener_->endpoint());
}

}  // namespace
}  // namespace fairlead::link
