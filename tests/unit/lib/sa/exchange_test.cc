// SPDX-License-Identifier: BSD-3-Clause
// Clients and the embedded administrator in virtual time, over a wire that loses, repeats, delays
// and so reorders MADs. The message of a failure contains the seed, which repeats the run.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/unit/lib/sa/sim_sa.h"

namespace ipoib::sa::test {
namespace {

using namespace std::chrono_literals;

/// Nodes that submit any requests, and what became of these.
class Askers {
 public:
  struct Node {
    SimSa::Node* at;
    std::vector<unsigned> called{};  ///< Number of calls of the handler, by request.
    std::uint64_t refused = 0, timed_out = 0, succeeded = 0;
  };

  Askers(std::uint64_t seed, std::size_t n, const WireFaults& faults, const ClientConfig& config)
      : sim{seed, faults}, random_{seed} {
    for (std::size_t i = 0; i < n; ++i) nodes.push_back({&sim.add_node(config)});
  }

  /// Submits `n` requests at once, spread over the nodes.
  void ask(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      Node& node = nodes[random_() % nodes.size()];
      const std::size_t number = node.called.size();
      node.called.push_back(0);
      node.at->client->submit(
          any_request(node.at->gid),
          [&node, number](const Outcome& o, TimePoint) {
            ++node.called[number];
            if (o) ++node.succeeded;
            if (!o && o.error().code == Errc::kRefused) ++node.refused;
            if (!o && o.error().code == Errc::kTimedOut) ++node.timed_out;
          },
          sim.now);
    }
  }

  SimSa sim;
  std::vector<Node> nodes;

 private:
  Request any_request(const wire::Gid& port) {
    const wire::Gid mgid = ipoib_mgid(random_() % 5);
    const auto state = static_cast<std::uint8_t>(1U << (random_() % 4));
    switch (random_() % 7) {
      case 0: return join_group(kBroadcast, port, 0xffff, 1);
      case 1: return create_group(mgid, port, state, like_broadcast());
      case 2: return leave_group(mgid, port, 0xffff, state);
      case 3: return find_group(mgid);
      case 4: return list_groups(0x8002);
      case 5: return class_port_info();
      default: return find_path(port, nodes[random_() % nodes.size()].at->gid, 0xffff);
    }
  }

  std::mt19937_64 random_;
};

/// Every request has ended exactly once, and the counters agree with the outcomes.
void expect_all_ended_once(const Askers& askers) {
  for (const Askers::Node& node : askers.nodes) {
    for (const unsigned times : node.called) ASSERT_EQ(times, 1U);
    const Client& client = *node.at->client;
    const ClientCounters& c = client.counters();
    EXPECT_EQ(c.answered, node.succeeded);
    EXPECT_EQ(c.refused, node.refused);
    EXPECT_EQ(c.timed_out, node.timed_out);
    EXPECT_EQ(c.answered + c.refused + c.timed_out, node.called.size());
    EXPECT_EQ(c.malformed + c.send_failed + c.overflowed, 0U);
    EXPECT_EQ(client.outstanding() + client.waiting(), 0U);
  }
}

TEST(Exchange, EveryRequestEndsOnceWhateverTheWireDoes) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    WireFaults faults{static_cast<unsigned>(random() % 60), static_cast<unsigned>(random() % 40)};
    faults.busy = static_cast<unsigned>(random() % 20);
    faults.delay = 1ms * static_cast<int>(1 + random() % 3000);
    const ClientConfig config{.max_outstanding = 1 + static_cast<unsigned>(random() % 8)};
    Askers askers{seed, 5, faults, config};
    askers.ask(100);
    askers.sim.run();
    if (HasFatalFailure()) return;
    expect_all_ended_once(askers);
    EXPECT_LE(askers.sim.requests, 100U * (1 + config.retries));
    // The administrator has also ended everything that it received.
    const AdministratorCounters& c = askers.sim.sa().counters();
    EXPECT_EQ(c.ended(), c.received);
    EXPECT_EQ(askers.sim.sa().tables().size(), 0U);
  }
}

TEST(Exchange, GoodWireNeedsOneMadARequest) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Askers askers{seed, 5, {.delay = 20ms}, {}};
    askers.ask(500);
    askers.sim.run();
    expect_all_ended_once(askers);
    EXPECT_EQ(askers.sim.requests, 500U);
    for (const Askers::Node& node : askers.nodes) EXPECT_EQ(node.timed_out, 0U);
  }
}

TEST(Exchange, SilentAdministratorMeetsNoStorm) {
  Askers askers{1, 20, {.delay = 20ms}, {.max_outstanding = 4}};
  askers.sim.lose = [](const wire::SaMad&) { return true; };
  askers.ask(1000);
  askers.sim.run();
  expect_all_ended_once(askers);
  EXPECT_EQ(askers.sim.requests, 5000U);
  for (const Askers::Node& node : askers.nodes) EXPECT_EQ(node.timed_out, node.called.size());
}

TEST(Exchange, SameSeedIsTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    Askers askers{seed, 5, {30, 20, 800ms, 5}, {.max_outstanding = 3}};
    askers.ask(200);
    askers.sim.run();
    return std::pair{askers.sim.requests, askers.sim.sa().counters().received};
  };
  EXPECT_EQ(run(42), run(42));
  EXPECT_NE(run(42), run(43));
}

}  // namespace
}  // namespace ipoib::sa::test
