#include "api/relay_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace fairlead::op {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> texts(const ParsedCluster& parsed) {
  std::vector<std::string> lines;
  for (const FieldError& error : parsed.errors) lines.push_back(to_string(error));
  return lines;
}

// A resource whose spec has these lines, each indented by the caller with two blanks. The first of
// them is line 4 of the text.
ParsedCluster with_spec(const std::string& lines) {
  return parse_relay_cluster_yaml("{apiVersion: fairlead.dev/v1alpha1, kind: RelayCluster}: \n" +
                                  lines);
}

std::string document(const std::string& spec_lines, const std::string& name = "demo") {
  return "apiVersion: fairlead.dev/v1alpha1\nkind: RelayCluster\nmetadata: {name: " + name +
         "}\nspec:\n" + spec_lines;
}

RelayClusterSpec spec_of(const std::string& spec_lines) {
  const ParsedCluster parsed = parse_relay_cluster_yaml(document(spec_lines));
  EXPECT_THAT(texts(parsed), IsEmpty());
  return parsed.cluster ? parsed.cluster->spec : RelayClusterSpec{};
}

std::vector<std::string> errors_of(const std::string& spec_lines) {
  return texts(parse_relay_cluster_yaml(document(spec_lines)));
}

TEST(RelayClusterYaml, EveryFieldIsRead) {
  const RelayClusterSpec spec = spec_of(R"(
  replicas: 5
  image: "registry:5000/team/fairlead@sha256:aa"
  peerLink: {liveness: "interval=2s,timeout=4s", poolSize: 2}
  link: {windowMaxKiB: 1024, memoryMiB: 64}
  agents: {minVersion: "1.2", homes: 3, authSecretName: agents}
  visitors:
    domain: example.org
    http: false
    tlsSecretName: cert
    tcpPortRange: 20000-20099
    trustedProxies: [10.0.0.0/8, "fd00::/8"]
  mailbox: {redis: {address: "redis:6379", passwordSecretRef: {name: r, key: p}, tls: true}}
  rollout: {maxSurge: 2, maxUnavailable: 1, paused: true, minReadySeconds: 7,
            progressDeadlineSeconds: 60, restartedAt: "2024-01-01"}
  drain: {timeoutSeconds: 100, endpointDelaySeconds: 3, maxDraining: 4}
  service: {type: NodePort, annotations: {a: b}, externalTrafficPolicy: Local}
  certificates: {leafDays: 7}
  podTemplate: {labels: {team: x}, tolerations: [{key: k}]}
  deletionPolicy: DrainFirst
)");
  RelayClusterSpec expected;
  expected.replicas = 5;
  expected.image = "registry:5000/team/fairlead@sha256:aa";
  expected.peer_link = {"interval=2s,timeout=4s", 2};
  expected.link = {1024, 64};
  expected.agents = {"1.2", 3, "agents"};
  expected.visitors = {"example.org",
                       false,
                       "cert",
                       std::pair<std::uint16_t, std::uint16_t>{20000, 20099},
                       {"10.0.0.0/8", "fd00::/8"}};
  expected.mailbox.redis = {"redis:6379", "r", "p", true};
  expected.rollout = {2, 1, true, std::chrono::seconds(7), std::chrono::seconds(60), "2024-01-01"};
  expected.drain = {std::chrono::seconds(100), std::chrono::seconds(3), 4};
  expected.service = {ServiceType::kNodePort, {{"a", "b"}}, TrafficPolicy::kLocal};
  expected.certificates = {7};
  expected.pod_template = R"({"labels":{"team":"x"},"tolerations":[{"key":"k"}]})";
  expected.deletion_policy = DeletionPolicy::kDrainFirst;
  EXPECT_EQ(spec, expected);
}

TEST(RelayClusterYaml, AbsentAndNullFieldsHaveTheirDefaults) {
  EXPECT_EQ(spec_of("  rollout: ~\n  drain: {}\n  replicas:\n"), RelayClusterSpec{});
}

TEST(RelayClusterYaml, TheExampleIsValid) {
  std::ifstream file(FAIRLEAD_EXAMPLES "/relaycluster.yaml");
  std::stringstream text;
  text << file.rdbuf();
  const ParsedCluster parsed = parse_relay_cluster_yaml(text.str());
  ASSERT_THAT(texts(parsed), IsEmpty());
  EXPECT_EQ(parsed.cluster->name, "demo");
  EXPECT_EQ(parsed.cluster->spec.replicas, 3);
  // It promises that a line left out has the value shown.
  RelayClusterSpec shown = parsed.cluster->spec;
  shown.agents.auth_secret_name.clear();
  shown.visitors.tcp_port_range.reset();
  EXPECT_EQ(shown, RelayClusterSpec{});
}

TEST(RelayClusterYaml, AllErrorsAreListedWithPathAndPosition) {
  const ParsedCluster parsed =
      parse_relay_cluster_yaml(document("  replicas: -1\n"
                                        "  rollout:\n"
                                        "    maxSurge: many\n"
                                        "    maxSurgee: 1\n"
                                        "  visitors: {trustedProxies: [10.0.0.0/8, nowhere]}\n"
                                        "  link: 3\n"));
  EXPECT_FALSE(parsed.cluster);
  EXPECT_THAT(
      texts(parsed),
      ElementsAre(
          "spec.replicas: must be an integer from 0 to 1000, not -1 (line 5, column 13)",
          "spec.rollout.maxSurge: must be an integer from 0 to 100, not the string \"many\" (line "
          "7, "
          "column 15)",
          AllOf(
              StartsWith("spec.rollout.maxSurgee: is not a known field; known here are maxSurge, "),
              HasSubstr("(line 8, column 5)")),
          AllOf(StartsWith("spec.visitors.trustedProxies[1]: must be a network"),
                HasSubstr("(line 9, column 43)")),
          "spec.link: must be a map, not 3 (line 10, column 9)"));
}

struct BadField {
  const char* spec;
  const char* error;  // begins with
};
class RelayClusterBadField : public ::testing::TestWithParam<BadField> {};

TEST_P(RelayClusterBadField, IsRefusedByName) {
  EXPECT_THAT(errors_of(GetParam().spec), ElementsAre(StartsWith(GetParam().error)));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RelayClusterBadField,
    ::testing::Values(
        BadField{"  rollout: {maxSurge: 0, maxUnavailable: 0}\n", "spec.rollout: maxSurge and"},
        BadField{"  rollout: {maxSurge: 0}\n", "spec.rollout: maxSurge and"},
        BadField{"  rollout: {minReadySeconds: 60, progressDeadlineSeconds: 60}\n",
                 "spec.rollout: progressDeadlineSeconds must be more"},
        BadField{"  drain: {timeoutSeconds: 0}\n", "spec.drain.timeoutSeconds: must be an integer"},
        BadField{"  drain: {timeoutSeconds: 5}\n", "spec.drain: endpointDelaySeconds must be less"},
        BadField{"  replicas: \"3\"\n",
                 "spec.replicas: must be an integer from 0 to 1000, not the "
                 "string \"3\""},
        BadField{"  replicas: 1.5\n", "spec.replicas: must be an integer"},
        BadField{"  replicas: 9999999999999\n", "spec.replicas: must be an integer"},
        BadField{"  visitors: {http: yes}\n",
                 "spec.visitors.http: must be true or false, not the "
                 "string \"yes\""},
        BadField{"  visitors: {tcpPortRange: 20000}\n",
                 "spec.visitors.tcpPortRange: must be a string, not 20000: put it in quotes"},
        BadField{"  visitors: {tcpPortRange: 20000-20100}\n",
                 "spec.visitors.tcpPortRange: must be"},
        BadField{"  visitors: {tcpPortRange: 20099-20000}\n",
                 "spec.visitors.tcpPortRange: must be"},
        BadField{"  visitors: {tcpPortRange: 80-90}\n", "spec.visitors.tcpPortRange: must be"},
        BadField{"  visitors: {tcpPortRange: 65500-65536}\n",
                 "spec.visitors.tcpPortRange: must be"},
        BadField{"  visitors: {domain: Relay.Example}\n", "spec.visitors.domain: must be a DNS"},
        BadField{"  visitors: {domain: a..b}\n", "spec.visitors.domain: must be a DNS"},
        BadField{"  visitors: {trustedProxies: [10.0.0.0/33]}\n",
                 "spec.visitors.trustedProxies[0]"},
        BadField{"  peerLink: {liveness: quick}\n", "spec.peerLink.liveness: "},
        BadField{"  peerLink: {liveness: \"interval=1ms,timeout=4s\"}\n",
                 "spec.peerLink.liveness: "},
        BadField{"  image: fairlead\n", "spec.image: must be an image with a tag or a digest"},
        BadField{"  image: \"../../bin:dev\"\n", "spec.image: must be an image"},
        BadField{"  image: \"/etc/fairlead:dev\"\n", "spec.image: must be an image"},
        BadField{"  image: \"fairlead:\"\n", "spec.image: must be an image"},
        BadField{"  image: \"a b:c\"\n", "spec.image: must be an image"},
        BadField{"  mailbox: {redis: {passwordSecretRef: {name: x}}}\n",
                 "spec.mailbox.redis.passwordSecretRef: must have both"},
        BadField{"  service: {type: External}\n",
                 "spec.service.type: must be ClusterIP or NodePort or LoadBalancer, not"},
        BadField{"  podTemplate: {tolerations: {}}\n",
                 "spec.podTemplate.tolerations: must be a list"},
        BadField{"  podTemplate: {volumes: []}\n",
                 "spec.podTemplate.volumes: is not a known field"},
        BadField{"  deletionPolicy: Now\n", "spec.deletionPolicy: must be Drain or DrainFirst"}));

TEST(RelayClusterYaml, ZeroReplicasAreLegal) {
  EXPECT_EQ(spec_of("  replicas: 0\n").replicas, 0);
}

TEST(RelayClusterYaml, NamesAreDnsLabelsOfAtMost40Characters) {
  const auto errors = [](const std::string& name) {
    return texts(parse_relay_cluster_yaml(document("  {}\n", name)));
  };
  EXPECT_THAT(errors("a-1"), IsEmpty());
  EXPECT_THAT(errors(std::string(40, 'a')), IsEmpty());
  for (const std::string& bad : {std::string(41, 'a'), std::string("1a"), std::string("a-"),
                                 std::string("A"), std::string("a.b"), std::string("\"\"")}) {
    EXPECT_THAT(errors(bad), ElementsAre(StartsWith("metadata.name: must be 1 to 40"))) << bad;
  }
}

TEST(RelayClusterYaml, BrokenTextNamesThePlace) {
  EXPECT_THAT(texts(parse_relay_cluster_yaml("a: [1,\nb: }")),
              ElementsAre(HasSubstr("(line 2, column ")));
  EXPECT_THAT(texts(parse_relay_cluster_yaml("")), ElementsAre("the document is empty"));
  EXPECT_THAT(texts(parse_relay_cluster_yaml("a: 1\n---\nb: 2\n")),
              ElementsAre(HasSubstr("several documents")));
  EXPECT_THAT(errors_of("  replicas: 1\n  replicas: 2\n"),
              ElementsAre("the key \"replicas\" is there twice (line 6, column 3)"));
  EXPECT_THAT(texts(parse_relay_cluster_yaml("[1]")), ElementsAre(StartsWith("must be a map")));
  EXPECT_THAT(texts(with_spec("")), ElementsAre(HasSubstr("a key must be a plain word")));
}

TEST(RelayClusterYaml, ABombOfAliasesIsRefused) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 9; ++j) text += ", " + before;
    text += "]\n";
  }
  EXPECT_THAT(texts(parse_relay_cluster_yaml(text)),
              ElementsAre(StartsWith("too many values in one document")));
}

TEST(RelayClusterYaml, KindAndVersionMustFit) {
  EXPECT_THAT(texts(parse_relay_cluster_yaml("{apiVersion: v1, kind: Pod, metadata: {name: a}, "
                                             "spec: {}}")),
              ElementsAre(StartsWith("apiVersion: must be fairlead.dev/v1alpha1"),
                          StartsWith("kind: must be RelayCluster")));
  EXPECT_THAT(texts(parse_relay_cluster_yaml("{metadata: {}}")),
              ::testing::UnorderedElementsAre(
                  StartsWith("apiVersion is missing"), StartsWith("kind is missing"),
                  StartsWith("metadata: name is missing"), StartsWith("spec is missing")));
}

TEST(RelayClusterYaml, StatusIsIgnored) {
  EXPECT_TRUE(parse_relay_cluster_yaml(document("  {}\nstatus: {anything: [1]}\n")).cluster);
}

TEST(RelayClusterJson, ReadsTheSameStruct) {
  const ParsedCluster parsed = parse_relay_cluster_json(R"({
    "apiVersion": "fairlead.dev/v1alpha1", "kind": "RelayCluster",
    "metadata": {"name": "demo", "namespace": "n", "uid": "u", "generation": 7,
                 "resourceVersion": "12", "managedFields": []},
    "spec": {"replicas": 2, "podTemplate": {"labels": {"a": "\ud83d\ude00"}}}})");
  ASSERT_THAT(texts(parsed), IsEmpty());
  EXPECT_EQ(parsed.cluster->uid, "u");
  EXPECT_EQ(parsed.cluster->namespace_, "n");
  EXPECT_EQ(parsed.cluster->generation, 7);
  EXPECT_EQ(parsed.cluster->spec.replicas, 2);
  EXPECT_EQ(parsed.cluster->spec.pod_template, "{\"labels\":{\"a\":\"\xF0\x9F\x98\x80\"}}");
}

TEST(RelayClusterJson, ErrorsHavePathsAndDepthIsBounded) {
  EXPECT_THAT(
      texts(parse_relay_cluster_json(
          R"({"apiVersion": "fairlead.dev/v1alpha1", "kind": "RelayCluster",
                      "metadata": {"name": "demo"}, "spec": {"replicas": "2"}})")),
      ElementsAre("spec.replicas: must be an integer from 0 to 1000, not the string \"2\""));
  EXPECT_THAT(texts(parse_relay_cluster_json(std::string(100000, '['))),
              ElementsAre(::testing::Not("")));
  EXPECT_THAT(texts(parse_relay_cluster_json(std::string(100, '[') + std::string(100, ']'))),
              ElementsAre("nested too deeply"));
}

TEST(Revision, IsPinnedByAGoldenValue) {
  // A change of this value would roll every cluster at an upgrade of the operator.
  const std::string intent = render_intent(RelayClusterSpec{});
  EXPECT_EQ(intent,
            R"({"authSecretName":"","image":"fairlead:dev",)"
            R"("link":{"memoryMiB":256,"windowMaxKiB":16384},)"
            R"("mailbox":{"redis":{"address":"","passwordSecretRef":{},"tls":false}},)"
            R"("peerLink":{"liveness":"default","poolSize":4},"podTemplate":{},"restartedAt":"",)"
            R"("visitors":{"domain":"relay.localhost","http":true,"tcpPortRange":"",)"
            R"("tlsSecretName":"","trustedProxies":[]}})");
  EXPECT_EQ(revision_of(intent), "70c6c6a7");
}

TEST(Revision, ChangesWithEveryHashedFieldAndNoOther) {
  const std::string base = revision_of(render_intent(spec_of("  {}\n")));
  for (const char* hashed :
       {"  image: fairlead:v2\n", "  link: {memoryMiB: 64}\n", "  peerLink: {poolSize: 1}\n",
        "  visitors: {tcpPortRange: 20000-20001}\n", "  mailbox: {redis: {address: \"a:1\"}}\n",
        "  podTemplate: {labels: {a: b}}\n", "  rollout: {restartedAt: now}\n",
        "  agents: {authSecretName: x}\n"}) {
    EXPECT_NE(revision_of(render_intent(spec_of(hashed))), base) << hashed;
  }
  for (const char* live :
       {"  replicas: 9\n", "  rollout: {maxSurge: 3, paused: true}\n",
        "  drain: {maxDraining: 7}\n", "  service: {type: NodePort}\n",
        "  certificates: {leafDays: 1}\n", "  agents: {homes: 1, minVersion: \"2\"}\n",
        "  deletionPolicy: DrainFirst\n", "  peerLink: {liveness: \"interval=5s,timeout=10s\"}\n",
        "  podTemplate: {labels: {}}\n"}) {
    EXPECT_EQ(revision_of(render_intent(spec_of(live))), base) << live;
  }
}

TEST(Revision, AStoredIntentGivesItsSpecBack) {
  const RelayClusterSpec old_spec = spec_of(R"(
  image: fairlead:v1
  peerLink: {liveness: fast}
  agents: {authSecretName: old, homes: 2}
  visitors: {tcpPortRange: 20000-20009, trustedProxies: [10.0.0.0/8]}
  mailbox: {redis: {address: "r:1", passwordSecretRef: {name: n, key: k}}}
  podTemplate: {extraEnv: [{name: A, value: b}]}
  rollout: {restartedAt: then}
)");
  RelayClusterSpec live = spec_of("  image: fairlead:v2\n  agents: {homes: 5}\n  replicas: 7\n");
  std::string error;
  const auto spec = spec_at_revision(live, render_intent(old_spec), error);
  ASSERT_TRUE(spec) << error;
  EXPECT_EQ(render_intent(*spec), render_intent(old_spec));
  EXPECT_EQ(spec->agents.homes, 5);
  EXPECT_EQ(spec->replicas, 7);
}

TEST(Revision, AnIntentThatIsNotOursIsAnError) {
  std::string error;
  EXPECT_FALSE(spec_at_revision({}, "{", error));
  EXPECT_THAT(error, StartsWith("stored configuration: "));
  EXPECT_FALSE(spec_at_revision({}, "{}", error));
  EXPECT_THAT(error, HasSubstr("image must be an image"));
  EXPECT_FALSE(spec_at_revision({}, R"({"image":"a:b","later":1})", error));
  EXPECT_THAT(error, HasSubstr("later: is not a known field"));
}

TEST(Secrets, AreNamedOnceAndSorted) {
  RelayClusterSpec spec;
  EXPECT_THAT(referenced_secrets(spec), IsEmpty());
  spec.agents.auth_secret_name = "z";
  spec.visitors.tls_secret_name = "a";
  spec.mailbox.redis.password_secret_name = "z";
  EXPECT_THAT(referenced_secrets(spec), ElementsAre("a", "z"));
}

}  // namespace
}  // namespace fairlead::op
