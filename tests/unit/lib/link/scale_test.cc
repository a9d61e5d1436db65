// SPDX-License-Identifier: BSD-3-Clause
// Very many neighbours on one link: the cost of resolving them, and the isolation of others from
// unresolvable ones.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <map>
#include <unordered_map>

#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

wire::IpAddr nth(std::uint32_t i) {
  return wire::IpAddr::v4(0x0a00'0100 + i);  // from 10.0.1.0 upwards
}

LinkConfig wide() {
  auto config = SimIpoibLink::default_config();
  config.addresses = {prefix("10.0.0.1/8")};
  return config;
}

/// A link with a count of its ARP requests; existing hosts answer them a moment later.
class Scale : public ::testing::Test {
 protected:
  Scale() {
    sim.bring_up();
    sim.run_for(3s);
    sim.actions.on_send = [this](const SentFrame& frame) {
      const auto arp = frame.arp();
      if (!arp || arp->op != wire::ArpOp::kRequest) return;
      if (!frame.broadcast()) ++probes;
      ++requests[arp->target_ip];
      ++requests_sent;
      if (hosts.count(arp->target_ip) != 0) answers.push_back(arp->target_ip);
    };
  }
  void add_hosts(std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i)
      hosts[nth(i).v4_host()] =
          sim.add_host(0x1'0000 + i, 0x100 + i, static_cast<std::uint16_t>(0x100 + i));
  }
  void run_for(Duration d) {
    const auto end = sim.now + d;
    while (sim.now < end) {
      sim.run_for(1ms);
      for (const auto addr : std::exchange(answers, {}))
        sim.receive_arp_reply(hosts.at(addr), wire::to_string(wire::IpAddr::v4(addr)));
    }
  }
  std::size_t valid(std::uint32_t n) const {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < n; ++i) count += sim.sink.valid(nth(i)) ? 1 : 0;
    return count;
  }

  SimIpoibLink sim{wide()};
  std::unordered_map<std::uint32_t, wire::LinkAddr> hosts;
  std::map<std::uint32_t, unsigned> requests;  ///< ARP requests by target.
  std::size_t requests_sent = 0;
  std::size_t probes = 0;
  std::vector<std::uint32_t> answers;
};

TEST_F(Scale, TenThousandNeighboursFromColdCostOneRequestAndOneQueryEach) {
  constexpr std::uint32_t kHosts = 10'000;
  add_hosts(kHosts);
  sim.sa.path_queries.clear();
  const auto begin = sim.now;
  const auto wall = std::chrono::steady_clock::now();
  // Packets go to all of them, from the start until they are resolved.
  while (valid(kHosts) < kHosts && sim.now < begin + 10s) {
    for (std::uint32_t i = 0; i < kHosts; ++i) {
      const auto* n = sim.sink.find(nth(i));
      if (n == nullptr || n->state == table::NeighbourState::kIncomplete) sim.want(nth(i));
    }
    run_for(10ms);
  }
  const auto took = std::chrono::steady_clock::now() - wall;
  ASSERT_EQ(valid(kHosts), kHosts);
  for (const auto& [addr, n] : requests)
    ASSERT_EQ(n, 1U) << wire::to_string(wire::IpAddr::v4(addr));
  EXPECT_EQ(requests.size(), kHosts);
  EXPECT_EQ(sim.sa.path_queries.size(), kHosts);
  EXPECT_LE(sim.now - begin, 2s);
  EXPECT_TRUE(sim.sink.open.empty());

  const auto ms = [](auto d) { return std::chrono::duration<double, std::milli>(d).count(); };
  std::cout << "10,000 neighbours from cold: " << ms(sim.now - begin) << " ms with an SA of "
            << ms(sim.sa_delay) << " ms, " << sim.sa.path_queries.size() << " SA queries, "
            << requests_sent << " ARP requests; " << ms(took) << " ms of processor time\n";
  RecordProperty("virtual_ms", std::to_string(ms(sim.now - begin)));
  RecordProperty("sa_queries", std::to_string(sim.sa.path_queries.size()));
  RecordProperty("wall_ms", std::to_string(ms(took)));
}

TEST_F(Scale, StormToAHundredThousandUnresolvableAddressesHarmsNobody) {
  constexpr std::uint32_t kHosts = 100;
  constexpr std::uint32_t kStorm = 100'000;
  add_hosts(kHosts);
  for (std::uint32_t i = 0; i < kHosts; ++i) sim.want(nth(i));
  run_for(100ms);
  ASSERT_EQ(valid(kHosts), kHosts);
  std::vector<table::NeighbourIndex> indexes;
  for (std::uint32_t i = 0; i < kHosts; ++i) indexes.push_back(*sim.sink.index_of(nth(i)));

  sim.sa.path_queries.clear();
  requests_sent = 0;
  std::uint32_t next = 0;
  std::size_t most = 0;
  constexpr auto kSeconds = 60;
  for (int second = 0; second < kSeconds; ++second) {
    const auto before = requests_sent;
    for (int step = 0; step < 10; ++step) {
      // Workers punt 20,000 packets a second.
      for (int i = 0; i < 2'000; ++i) sim.want(nth(1'000 + next++ % kStorm));
      for (std::uint32_t i = 0; i < kHosts; ++i) sim.sink.used[indexes[i]] = sim.now;
      run_for(100ms);
      for (std::uint32_t i = 0; i < kHosts; ++i) {
        ASSERT_TRUE(sim.sink.valid(nth(i)));
        ASSERT_EQ(sim.sink.index_of(nth(i)), indexes[i]);
      }
    }
    most = std::max(most, requests_sent - before);
  }
  const auto& limits = SimIpoibLink::default_config().neighbour;
  // The number of held packets is the bound: each causes at most three requests, a second apart.
  EXPECT_LE(most, limits.max_held * 3 / 2);
  EXPECT_LE(requests_sent, kSeconds * limits.max_held * 11 / 10);
  EXPECT_LE(sim.sa.path_queries.size(), 2U * kHosts);  // for the hosts that answer probes
  EXPECT_LE(sim.sink.open.size(), limits.max_held);
  EXPECT_LE(sim.sink.indexes.size(), limits.max_entries);
  std::cout << "storm: " << requests_sent / kSeconds << " ARP requests a second, at most " << most
            << "; " << sim.sa.path_queries.size() << " SA queries in " << kSeconds << " s\n";
}

}  // namespace
}  // namespace ipoib::link
