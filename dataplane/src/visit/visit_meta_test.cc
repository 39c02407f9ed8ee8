#include "visit/visit_meta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fairlead/control.pb.h"
#include "fairlead/link/connection.h"

namespace fairlead::dataplane {
namespace {

using ::testing::HasSubstr;

VisitOpen sample() {
  return {.id = *VisitId::from_bytes("0123456789abcdef"),
          .secret = std::string(32, 's'),
          .attempt = 1,
          .hold = std::chrono::seconds(40),
          .kind = "tcp",
          .tenant = "acme",
          .service = "db",
          .agent_id = "acme/db@host",
          .instance = std::string(16, '\xff'),
          .visitor = "1.2.3.4:5678",
          .edge = "main-0"};
}

control::v1::Open wire_sample() {
  control::v1::Open message;
  const link::Slice slice = encode_open(sample());
  EXPECT_TRUE(message.ParseFromString(std::string(slice.text())));
  return message;
}

std::string refusal(const control::v1::Open& message) {
  std::string error;
  const auto open = parse_open(link::as_bytes(message.SerializeAsString()), error);
  EXPECT_FALSE(open.has_value());
  return error;
}

TEST(VisitMeta, EveryPurposeIsReadBack) {
  std::string error;
  EXPECT_EQ(parse_open(encode_open(sample()).bytes(), error), OpenMeta(sample()));
  EXPECT_EQ(parse_open(encode_open(AgentControlOpen{}).bytes(), error),
            OpenMeta(AgentControlOpen{}));
  EXPECT_EQ(parse_open(encode_open(PeerControlOpen{"boot"}).bytes(), error),
            OpenMeta(PeerControlOpen{"boot"}));
  EXPECT_EQ(error, "");
}

TEST(VisitMeta, TheLargestVisitFits) {
  VisitOpen open = sample();
  open.kind = "http";
  open.tenant.assign(kMaxTenant, 't');
  open.service.assign(kMaxService, 's');
  open.agent_id.assign(kMaxAgentId, 'a');
  open.visitor.assign(kMaxVisitor, 'v');
  open.edge.assign(kMaxEdge, 'e');
  open.attempt = 0xffffffff;
  open.hold = kMaxHold;
  const link::Slice slice = encode_open(open);
  EXPECT_LE(slice.size(), link::kMaxMeta);
  std::string error;
  EXPECT_EQ(parse_open(slice.bytes(), error), OpenMeta(open)) << error;
}

TEST(VisitMeta, SaysWhatIsWrong) {
  struct Row {
    const char* name;
    void (*spoil)(control::v1::Visit&);
    const char* error;
  };
  const Row rows[] = {
      {"id", [](auto& v) { v.set_id("short"); }, "visit.id has 5 bytes; it must have 16"},
      {"secret", [](auto& v) { v.set_secret("x"); }, "visit.secret has 1 bytes; it must have 32"},
      {"resume",
       [](auto& v) {
         v.clear_secret();
         v.set_proof(std::string(32, 'p'));
       },
       "does not resume"},
      {"attempt", [](auto& v) { v.set_attempt(0); }, "attempts count from 1"},
      {"hold short", [](auto& v) { v.set_hold_ms(29'999); },
       "hold_ms is 29999; it must be 30000 to 600000"},
      {"hold long", [](auto& v) { v.set_hold_ms(600'001); }, "hold_ms is 600001"},
      {"kind", [](auto& v) { v.set_kind("udp"); }, "visit.kind is \"udp\""},
      {"kind empty", [](auto& v) { v.set_kind(""); }, "visit.kind is empty"},
      {"kind forged", [](auto& v) { v.set_kind("a\nb"); }, "control character"},
      {"tenant", [](auto& v) { v.clear_tenant(); }, "visit.tenant is empty"},
      {"service", [](auto& v) { v.set_service(std::string(254, 's')); },
       "visit.service has 254 bytes; at most 253"},
      {"agent", [](auto& v) { v.set_agent_id(std::string(513, 's')); }, "visit.agent_id has 513"},
      {"instance", [](auto& v) { v.set_instance(""); }, "visit.instance has 0 bytes"},
      {"visitor", [](auto& v) { v.set_visitor("1.2.3.4\n"); },
       "visit.visitor has a control character"},
      {"edge", [](auto& v) { v.set_edge(std::string(300, 'e')); }, "visit.edge has 300"},
  };
  for (const Row& row : rows) {
    control::v1::Open message = wire_sample();
    row.spoil(*message.mutable_visit());
    EXPECT_THAT(refusal(message), HasSubstr(row.error)) << row.name;
  }
}

TEST(VisitMeta, RefusesWhatIsNoPurpose) {
  std::string error;
  EXPECT_FALSE(parse_open(link::as_bytes("GET / HTTP/1.1"), error));
  EXPECT_THAT(error, HasSubstr("not an Open message"));
  EXPECT_FALSE(parse_open({}, error));
  EXPECT_THAT(error, HasSubstr("names no purpose"));
  control::v1::Open peer;
  peer.mutable_peer_control();
  EXPECT_THAT(refusal(peer), HasSubstr("boot_id is empty"));
}

TEST(VisitMeta, AcceptOfAStart) {
  std::string error;
  const VisitAccept accept{.hold = std::chrono::seconds(45)};
  EXPECT_EQ(parse_accept(encode_accept(accept).bytes(), error), accept);
  EXPECT_FALSE(parse_accept(link::as_bytes("\x08"), error));
  EXPECT_THAT(error, HasSubstr("not a VisitAccept"));
  EXPECT_FALSE(parse_accept(encode_accept({.received = 7}).bytes(), error));
  EXPECT_THAT(error, HasSubstr("resumes a visit"));
  EXPECT_FALSE(parse_accept(encode_accept({.hold = std::chrono::seconds(1)}).bytes(), error));
  EXPECT_THAT(error, HasSubstr("hold_ms is 1000"));
}

}  // namespace
}  // namespace fairlead::dataplane
