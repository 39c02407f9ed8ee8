#include "mesh/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fairlead/control.pb.h"

namespace fairlead::dataplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Applied = Directory::Applied;

const ServiceName kWeb{"http", "web"};
const std::string kOld(16, 'a');
const std::string kNew(16, 'b');

Registration agent(const std::string& id, const std::string& instance, std::uint64_t generation = 0,
                   const std::string& tenant = "acme") {
  return {tenant, id, instance, generation, {kWeb}};
}

AgentEntry entry(const std::string& id, const std::string& instance, std::uint64_t generation,
                 const std::string& tenant = "acme") {
  return {id, tenant, instance, generation, {kWeb}, false};
}

class DirectoryTest : public ::testing::Test {
 protected:
  DirectoryTest() {
    directory.set_members({"me", "p1", "p2"});
    directory.peer_up("p1");
    directory.peer_up("p2");
  }

  // "+id@gen" and "-id" for what is announced, else the event's name and link.
  std::vector<std::string> events() {
    std::vector<std::string> words;
    while (auto next = directory.poll_event()) {
      if (const auto* announce = std::get_if<directory_event::Announce>(&*next)) {
        std::string word = std::to_string(announce->delta.seq) + ':';
        for (const AgentEntry& each : announce->delta.upsert) {
          word += '+' + each.agent_id + '@' + std::to_string(each.generation) +
                  (each.leaving ? " leaving" : "");
        }
        for (const AgentEntry& each : announce->delta.remove) word += '-' + each.agent_id;
        words.push_back(word);
      } else if (const auto* old = std::get_if<directory_event::Superseded>(&*next)) {
        words.push_back("superseded " + std::to_string(old->link));
      } else if (const auto* evicted = std::get_if<directory_event::Evicted>(&*next)) {
        words.push_back("evicted " + std::to_string(evicted->link));
        text = evicted->text;
      } else {
        words.push_back("changed");
      }
    }
    return words;
  }
  std::uint64_t generation(const RegistrationResult& result) {
    const auto* accepted = std::get_if<RegistrationAccepted>(&result);
    if (accepted == nullptr) {
      ADD_FAILURE() << std::get<RegistrationRefused>(result).text;
      return 0;
    }
    return accepted->generation;
  }
  RegistrationRefused refused(const RegistrationResult& result) {
    const auto* refusal = std::get_if<RegistrationRefused>(&result);
    if (refusal == nullptr) {
      ADD_FAILURE() << "was accepted";
      return {};
    }
    return *refusal;
  }
  // "uid/instance's first letter" of the homes found, "!" when leaving.
  std::vector<std::string> homes(const std::string& tenant = "acme") {
    std::vector<std::string> found;
    for (const Home& home : directory.lookup(tenant, kWeb)) {
      EXPECT_EQ(home.local, home.replica_uid == "me");
      found.push_back(home.replica_uid + '/' + home.instance[0] + (home.leaving ? "!" : ""));
    }
    return found;
  }
  Applied snapshot(const std::string& owner, const std::string& boot, std::uint64_t seq,
                   std::vector<AgentEntry> agents) {
    return directory.apply(owner, DirectorySnapshot{owner, boot, seq, std::move(agents)});
  }
  Applied delta(const std::string& owner, const std::string& boot, std::uint64_t seq,
                std::vector<AgentEntry> upsert, std::vector<AgentEntry> remove = {}) {
    return directory.apply(owner,
                           DirectoryDelta{owner, boot, seq, std::move(upsert), std::move(remove)});
  }

  Directory directory{"me", "boot"};
  std::string text;
};

TEST_F(DirectoryTest, AnAgentIsFoundWhileALinkOfItStands) {
  EXPECT_THAT(homes(), IsEmpty());
  EXPECT_EQ(generation(directory.add(1, agent("a", kOld))), 1u);
  EXPECT_THAT(events(), ElementsAre("1:+a@1", "changed"));
  EXPECT_EQ(generation(directory.add(2, agent("a", kOld))), 1u) << "a second link of the instance";
  EXPECT_THAT(events(), ElementsAre("changed"));
  EXPECT_THAT(homes(), ElementsAre("me/a"));
  EXPECT_THAT(homes("other"), IsEmpty());
  EXPECT_THAT(directory.links("acme", "a", kOld), ElementsAre(1, 2));
  EXPECT_THAT(directory.links("acme", "a", kNew), IsEmpty());
  directory.remove(1);
  EXPECT_THAT(homes(), ElementsAre("me/a"));
  directory.remove(2);
  directory.remove(2);
  EXPECT_THAT(events(), ElementsAre("2:-a"));
  EXPECT_THAT(homes(), IsEmpty());
}

TEST_F(DirectoryTest, LocalFirstThenOthersThenLeaving) {
  AgentEntry leaving = entry("a", kOld, 1);
  leaving.leaving = true;
  directory.set_members({"me", "p1", "p2", "p0"});
  directory.peer_up("p0");
  snapshot("p1", "b", 1, {leaving});
  snapshot("p2", "b", 1, {entry("a", kOld, 1)});
  snapshot("p0", "b", 1, {entry("a", kOld, 1)});
  directory.add(1, agent("a", kOld, 1));
  EXPECT_THAT(homes(), ElementsAre("me/a", "p0/a", "p2/a", "p1/a!"));
  events();
  directory.leave();
  directory.leave();
  EXPECT_THAT(events(), ElementsAre("2:+a@1 leaving"));
  EXPECT_THAT(homes(), ElementsAre("p0/a", "p2/a", "me/a!", "p1/a!"));
}

TEST_F(DirectoryTest, ANewerInstanceReplacesTheOlderAtOnce) {
  directory.add(1, agent("a", kOld));
  directory.add(2, agent("a", kOld));
  events();
  EXPECT_EQ(generation(directory.add(3, agent("a", kNew))), 2u);
  EXPECT_THAT(events(), ElementsAre("2:+a@2", "superseded 1", "superseded 2", "3:-a", "changed"));
  EXPECT_THAT(homes(), ElementsAre("me/b"));
  const auto late = refused(directory.add(4, agent("a", kOld, 1)));
  EXPECT_FALSE(late.retry);
  EXPECT_THAT(late.text, HasSubstr("a newer process of agent a has registered"));
}

TEST_F(DirectoryTest, ANewerInstanceElsewhereReplacesTheOneHere) {
  directory.add(1, agent("a", kOld));
  events();
  snapshot("p1", "b", 1, {entry("a", kNew, 2)});
  EXPECT_THAT(events(), ElementsAre("superseded 1", "2:-a", "changed"));
  EXPECT_THAT(homes(), ElementsAre("p1/b"));
}

TEST_F(DirectoryTest, OfOneGenerationTheLargerInstanceStays) {
  directory.add(1, agent("a", kOld));
  directory.add(2, agent("b2", kNew));  // refused: the name is held
  events();
  snapshot("p1", "b", 1, {entry("a", kNew, 1)});
  EXPECT_THAT(events(), ElementsAre("superseded 1", "2:-a", "changed"));
  directory.add(3, agent("a", kNew, 1));
  events();
  snapshot("p2", "b", 1, {entry("a", kOld, 1)});
  EXPECT_THAT(events(), ElementsAre("changed")) << "the larger one here stays";
  EXPECT_THAT(homes(), ElementsAre("me/b", "p1/b"));
}

TEST_F(DirectoryTest, LinksOfOneInstanceNeverEvictEachOther) {
  snapshot("p1", "b", 1, {entry("a", kOld, 7)});
  EXPECT_EQ(generation(directory.add(1, agent("a", kOld))), 7u) << "first links may race";
  EXPECT_EQ(delta("p1", "b", 2, {entry("a", kOld, 9)}), Applied::kDone);
  EXPECT_THAT(homes(), ElementsAre("me/a", "p1/a"));
  directory.add(2, agent("a", kOld, 9));
  EXPECT_THAT(directory.links("acme", "a", kOld), ElementsAre(1, 2));
}

TEST_F(DirectoryTest, AGenerationIsRememberedWhenTheAgentIsGone) {
  directory.add(1, agent("a", kOld, 41));
  directory.remove(1);
  EXPECT_EQ(generation(directory.add(2, agent("a", kNew))), 42u);
}

TEST_F(DirectoryTest, ANameBelongsToOneAgent) {
  directory.add(1, agent("a", kOld));
  const auto same = refused(directory.add(2, agent("b", kNew)));
  EXPECT_FALSE(same.retry);
  EXPECT_EQ(same.text,
            "http \"web\" is served by agent a: stop that agent, or choose another name");
  const auto other = refused(directory.add(2, agent("b", kNew, 0, "rival")));
  EXPECT_EQ(other.text, "http \"web\" is taken: choose another name") << "names no other tenant";
  EXPECT_EQ(generation(directory.add(2, {"rival", "a", kNew, 0, {{"tcp", "web"}}})), 1u)
      << "another kind, and the same id of another tenant";
}

TEST_F(DirectoryTest, ANameKeptForAnUnreachableHomeMayBeFreeLater) {
  snapshot("p1", "b", 1, {entry("a", kOld, 1)});
  directory.peer_down("p1");
  EXPECT_THAT(homes(), IsEmpty());
  const auto kept = refused(directory.add(1, agent("b", kNew)));
  EXPECT_TRUE(kept.retry);
  EXPECT_THAT(kept.text, HasSubstr("its relay cannot be reached now"));
  directory.set_members({"me", "p2"});
  EXPECT_EQ(generation(directory.add(1, agent("b", kNew))), 1u);
}

TEST_F(DirectoryTest, RivalsAdmittedApartAreSettledTheSameWayOnBothSides) {
  Directory other("p1", "b");
  other.set_members({"me", "p1"});
  other.peer_up("me");
  directory.add(1, agent("b", kOld));
  other.add(1, agent("a", kNew));
  const DirectorySnapshot mine = directory.snapshot();
  EXPECT_EQ(directory.apply("p1", other.snapshot()), Applied::kDone);
  EXPECT_THAT(events(), ElementsAre("1:+b@1", "changed", "evicted 1", "2:-b", "changed"));
  EXPECT_THAT(text, HasSubstr("is served by agent a"));
  EXPECT_EQ(other.apply("me", mine), Applied::kDone);
  EXPECT_THAT(other.links("acme", "a", kNew), ElementsAre(1));
  // Until b's home has said that b is gone, both send visits to a.
  ASSERT_EQ(other.lookup("acme", kWeb).size(), 1u);
  EXPECT_EQ(other.lookup("acme", kWeb)[0].agent_id, "a");
  EXPECT_THAT(homes(), ElementsAre("p1/b"));
}

TEST_F(DirectoryTest, VersionsMustJoin) {
  EXPECT_EQ(delta("p1", "b", 1, {}), Applied::kResync) << "no snapshot yet";
  EXPECT_EQ(snapshot("p1", "b", 5, {entry("a", kOld, 1)}), Applied::kDone);
  EXPECT_EQ(delta("p1", "b", 5, {}, {entry("a", kOld, 1)}), Applied::kDone);
  EXPECT_THAT(homes(), ElementsAre("p1/a")) << "an old delta changes nothing";
  EXPECT_EQ(delta("p1", "b", 7, {}), Applied::kResync) << "a gap";
  EXPECT_EQ(delta("p1", "c", 6, {}), Applied::kResync) << "another process";
  EXPECT_EQ(delta("p1", "b", 6, {}, {entry("a", kOld, 0)}), Applied::kDone);
  EXPECT_THAT(homes(), IsEmpty());
  EXPECT_EQ(snapshot("p1", "c", 1, {entry("a", kNew, 2)}), Applied::kDone) << "a restart";
  EXPECT_THAT(homes(), ElementsAre("p1/b"));
  EXPECT_EQ(directory.apply("p2", DirectorySnapshot{"p1", "b", 9, {}}), Applied::kForged);
  EXPECT_EQ(directory.apply("p2", DirectoryDelta{"p1", "b", 9, {}, {}}), Applied::kForged);
  EXPECT_EQ(snapshot("stranger", "b", 1, {}), Applied::kNotMember);
  EXPECT_EQ(delta("stranger", "b", 1, {}), Applied::kNotMember);
}

TEST_F(DirectoryTest, AnOwnerIsUsedOnlyWhenItHasResynced) {
  snapshot("p1", "b", 1, {entry("a", kOld, 1)});
  directory.peer_down("p1");
  directory.peer_up("p1");
  EXPECT_THAT(homes(), IsEmpty());
  EXPECT_EQ(directory.rows().size(), 1u) << "kept";
  EXPECT_FALSE(directory.rows()[0].used);
  EXPECT_EQ(delta("p1", "b", 2, {}), Applied::kResync);
  snapshot("p1", "b", 2, {entry("a", kOld, 1)});
  EXPECT_THAT(homes(), ElementsAre("p1/a"));
  directory.peer_down("p1");
  EXPECT_EQ(snapshot("p1", "b", 3, {}), Applied::kResync) << "no link stands";
  EXPECT_EQ(directory.rows().size(), 1u);
  directory.set_members({"me"});
  EXPECT_THAT(directory.rows(), IsEmpty());
}

TEST_F(DirectoryTest, RefusesFieldsOutOfBounds) {
  struct Row {
    void (*spoil)(Registration&);
    const char* text;
  };
  const Row rows[] = {
      {[](auto& r) { r.agent_id = ""; }, "set another with --id"},
      {[](auto& r) { r.agent_id = "a\n"; }, "set another with --id"},
      {[](auto& r) { r.agent_id.assign(513, 'a'); }, "set another with --id"},
      {[](auto& r) { r.tenant = ""; }, "tenant"},
      {[](auto& r) { r.instance = "short"; }, "16 bytes"},
      {[](auto& r) { r.generation = ~0ull; }, "generation"},
      {[](auto& r) { r.services.clear(); }, "1 to 64 services, not 0"},
      {[](auto& r) { r.services.resize(65, kWeb); }, "1 to 64 services, not 65"},
      {[](auto& r) { r.services[0].name = ""; }, "a service's name"},
  };
  for (const Row& row : rows) {
    Registration registration = agent("a", kOld);
    row.spoil(registration);
    EXPECT_THAT(refused(directory.add(1, registration)).text, HasSubstr(row.text));
  }
  EXPECT_THAT(events(), IsEmpty());
}

TEST(DirectoryMessages, AreReadBack) {
  std::string error;
  DirectorySnapshot snapshot{"me", "boot", 9, {entry("a", kOld, 3), entry("b", kNew, 4)}};
  snapshot.agents[1].leaving = true;
  EXPECT_EQ(from_wire(to_wire(snapshot), error), snapshot) << error;
  DirectoryDelta delta{"me", "boot", 10, {entry("a", kOld, 3)}, {entry("b", kNew, 4)}};
  delta.remove[0].services.clear();
  EXPECT_EQ(from_wire(to_wire(delta), error), delta) << error;
}

TEST(DirectoryMessages, SayWhatIsWrong) {
  struct Row {
    void (*spoil)(control::v1::DirectoryDelta&);
    const char* text;
  };
  const Row rows[] = {
      {[](auto& m) { m.clear_owner_uid(); }, "owner_uid has 0 bytes"},
      {[](auto& m) { m.set_boot_id(std::string(65, 'b')); }, "boot_id has 65 bytes"},
      {[](auto& m) { m.mutable_upsert(0)->set_generation(0); },
       "upsert[0]: generation 0 is out of range"},
      {[](auto& m) { m.mutable_upsert(0)->set_instance("x"); },
       "upsert[0]: instance has 1 bytes; it must have 16"},
      {[](auto& m) { m.mutable_upsert(0)->set_tenant("a\x01"); },
       "upsert[0]: tenant has a control character"},
      {[](auto& m) { m.mutable_upsert(0)->mutable_services(0)->clear_name(); },
       "upsert[0]: service.name has 0 bytes"},
      {[](auto& m) {
         for (int i = 0; i < 64; ++i)
           *m.mutable_upsert(0)->add_services() = m.upsert(0).services(0);
       },
       "upsert[0]: 65 services"},
      {[](auto& m) { m.add_remove()->set_agent_id(""); }, "remove[0]: agent_id has 0 bytes"},
  };
  for (const Row& row : rows) {
    control::v1::DirectoryDelta message =
        to_wire(DirectoryDelta{"me", "boot", 10, {entry("a", kOld, 3)}, {}});
    row.spoil(message);
    std::string error;
    EXPECT_FALSE(from_wire(message, error)) << row.text;
    EXPECT_THAT(error, HasSubstr(row.text));
  }
}

}  // namespace
}  // namespace fairlead::dataplane
