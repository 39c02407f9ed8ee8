#include "tally.h"

#include <gtest/gtest.h>

namespace fairlead::e2e {
namespace {

TEST(Tally, OpenedIsFinishedPlusLostPlusLive) {
  Tally tally;
  const VisitId a = tally.open(Kind::kTcp);
  const VisitId b = tally.open(Kind::kTcp);
  tally.open(Kind::kTcp);
  tally.connected(b, "127.0.0.1:9");
  tally.finish(a);
  tally.lose(b, "reset");
  const Counts counts = tally.counts(Kind::kTcp);
  EXPECT_EQ(counts.opened, 3U);
  EXPECT_EQ(counts.finished, 1U);
  EXPECT_EQ(counts.lost, 1U);
  EXPECT_EQ(counts.live, 1U);
  EXPECT_EQ(counts.lost_by_cause.at("reset"), 1U);
  ASSERT_EQ(tally.lost().size(), 1U);
  EXPECT_EQ(tally.lost()[0].visitor, "127.0.0.1:9");
  EXPECT_EQ(tally.broken(), "");
  EXPECT_EQ(tally.counts(Kind::kDownload).opened, 0U);
}

TEST(Tally, AVisitThatEndsTwiceIsReported) {
  Tally tally;
  const VisitId a = tally.open(Kind::kHttp);
  tally.finish(a);
  tally.lose(a, "reset");
  EXPECT_EQ(tally.broken(), "visit 1 ended twice");
}

}  // namespace
}  // namespace fairlead::e2e
