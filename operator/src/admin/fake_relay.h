// A stand-in for one relay replica in tests: it reads the same configuration file, serves /readyz
// and /healthz, the Admin service over mutual TLS, and TCP echo in the place of HTTP visitors, and
// it drains like the relay: close the listener after the delay, wait for the visits, exit 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace fairlead::op {

struct FakeRelayConfig {
  std::string cluster_uid;
  std::string uid;
  std::string name;
  std::string address;
  std::uint16_t http = 0;  // 0: no visitors
  std::uint16_t admin = 0;
  std::uint16_t health = 0;
  std::string certificate;  // PEM texts
  std::string key;
  std::string ca;
  std::string version = "fake";
  std::chrono::milliseconds drain_timeout{60'000};
  std::chrono::milliseconds endpoint_delay{0};
};

// Reads a relay's configuration file; throws std::exception on any mistake in it.
FakeRelayConfig load_fake_relay_config(const std::string& path);

class FakeRelay {
 public:
  // Throws std::runtime_error when an address is taken.
  explicit FakeRelay(FakeRelayConfig config);
  ~FakeRelay();
  FakeRelay(const FakeRelay&) = delete;
  FakeRelay& operator=(const FakeRelay&) = delete;

  // Visits that no socket stands for, so that a test decides when they end.
  void set_visits(std::uint32_t visits);
  // Admin calls get no answer for as long as this is set.
  void hang(bool hang);
  void set_epoch(std::uint64_t epoch, const std::string& digest);
  std::uint64_t epoch() const;
  // SHA-256, hex, of the members that were set last, in protobuf's deterministic serialisation.
  std::string computed_digest() const;

  void drain(std::chrono::milliseconds deadline, std::chrono::milliseconds delay);
  bool drained() const;  // or forced
  std::uint64_t lost() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fairlead::op
