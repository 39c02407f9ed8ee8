#include <gtest/gtest.h>

#include "cluster.h"

namespace fairlead::e2e {
namespace {

constexpr char kPage[] =
    "# TYPE visits_opened_total counter\n"
    "visits_opened_total{kind=\"tcp\",service=\"echo\",path=\"local\"} 12\n"
    "visits_opened_total{kind=\"tcp\",service=\"echo\",path=\"forwarded\"} 4.5\n"
    "visits_opened_total_more{kind=\"tcp\"} 99\n"
    "plain 7\n";

TEST(Metrics, FamilyIsTakenWhole) {
  const auto samples = parse_metric(kPage, "visits_opened_total");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples.at("kind=\"tcp\",service=\"echo\",path=\"forwarded\""), 4.5);
  EXPECT_EQ(parse_metric(kPage, "plain").at(""), 7);
  EXPECT_TRUE(parse_metric(kPage, "visits").empty());
}

TEST(Metrics, LabelByItsWholeName) {
  EXPECT_EQ(label("xkind=\"no\",kind=\"tcp\",path=\"local\"", "kind"), "tcp");
  EXPECT_EQ(label("kind=\"tcp\"", "path"), "");
}

}  // namespace
}  // namespace fairlead::e2e
