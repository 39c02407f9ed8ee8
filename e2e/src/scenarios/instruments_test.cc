// The instruments of the scenarios, each shown both results that it has to tell apart.
#include <gtest/gtest.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <thread>

#include "../upstream/upstream.h"
#include "probe.h"
#include "wire_tap.h"

namespace fairlead::e2e {
namespace {

using boost::system::error_code;
using std::chrono::milliseconds;

const auto kLoopback = asio::ip::make_address("127.0.0.1");

template <typename Condition>
bool soon(Condition condition) {
  for (const auto end = Clock::now() + std::chrono::seconds(5); Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return false;
}

class TapTest : public ::testing::Test {
 protected:
  TapTest() : acceptor_(listen_on(io_.get_executor(), {kLoopback, 0})) {
    tap_ = std::make_unique<WireTap>(acceptor_.local_endpoint());
    dialer_.connect(tap_->address());
    listener_ = acceptor_.accept();
  }

  void give(tcp::socket& from, tcp::socket& to) {
    char byte = 'x';
    asio::write(from, asio::buffer(&byte, 1));
    asio::read(to, asio::buffer(&byte, 1));
  }

  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  std::unique_ptr<WireTap> tap_;
  tcp::socket dialer_{io_};
  tcp::socket listener_{io_};
};

TEST_F(TapTest, TimeFromTheLastByteGivenToTheCloseOfTheSameEnd) {
  for (const bool by_reset : {false, true}) {
    SCOPED_TRACE(by_reset);
    give(listener_, dialer_);
    std::this_thread::sleep_for(milliseconds(100));
    give(dialer_, listener_);  // what the end itself sends is no sign of life to it
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_FALSE(tap_->record(WireTap::End::kDialer).closed_at);
    if (by_reset) reset_on_close(dialer_);
    dialer_.close();
    ASSERT_TRUE(soon([&] { return tap_->record(WireTap::End::kDialer).closed_at.has_value(); }));
    const auto record = tap_->record(WireTap::End::kDialer);
    const auto took = *record.closed_at - record.last_given;
    EXPECT_GE(took, milliseconds(200));
    EXPECT_LT(took, milliseconds(900));
    EXPECT_FALSE(tap_->record(WireTap::End::kListener).closed_at);
    dialer_.connect(tap_->address());
    listener_ = acceptor_.accept();
    EXPECT_TRUE(soon([&] { return tap_->record(WireTap::End::kDialer).connections >= 2; }));
  }
}

TEST_F(TapTest, APinnedConnectionIsToldOfAfterANewOne) {
  give(listener_, dialer_);
  tap_->pin();
  dialer_.close();
  ASSERT_TRUE(soon([&] { return tap_->record(WireTap::End::kDialer).closed_at.has_value(); }));
  dialer_.connect(tap_->address());
  listener_ = acceptor_.accept();
  give(listener_, dialer_);
  EXPECT_TRUE(tap_->record(WireTap::End::kDialer).closed_at.has_value());
}

TEST_F(TapTest, AResetStaysAReset) {
  reset_on_close(listener_);
  listener_.close();
  char byte = 0;
  error_code error;
  dialer_.read_some(asio::buffer(&byte, 1), error);
  EXPECT_EQ(cause_of(error), "reset");
}

class ProbeTest : public ::testing::Test {
 protected:
  ProbeTest() : thread_([this] { io_.run(); }) {}
  ~ProbeTest() override {
    io_.stop();
    thread_.join();
  }

  ProbeEnd run(Probe::Options options) {
    Probe& probe = probes_.open(std::move(options));
    EXPECT_TRUE(soon([&] { return probe.ended(); }));
    return probe.end();
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Upstream upstream_{io_.get_executor(), kLoopback, {}};
  std::thread thread_;
  Probes probes_;
};

TEST_F(ProbeTest, AWholeChunkedBodyIsSeenAsSuch) {
  const auto end = run({{kLoopback, upstream_.ports().http},
                        "GET /chunked?size=5000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"});
  EXPECT_EQ(end.how, "fin");
  EXPECT_TRUE(end.last_chunk);
}

TEST_F(ProbeTest, AWholeFileEndsWithFin) {
  const auto end = run({{kLoopback, upstream_.ports().file}, "GET 50000 1\n"});
  EXPECT_EQ(end.how, "fin");
  EXPECT_EQ(end.received, 50'000U);
  EXPECT_FALSE(end.last_chunk);
}

TEST_F(ProbeTest, AnUploadGoesOnUntilItIsReset) {
  tcp::acceptor acceptor = listen_on(io_.get_executor(), {kLoopback, 0});
  Probe& probe = probes_.open({acceptor.local_endpoint(), "PUT 1\n", true});
  tcp::socket server = acceptor.accept();
  EXPECT_TRUE(soon([&] { return probe.moved() > 20'000; }));
  EXPECT_FALSE(probe.ended());
  reset_on_close(server);
  server.close();
  ASSERT_TRUE(soon([&] { return probe.ended(); }));
  EXPECT_EQ(probe.end().how, "reset");
}

}  // namespace
}  // namespace fairlead::e2e
