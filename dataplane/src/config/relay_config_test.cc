#include "config/relay_config.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

namespace fairlead::dataplane {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The least that a file must say. Each part may be replaced by a test.
std::string minimal(const std::string& extra = "") {
  return "cluster: {uid: c1, name: demo}\n"
         "replica: {uid: r1, name: demo-0}\n"
         "tls: {cert: leaf.pem, key: leaf.key, ca: ca.pem}\n"
         "agents: {tokens_file: tokens.yaml}\n"
         "visitors: {domain: relay.localhost}\n"
         "state_dir: state\n" +
         extra;
}

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> errors;
  const auto config = parse_relay_config(text, "/etc/fairlead/relay.yaml", errors);
  EXPECT_EQ(config.has_value(), errors.empty());
  return errors;
}

RelayConfig parsed(const std::string& text) {
  std::vector<std::string> errors;
  const auto config = parse_relay_config(text, "/etc/fairlead/relay.yaml", errors);
  EXPECT_THAT(errors, IsEmpty());
  return config.value_or(RelayConfig{});
}

TEST(RelayConfig, ExampleOfTheRepository) {
  std::ifstream file(FAIRLEAD_EXAMPLES "/relay.yaml");
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::string> errors;
  const auto config = parse_relay_config(text.str(), "/srv/examples/relay.yaml", errors);
  ASSERT_THAT(errors, IsEmpty());
  EXPECT_EQ(config->cluster.name, "demo");
  EXPECT_EQ(config->replica.name, "demo-1f2e3d4c-0-1");
  EXPECT_EQ(to_string(config->listen.agents), "127.0.0.1:7000");
  EXPECT_EQ(to_string(config->listen.health), "127.0.0.1:9090");
  EXPECT_EQ(config->tls_key, "/srv/examples/leaf.key");
  EXPECT_EQ(config->tokens_file, "/srv/examples/tokens.yaml");
  EXPECT_EQ(config->domain, "relay.localhost");
  EXPECT_EQ(config->drain_timeout, std::chrono::hours(1));
  EXPECT_EQ(config->peer_liveness, link::kDefault);
}

TEST(RelayConfig, DefaultsAreWhatTheHeaderSays) {
  const RelayConfig config = parsed(minimal());
  EXPECT_EQ(to_string(config.listen.agents), "0.0.0.0:7000");
  EXPECT_EQ(to_string(config.listen.peers), "0.0.0.0:7001");
  EXPECT_EQ(config.homes, 2u);
  EXPECT_EQ(config.window_max_kib, 16384u);
  EXPECT_EQ(config.memory_mib, 256u);
  EXPECT_EQ(config.pool_size, 4u);
  EXPECT_EQ(config.endpoint_delay, std::chrono::seconds(5));
  EXPECT_EQ(config.log_format, LogFormat::kText);
  EXPECT_FALSE(config.trusted_proxies.contains(*IpAddress::parse("127.0.0.1")));
}

TEST(RelayConfig, EveryKeyIsRead) {
  const RelayConfig config = parsed(
      "cluster: {uid: c1, name: demo}\n"
      "replica: {uid: r1, name: demo-0}\n"
      "listen: {address: '::1', agents: 1, peers: '127.0.0.2:2', http: 0, admin: '[::2]:4', "
      "health: 5}\n"
      "tls: {cert: /a/leaf.pem, key: ../leaf.key, ca: ca.pem}\n"
      "agents: {tokens_file: t.yaml, homes: 3, min_version: 1.2.3}\n"
      "visitors: {domain: example.com, trusted_proxies: [10.0.0.0/8, '::1']}\n"
      "link: {window_max_kib: 64, memory_mib: 16}\n"
      "peer_link: {liveness: 'interval=2s,timeout=4s', pool_size: 1}\n"
      "drain: {timeout_seconds: 1, endpoint_delay_seconds: 0}\n"
      "state_dir: /var/lib/fairlead\n"
      "log: {level: debug, format: json}\n");
  EXPECT_EQ(to_string(config.listen.agents), "[::1]:1");
  EXPECT_EQ(to_string(config.listen.peers), "127.0.0.2:2");
  EXPECT_EQ(config.listen.http.port, 0);
  EXPECT_EQ(to_string(config.listen.admin), "[::2]:4");
  EXPECT_EQ(config.tls_cert, "/a/leaf.pem");
  EXPECT_EQ(config.tls_key, "/etc/leaf.key");
  EXPECT_EQ(config.homes, 3u);
  EXPECT_EQ(config.min_version, "1.2.3");
  EXPECT_TRUE(config.trusted_proxies.contains(*IpAddress::parse("10.2.3.4")));
  EXPECT_EQ(config.window_max_kib, 64u);
  EXPECT_EQ(config.memory_mib, 16u);
  EXPECT_EQ(config.peer_liveness.bound(), std::chrono::seconds(6));
  EXPECT_EQ(config.pool_size, 1u);
  EXPECT_EQ(config.drain_timeout, std::chrono::seconds(1));
  EXPECT_EQ(config.endpoint_delay, std::chrono::seconds(0));
  EXPECT_EQ(config.state_dir, "/var/lib/fairlead");
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
  EXPECT_EQ(config.log_format, LogFormat::kJson);
  EXPECT_EQ(parsed(render(config)), config) << render(config);
}

TEST(RelayConfig, RenderedDefaultsReadBackEqual) {
  const RelayConfig config = parsed(minimal());
  EXPECT_EQ(parsed(render(config)), config) << render(config);
}

TEST(RelayConfig, ErrorsNameFileLineColumnAndPath) {
  EXPECT_THAT(errors_of(minimal("listen:\n  agents: 70000\n")),
              ElementsAre("/etc/fairlead/relay.yaml:8:11: listen.agents: \"70000\" is not allowed; "
                          "allowed is a port from 0 (off) to 65535, or address:port such as "
                          "127.0.0.1:7000"));
  EXPECT_THAT(errors_of(minimal("lisen: {}\n")),
              ElementsAre("/etc/fairlead/relay.yaml:7:1: lisen: unknown key; allowed are cluster, "
                          "replica, listen, tls, agents, visitors, link, peer_link, drain, "
                          "state_dir, log"));
}

TEST(RelayConfig, RefusesOneWrongValue) {
  struct Case {
    std::string text, error;
  };
  const std::vector<Case> cases{
      {"listen: {address: localhost}", ":7:19: listen.address: \"localhost\" is not allowed"},
      {"listen: {agents: -1}", "listen.agents"},
      {"listen: {agents: 7e3}", "listen.agents"},
      {"listen: {agents: 'localhost:7000'}", "listen.agents"},
      {"listen: {agents: '::1:7000'}", "listen.agents"},
      {"listen: {agents: [7000]}", "listen.agents: is a list; allowed is a single value"},
      {"listen: {agents: }", "listen.agents: is empty; allowed is a single value"},
      {"listen: {agents: 1, agents: 2}",
       ":7:21: listen.agents: is given twice; the first is in "
       "line 7"},
      {"listen: {agents: 7001}", "listen.peers: 0.0.0.0:7001 is also the address of listen.agents"},
      {"listen: 7000", ":7:9: listen: is a single value; allowed is a mapping"},
      {"link: {window_max_kib: 63}",
       "link.window_max_kib: \"63\" is out of bounds; allowed is 64 "
       "to 1048576"},
      {"link: {window_max_kib: 1048577}", "out of bounds"},
      {"link: {memory_mib: 16MiB}", "link.memory_mib: \"16MiB\" is not a number in bounds"},
      {"link: {memory_mib: 99999999999999999999}", "not a number in bounds"},
      {"peer_link: {pool_size: 17}",
       "peer_link.pool_size: \"17\" is out of bounds; allowed is 1 "
       "to 16"},
      {"peer_link: {liveness: quick}", "peer_link.liveness: \"quick\" is not a keepalive setting"},
      {"drain: {timeout_seconds: 0}", "drain.timeout_seconds"},
      {"drain: {endpoint_delay_seconds: 601}", "allowed is 0 to 600"},
      {"log: {level: loud}",
       "log.level: \"loud\" is not known; allowed are trace, debug, info, "
       "warn, error"},
      {"log: {colour: red}", "log.colour: unknown key; allowed are level, format"},
      {"<<: {a: b}", "<<: unknown key"},
      {"[a]: b", "a key must be a single word"},
      {"? ", "a key must be a single word"},
  };
  for (const Case& c : cases) {
    const auto errors = errors_of(minimal(c.text + "\n"));
    ASSERT_THAT(errors, SizeIs(1)) << c.text;
    EXPECT_THAT(errors[0], HasSubstr(c.error)) << c.text;
  }
}

TEST(RelayConfig, RefusesWrongValuesOfRequiredKeys) {
  struct Case {
    std::string from, to, error;
  };
  const std::vector<Case> cases{
      {"uid: c1", "uid: ''", "cluster.uid: \"\" is not allowed; allowed is 1 to 64 letters"},
      {"uid: c1", "uid: a/b", "cluster.uid"},
      {"uid: c1", "uid: " + std::string(65, 'a'), "cluster.uid"},
      {"name: demo}", "name: Demo}", "cluster.name"},
      {"name: demo-0", "name: demo-", "replica.name"},
      {"ca: ca.pem", "cb: ca.pem", "tls.ca: is missing and has no default"},
      {"cert: leaf.pem", "cert: ''", "tls.cert: \"\" is not allowed; allowed is the path"},
      {"tokens.yaml", "tokens.yaml, homes: 0", "agents.homes: \"0\" is out of bounds"},
      {"tokens.yaml", "tokens.yaml, min_version: 1.2", "agents.min_version"},
      {"tokens.yaml", "tokens.yaml, min_version: 1.2.3-rc1", "agents.min_version"},
      {"domain: relay.localhost", "domain: Relay.localhost", "visitors.domain"},
      {"domain: relay.localhost", "domain: 'relay.localhost.'", "visitors.domain"},
      {"relay.localhost", "a.b, trusted_proxies: [10.0.0.1/8]",
       "visitors.trusted_proxies[0]: \"10.0.0.1/8\" has bits set"},
      {"relay.localhost", "a.b, trusted_proxies: 10.0.0.0/8", "allowed is a list"},
      {"state_dir: state", "state_dir: {a: b}", "state_dir: is a mapping"},
  };
  for (const Case& c : cases) {
    std::string text = minimal();
    text.replace(text.find(c.from), c.from.size(), c.to);
    const auto errors = errors_of(text);
    ASSERT_FALSE(errors.empty()) << c.to;
    EXPECT_THAT(errors[0], HasSubstr(c.error)) << c.to;
  }
}

TEST(RelayConfig, ListsEveryErrorInTheOrderOfTheFile) {
  const auto errors = errors_of(
      "log: {level: loud}\n"
      "zebra: 1\n"
      "cluster: {uid: c1}\n"
      "tls: {cert: a, key: b, ca: c}\n"
      "visitors: {domain: 'x y', trusted_proxies: [nonsense, 1.2.3.4/8]}\n"
      "agents: {tokens_file: t, homes: 99}\n");
  ASSERT_THAT(errors, SizeIs(9));
  EXPECT_THAT(errors[0], HasSubstr("replica: is missing"));
  EXPECT_THAT(errors[1], HasSubstr("state_dir: is missing"));
  EXPECT_THAT(errors[2], HasSubstr("log.level"));
  EXPECT_THAT(errors[3], HasSubstr("zebra"));
  EXPECT_THAT(errors[4], HasSubstr("cluster.name"));
  EXPECT_THAT(errors[5], HasSubstr("visitors.domain"));
  EXPECT_THAT(errors[6], HasSubstr("trusted_proxies[0]"));
  EXPECT_THAT(errors[7], HasSubstr("trusted_proxies[1]"));
  EXPECT_THAT(errors[8], HasSubstr("agents.homes"));
}

TEST(RelayConfig, RefusesWhatIsNotOneYamlMapping) {
  EXPECT_THAT(errors_of(""), ElementsAre(HasSubstr("relay.yaml: is empty")));
  EXPECT_THAT(errors_of("- a\n- b\n"), ElementsAre(HasSubstr(":1:1: is a list")));
  EXPECT_THAT(errors_of("a: [1, 2\nb: {"), ElementsAre(HasSubstr("not YAML")));
  EXPECT_THAT(errors_of(minimal() + "---\na: b\n"), ElementsAre(HasSubstr("a second document")));
  EXPECT_THAT(errors_of(std::string((1 << 20) + 1, '#')), ElementsAre(HasSubstr("1 MiB")));
  EXPECT_THAT(errors_of(std::string(100'000, '[')), ElementsAre(HasSubstr("not YAML")));
}

}  // namespace
}  // namespace fairlead::dataplane
