// SPDX-License-Identifier: BSD-3-Clause
// ARP packets of every length and content change only counters, or create sound entries.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t len) {
  std::vector<std::byte> bytes(len);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST(ArpGarbage, RandomOctetsOfEveryLengthAreInvalid) {
  SimIpoibLink sim;
  sim.bring_up();
  EthernetPortConfig config;
  config.addresses = {prefix("192.168.1.1/24")};
  FakeNeighbourSink eth_sink;
  FakePortActions eth_actions;
  EthernetPort eth{config, eth_actions, eth_sink, 1};
  eth.start(sim.now);

  std::mt19937_64 random{1};
  std::uint64_t n = 0;
  for (std::size_t len = 0; len <= 256; ++len)
    for (int i = 0; i < 20; ++i, ++n) {
      const auto bytes = random_bytes(random, len);
      sim.link.on_arp(bytes, 0, 0, sim.now);
      eth.on_arp(bytes, 0, 0, sim.now);
    }
  EXPECT_EQ(sim.link.counters().arp_received, n);
  EXPECT_EQ(sim.link.counters().arp_invalid, n);
  EXPECT_EQ(eth.counters().arp.invalid, n);
  EXPECT_TRUE(sim.sink.indexes.empty());
  EXPECT_TRUE(eth_sink.indexes.empty());
  EXPECT_TRUE(sim.sa.path_queries.empty());
}

TEST(ArpGarbage, EveryTruncationOfAGoodRecordIsInvalid) {
  SimIpoibLink sim;
  sim.bring_up();
  const auto hw = sim.add_host(0xb, 0x50, 3);
  const auto arp = wire::build_arp({wire::ArpOp::kRequest, hw, ip("10.0.0.2").v4_host(),
                                    wire::LinkAddr{}, ip("10.0.0.1").v4_host()});
  for (std::size_t len = 0; len < arp.size(); ++len)
    sim.link.on_arp(std::span<const std::byte>{arp}.first(len), 0, 0, sim.now);
  EXPECT_EQ(sim.link.counters().arp_invalid, arp.size());
  EXPECT_TRUE(sim.sink.indexes.empty());
  // Octets after the record are padding.
  std::vector<std::byte> padded(100, std::byte{0xee});
  std::copy(arp.begin(), arp.end(), padded.begin());
  sim.link.on_arp(padded, 0, 0, sim.now);
  sim.run_for(10ms);
  EXPECT_TRUE(sim.sink.valid(ip("10.0.0.2")));
}

/// Good records arrive with some changed octets. Every entry stays sound (the fakes check handles
/// and packets), the link never learns its own address, and nothing is left at the end.
TEST(ArpGarbage, MutatedRecordsLeaveASoundLink) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimIpoibLink sim{SimIpoibLink::default_config(), seed};
    sim.bring_up();
    std::mt19937_64 random{seed};
    std::vector<wire::LinkAddr> hosts;
    for (std::uint32_t i = 0; i < 4; ++i)
      hosts.push_back(sim.add_host(0x10 + i, 0x50 + i, static_cast<std::uint16_t>(3 + i)));
    for (int i = 0; i < 2000; ++i) {
      const auto& hw = hosts[random() % hosts.size()];
      auto bytes =
          wire::build_arp({random() % 2 == 0 ? wire::ArpOp::kRequest : wire::ArpOp::kReply, hw,
                           ip("10.0.0.2").v4_host() + static_cast<std::uint32_t>(random() % 3),
                           wire::LinkAddr{}, ip("10.0.0.1").v4_host()});
      for (auto changes = random() % 4; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      sim.link.on_arp(bytes, static_cast<std::uint16_t>(random()),
                      static_cast<std::uint32_t>(random() & 0xff'ffff), sim.now);
      if (random() % 8 == 0)
        sim.want(
            wire::IpAddr::v4(ip("10.0.0.2").v4_host() + static_cast<std::uint32_t>(random() % 3)));
      if (random() % 4 == 0) sim.run_for(std::chrono::milliseconds(random() % 300));
    }
    EXPECT_EQ(sim.sink.find(ip("10.0.0.1")), nullptr);
    for (const auto& row : sim.link.neighbours(sim.now))
      EXPECT_TRUE(wire::contains(prefix("10.0.0.1/24"), row.addr)) << wire::to_string(row.addr);
    const auto c = sim.link.counters();
    EXPECT_EQ(c.arp_received + c.rarp.requests + c.rarp.invalid, 2000U);
    EXPECT_GT(c.arp_invalid, 0U);
    sim.link.stop(sim.now);
    sim.run_for(3s);
    sim.expect_nothing_left();
  }
}

TEST(ArpGarbage, P16_FloodOfStrangersIsBoundedInQueriesAndEntries) {
  auto config = SimIpoibLink::default_config();
  config.addresses = {prefix("10.0.0.1/8")};
  config.neighbour.max_entries = 1000;
  SimIpoibLink sim{config};
  sim.bring_up();
  sim.sa_delay = 5ms;
  const auto begin = sim.now;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const wire::LinkAddr stranger{0, wire::Be24{0x100 + i},
                                  wire::Gid::of(wire::kDefaultGidPrefix, 0x1000 + i)};
    sim.receive_arp_request(stranger, wire::to_string(wire::IpAddr::v4(0x0a01'0000 + i)));
    EXPECT_LE(sim.sink.indexes.size(), 500U) << "half of the table";
    if (i % 100 == 0) sim.run_for(10ms);
  }
  // 1,000 a second, and a burst of 256.
  EXPECT_GE(sim.sa.path_queries.size(), 256U);
  EXPECT_LE(sim.sa.path_queries.size(), 257 + static_cast<std::size_t>((sim.now - begin) / 1ms));
  // A neighbour that packets are for need not wait until the strangers are served.
  const auto host = sim.add_host(0xb, 0x50, 3);
  sim.want(ip("10.0.0.2"));
  sim.receive_arp_reply(host, "10.0.0.2");
  sim.run_for(20ms);
  EXPECT_TRUE(sim.sink.valid(ip("10.0.0.2")));
  sim.link.stop(sim.now);
  sim.run_for(3s);
  sim.expect_nothing_left();
}

}  // namespace
}  // namespace ipoib::link
