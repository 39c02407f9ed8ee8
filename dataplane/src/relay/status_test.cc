#include "status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fairlead::dataplane {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RelayStatus example() {
  RelayStatus status;
  status.name = "demo-1-0-1";
  status.state = "active";
  status.ready = true;
  VisitCounters& tcp = status.counters["tcp"];
  tcp.opened_local["echo"] = 3;
  tcp.opened_forwarded["echo"] = 2;
  tcp.finished = 1;
  tcp.lost["agent_lost"] = 1;
  tcp.live = 3;
  status.visits.push_back({.id = "00ff",
                           .kind = "tcp",
                           .service = "<b>\"echo\"",
                           .edge = "a",
                           .home = "b",
                           .visitor = "127.0.0.1:9"});
  return status;
}

TEST(Status, MetricsHaveTheContractedNamesAndLabels) {
  const std::string text = to_metrics(example());
  EXPECT_THAT(text, HasSubstr("fairlead_relay_visits_opened_total{kind=\"tcp\",service=\"echo\","
                              "path=\"forwarded\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("path=\"local\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("fairlead_relay_visits_lost_total{kind=\"tcp\",cause=\"agent_lost\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("fairlead_relay_drain_state{state=\"none\"} 1\n"));
}

TEST(Status, JsonHoldsTheVisitsAndTheSums) {
  const auto whole = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(whole["counters"]["tcp"]["opened"], 5);
  EXPECT_EQ(whole["counters"]["tcp"]["forwarded"], 2);
  EXPECT_EQ(whole["visits"][0]["home"], "b");
  EXPECT_EQ(whole["drain"]["state"], "none");
}

TEST(Status, JsonSurvivesTextThatIsNotUtf8) {
  RelayStatus status = example();
  status.visits[0].service = "\xff\xfe";
  EXPECT_NO_THROW(nlohmann::json::parse(to_json(status)));
}

TEST(Status, ThePageEscapesWhatOthersChose) {
  const std::string page = to_html(example());
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&quot;echo&quot;"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
}

}  // namespace
}  // namespace fairlead::dataplane
