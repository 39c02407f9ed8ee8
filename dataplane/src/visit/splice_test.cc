#include "visit/splice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "visit/testing_link.h"

namespace fairlead::dataplane {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace event = link::event;
using Side = Splice::Side;

constexpr link::SessionId kIn = 1;
constexpr link::SessionId kOut = 2;

class SpliceTest : public ::testing::Test {
 protected:
  static testing::RecordingPort port(std::uint64_t limit, std::uint32_t rtt) {
    testing::RecordingPort made;
    made.limit = limit;
    made.rtt = rtt;
    return made;
  }
  void inbound(const link::Event& event) { splice.on_event(Side::kInbound, event, now); }
  void outbound(const link::Event& event) { splice.on_event(Side::kOutbound, event, now); }
  static link::Slice text(const char* words) { return link::Slice::copy_of(words); }

  link::Instant now{std::chrono::hours(1)};
  testing::RecordingPort in = port(50'000, 300);
  testing::RecordingPort out = port(20'000, 4000);
  Splice splice{{&in, kIn}, {&out, kOut}, now};
};

TEST_F(SpliceTest, TheRequestCarriesTheVisitOn) {
  const event::Opened opened{kIn, text("meta"), link::Priority::kBulk, 9, true, 70};
  const link::OpenRequest request = relay_request(opened, {&in, kIn});
  EXPECT_EQ(request.meta.text(), "meta");
  EXPECT_EQ(request.priority, link::Priority::kBulk);
  EXPECT_EQ(request.weight, 9);
  EXPECT_TRUE(request.visit);
  EXPECT_EQ(request.path_rtt_us, 370u);
  EXPECT_EQ(request.credit_cap, 50'000u);
}

TEST_F(SpliceTest, BytesFinAndAcceptPass) {
  EXPECT_THAT(in.take(), ElementsAre("1 credit 20000 0")) << "before anything else";
  inbound(event::Data{kIn, text("abc")});
  outbound(event::Accepted{kOut, text("yes"), 11});
  outbound(event::Data{kOut, text("defg")});
  inbound(event::Finished{kIn});
  outbound(event::Finished{kOut});
  EXPECT_THAT(out.take(), ElementsAre("2 write abc", "2 finish"));
  EXPECT_THAT(in.take(), ElementsAre("1 accept rtt 4011 cap 20000", "1 write defg", "1 finish"));
  EXPECT_EQ(in.accepted.text(), "yes");
  EXPECT_EQ(splice.bytes_from(Side::kInbound), 3u);
  EXPECT_EQ(splice.bytes_from(Side::kOutbound), 4u);
}

TEST_F(SpliceTest, InboundCreditReturnsWhenBytesReachedTheOtherTransport) {
  in.take();
  inbound(event::Data{kIn, text("abcdef")});
  EXPECT_THAT(in.take(), IsEmpty());
  outbound(event::Sent{kOut, 4});
  outbound(event::Sent{kOut, 4});
  outbound(event::Sent{kOut, 6});
  EXPECT_THAT(in.take(), ElementsAre("1 consume 4", "1 consume 2"));
  outbound(event::Credit{kOut, 99'000, 6});
  EXPECT_THAT(in.take(), ElementsAre("1 credit 99000 6")) << "end to end, unchanged";
}

TEST_F(SpliceTest, ResetAndStopPassUnchanged) {
  in.take();
  outbound(event::Reset{kOut, 300, false});
  outbound(event::Stopped{kOut, 300});
  EXPECT_THAT(in.take(), ElementsAre("1 reset 300", "1 stop 300"));
  EXPECT_FALSE(splice.done());
  inbound(event::Retired{kIn});
  outbound(event::Retired{kOut});
  EXPECT_THAT(in.take(), ElementsAre("1 release 0"));
  EXPECT_THAT(out.take(), ElementsAre("2 release 0"));
  EXPECT_TRUE(splice.done());
}

TEST_F(SpliceTest, ALostSideResetsTheOtherAtOnceAndNeverFinishes) {
  for (const Side lost : {Side::kInbound, Side::kOutbound}) {
    testing::RecordingPort a, b;
    Splice each({&a, kIn}, {&b, kOut}, now);
    each.on_event(Side::kInbound, event::Finished{kIn}, now);
    a.take();
    b.take();
    each.on_event(lost, event::SessionCut{lost == Side::kInbound ? kIn : kOut}, now);
    EXPECT_THAT(a.take(), ElementsAre("1 release 10"));
    EXPECT_THAT(b.take(), ElementsAre("2 release 10"));
    EXPECT_TRUE(each.done());
    each.on_event(Side::kOutbound, event::Data{kOut, text("late")}, now);
    each.on_event(Side::kInbound, event::Data{kIn, text("late")}, now);
    EXPECT_THAT(a.take(), IsEmpty());
    EXPECT_THAT(b.take(), IsEmpty());
  }
}

TEST_F(SpliceTest, TheDrainDeadlineIsALostPathNotATimeout) {
  in.take();
  splice.drop(now);
  EXPECT_THAT(in.take(), ElementsAre("1 release 10"));
  EXPECT_THAT(out.take(), ElementsAre("2 release 10"));
  EXPECT_TRUE(splice.done());
}

TEST_F(SpliceTest, NotProcessedIsAnsweredSoThatTheVisitMayGoElsewhere) {
  in.take();
  outbound(event::NotProcessed{kOut});
  EXPECT_THAT(in.take(), ElementsAre("1 release 4"));
  EXPECT_TRUE(splice.done());
}

TEST_F(SpliceTest, OneSideMayRetireBeforeTheOther) {
  in.take();
  outbound(event::Reset{kOut, 300, false});
  outbound(event::Stopped{kOut, 300});
  outbound(event::Retired{kOut});
  EXPECT_THAT(out.take(), ElementsAre("2 release 0"));
  in.take();
  inbound(event::Data{kIn, text("crossed")});
  inbound(event::Credit{kIn, 60'000, 0});
  inbound(event::SessionCut{kIn});
  EXPECT_THAT(in.take(), ElementsAre("1 release 10"));
  EXPECT_THAT(out.take(), IsEmpty());
  EXPECT_TRUE(splice.done());
}

}  // namespace
}  // namespace fairlead::dataplane
