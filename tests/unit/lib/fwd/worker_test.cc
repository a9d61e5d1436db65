// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/worker.h"

#include <rte_cycles.h>
#include <rte_malloc.h>

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using table::NextHop;
using table::NextHopKind;

class WorkerTest : public WorkerFixture {
 protected:
  void start_with_neighbours() {
    start();
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    set_neighbour(1, eth_neighbour(kEth1, "192.168.2.10", mac(0x20)));
    set_neighbour(2, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    set_neighbour(3, ib_neighbour(kIb1, "10.1.0.2", 8, 0x000001));
    loop();
  }
};

TEST_F(WorkerTest, P05_U11_ForwardsFromEthernetToLink) {
  start_with_neighbours();
  const Ip4 packet;
  feed(kEth0, to_eth0(packet.bytes()));
  const SentOnLink sent = only_sent_by_link(kIb0);
  // The IPoIB header has type 0x0800 and reserved zero; the packet's TTL is decremented.
  EXPECT_EQ(sent.bytes, encapsulated(0x0800, forwarded(packet), 0));
  EXPECT_EQ(sent.to.ah, 7U);
  EXPECT_EQ(sent.to.qpn, 0xabcdefU);
  EXPECT_EQ(all_drops(), 0U);

  EXPECT_EQ(worker().counters(kEth0).rx_packets.get(), 1U);
  EXPECT_EQ(worker().counters(kEth0).rx_bytes.get(), packet.bytes().size());
  EXPECT_EQ(worker().counters(kIb0).tx_packets.get(), 1U);
  EXPECT_EQ(worker().counters(kIb0).tx_bytes.get(), packet.bytes().size());
}

TEST_F(WorkerTest, P05_ForwardsFromLinkToEthernet) {
  start_with_neighbours();
  const Ip4 packet{.src = "10.0.0.2", .dst = "192.168.2.10"};
  feed(kIb0, to_link(packet.bytes()));
  EXPECT_EQ(sent_by_port(kEth1), Frames{ethernet(mac(0x20), mac(0xa1), 0x0800, forwarded(packet))});
  EXPECT_EQ(worker().counters(kIb0).rx_packets.get(), 1U);
  EXPECT_EQ(worker().counters(kIb0).rx_bytes.get(), packet.bytes().size());
  EXPECT_EQ(worker().counters(kEth1).tx_packets.get(), 1U);
  EXPECT_EQ(worker().counters(kEth1).tx_bytes.get(), packet.bytes().size());
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(WorkerTest, P05_ForwardsBetweenLinksAndBetweenPorts) {
  start_with_neighbours();
  const Ip4 link_packet{.src = "10.0.0.2", .dst = "10.1.0.2", .payload_len = 2024};
  receive(kIb0, to_link(link_packet.bytes()));
  const Ip4 port_packet{.src = "192.168.1.10", .dst = "192.168.2.10"};
  feed(kEth0, to_eth0(port_packet.bytes()));
  const SentOnLink by_link = only_sent_by_link(kIb1);
  EXPECT_EQ(by_link.bytes, to_link(forwarded(link_packet)));
  EXPECT_EQ(by_link.to.ah, 8U);
  EXPECT_EQ(sent_by_port(kEth1),
            Frames{ethernet(mac(0x20), mac(0xa1), 0x0800, forwarded(port_packet))});
}

TEST_F(WorkerTest, KeepsOrderOverBurstsLongerThanOneLoop) {
  start_with_neighbours();
  settings.burst = 10;
  for (std::uint16_t id = 0; id < 25; ++id) receive(kEth0, to_eth0(Ip4{.id = id}.bytes()));
  loop();
  EXPECT_EQ(links[0].sent.size(), 10U);
  loop();
  loop();
  const auto sent = sent_by_link(kIb0);
  ASSERT_EQ(sent.size(), 25U);
  for (std::uint16_t id = 0; id < 25; ++id)
    EXPECT_EQ(sent[id].bytes, to_link(forwarded({.id = id})));
  EXPECT_EQ(links[0].tx_bursts, (std::vector<std::uint16_t>{10, 10, 5})) << "one call a burst";
}

// The vectorised receive functions of drivers return no packets if asked for fewer than 8.
TEST_F(WorkerTest, BurstSettingIsKeptWithinBounds) {
  start_with_neighbours();
  for (const auto& [setting, expected] :
       {std::pair{0, 8}, {1, 8}, {8, 8}, {9, 9}, {64, 64}, {65535, 64}}) {
    settings.burst = static_cast<std::uint16_t>(setting);
    for (int i = 0; i < 100; ++i) receive(kEth0, to_eth0(Ip4{}.bytes()));
    loop();
    EXPECT_EQ(sent_by_link(kIb0).size(), static_cast<std::size_t>(expected)) << setting;
    settings.burst = 64;
    loop();
    loop();
    sent_by_link(kIb0);
  }
}

TEST_F(WorkerTest, StoppedDropsIpAndStillPassesArpUp) {
  start_with_neighbours();
  settings.forwarding = false;
  receive(kEth0, to_eth0(Ip4{}.bytes()));
  receive(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0800, Ip4{}.bytes()));
  receive(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0806, Bytes(28)));
  receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.1.1"}.bytes()));
  loop();
  EXPECT_EQ(drops(kEth0, Drop::kForwardingStopped), 1U);
  EXPECT_EQ(drops(kEth0, Drop::kIpBroadcast), 1U);
  EXPECT_EQ(drops(kIb0, Drop::kForwardingStopped), 1U);
  EXPECT_EQ(all_drops(), 3U);
  EXPECT_EQ(only_punted().message.kind, msg::Up::Kind::kArp);

  settings.forwarding = true;
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_EQ(sent_by_link(kIb0).size(), 1U);
}

TEST_F(WorkerTest, CountsItsLoopsAndBursts) {
  start_with_neighbours();
  const auto loops = worker().stats().loops.get();
  const auto busy = worker().stats().busy_loops.get();
  for (const int n : {1, 3, 40, 64, 64}) {
    settings.burst = 64;
    for (int i = 0; i < n; ++i) receive(kEth0, to_eth0(Ip4{}.bytes()));
    loop();
    sent_by_link(kIb0);
  }
  loop();
  const WorkerStats& stats = worker().stats();
  EXPECT_EQ(stats.loops.get() - loops, 6U);
  // A loop is counted as busy when the next one begins. The loop that applied the neighbours is
  // therefore one of the six.
  EXPECT_EQ(stats.busy_loops.get() - busy, 6U);
  EXPECT_GT(stats.busy_cycles.get(), 0U);
  EXPECT_EQ(stats.rx_packets.get(), 172U);
  const std::uint64_t calls = 4 * stats.loops.get();  // one call for each interface
  EXPECT_EQ(stats.bursts[0].get(), calls - 5);
  EXPECT_EQ(stats.bursts[1].get(), 1U);
  EXPECT_EQ(stats.bursts[2].get(), 1U);
  EXPECT_EQ(stats.bursts[6].get(), 1U);
  EXPECT_EQ(stats.bursts[7].get(), 2U);
}

TEST_F(WorkerTest, P07_StampsNeighboursItSendsTo) {
  configs[0].epoch_tsc = rte_rdtsc() - 100 * rte_get_tsc_hz();
  start_with_neighbours();
  EXPECT_EQ(worker().last_used_s(2), 0U) << "never used";
  feed(kEth0, to_eth0(Ip4{}.bytes()));
  EXPECT_GE(worker().last_used_s(2), 100U);
  EXPECT_LE(worker().last_used_s(2), 110U);
  EXPECT_EQ(worker().last_used_s(3), 0U);
}

TEST_F(WorkerTest, P07_RunsOnItsOwnThreadUntilToldToStop) {
  start_with_neighbours();
  for (const IdlePolicy policy : {IdlePolicy::kPoll, IdlePolicy::kPause, IdlePolicy::kSleep}) {
    settings.idle = policy;
    // A stopped worker cannot run again, so each policy has its own worker.
    auto again = Worker::create(configs[0]);
    ASSERT_TRUE(again);
    std::thread thread{[&] { (*again)->run(); }};
    const std::uint64_t token = rte_rcu_qsbr_start(rcu);
    // The running worker reports quiescent states, so this returns at once or within a few loops.
    EXPECT_EQ(rte_rcu_qsbr_check(rcu, token, true), 1);
    while ((*again)->stats().loops.get() < 100) std::this_thread::yield();
    (*again)->stop();
    thread.join();
    EXPECT_EQ(rte_rcu_qsbr_check(rcu, rte_rcu_qsbr_start(rcu), false), 1)
        << "nobody is waited for when no worker runs";
  }
}

TEST_F(WorkerTest, RefusesAConfigurationThatCannotWork) {
  start();
  const WorkerConfig good = configs[0];
  const auto refused = [&](auto&& change) {
    WorkerConfig bad = good;
    change(bad);
    const auto worker = Worker::create(bad);
    return !worker && worker.error().code == Errc::kInvalidArgument && !worker.error().what.empty();
  };
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.settings = nullptr; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.up = nullptr; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.down = nullptr; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.doorbell = nullptr; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.next_hops = nullptr; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.prefixes = nullptr; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.rcu = nullptr; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.fragment_pool = nullptr; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.hcas.push_back({}); }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.punt.interval_us = 0; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.neighbour_capacity = 0; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.queues.pop_back(); }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.queues[kEth0].eth_tx.reset(); }))
      << "others hand their packets to it";
  // The interfaces belong to another worker, and there is no ring to it.
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.number = 1; }));
  EXPECT_TRUE(refused([](WorkerConfig& c) { c.queues[kIb0].ud = nullptr; }));
}

/// A device without hardware of its own, which a worker polls once per loop.
class CountingHca final : public fabric::Hca {
 public:
  CountingHca() : Hca{"polled", {.poll = &CountingHca::poll}} {}
  int polls = 0;
  std::uint32_t frames = 0;  ///< Read by each poll.
  std::uint16_t asked = 0;   ///< Burst size of the last poll.
  const fabric::PortAttr& attr() const override { return attr_; }
  fabric::MadPort& mad_port() override { std::abort(); }
  fabric::Capabilities capabilities() const override { return {}; }
  Result<fabric::UdQueue*> create_ud_queue(const fabric::UdQueueConfig&) override { return none(); }
  void destroy_ud_queue(fabric::UdQueue&) override {}
  Status set_qkey(fabric::UdQueue&, std::uint32_t) override { return none(); }
  Status attach(fabric::UdQueue&, const wire::Gid&, std::uint16_t) override { return none(); }
  Status detach(fabric::UdQueue&, const wire::Gid&, std::uint16_t) override { return none(); }
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr&) override { return none(); }
  void destroy_ah(fabric::AhIndex) override {}
  std::optional<fabric::PortEvent> next_event() override { return std::nullopt; }
  std::string problem() const override { return {}; }
  DropTotals drops() const override { return {}; }

 private:
  static tl::unexpected<Error> none() { return fail(Errc::kUnavailable, "nothing to test here"); }
  static std::uint32_t poll(Hca& hca, unsigned worker, std::uint16_t burst) noexcept {
    EXPECT_EQ(worker, 3U);
    static_cast<CountingHca&>(hca).asked = burst;
    ++static_cast<CountingHca&>(hca).polls;
    return static_cast<CountingHca&>(hca).frames;
  }
  fabric::PortAttr attr_;
};

// The capacity decides, not the number of neighbours that the worker has.
TEST_F(WorkerTest, P14_MemoryOfItsTablesIsKnown) {
  neighbour_capacity = 1024;
  start();
  const std::size_t deliveries = 128 * sizeof(table::Delivery);
  EXPECT_GE(worker().table_octets(), 1024 * (64 + 16) + deliveries);
  EXPECT_LE(worker().table_octets(), 1024 * (64 + 32) + 2 * deliveries);
}

TEST_F(WorkerTest, P07_PollsDevicesOncePerLoop) {
  CountingHca hca;
  configs[0].hcas = {{.hca = &hca, .worker = 3}};
  start();
  loop();
  loop();
  EXPECT_EQ(hca.polls, 2);
  EXPECT_EQ(hca.asked, settings.burst);
  settings.burst = 1;
  loop();
  EXPECT_EQ(hca.asked, kMinReceived);
  EXPECT_EQ(worker().iterate(), 0U);
  hca.frames = 7;
  EXPECT_EQ(worker().iterate(), 7U) << "it must not sleep while it reads for other workers";
}

/// Frames are good ones cut to every length, and random octets of many lengths. Each packet is
/// forwarded, punted or counted, and none leaks (TearDown() checks the mempool).
TEST_F(WorkerTest, BadInputIsAlwaysAccountedFor) {
  start_with_neighbours();
  settings.burst = 64;
  std::independent_bits_engine<std::mt19937, 8, unsigned> random{7};
  const Ip4 good{.payload_len = 100, .options = Bytes(8, std::byte{1})};
  std::uint64_t fed = 0, gone_up = 0, sent = 0;
  const auto receive_and_count = [&](table::InterfaceId iface, const Bytes& bytes) {
    receive(iface, bytes, random() % 4 == 0);
    ++fed;
    if (fed % 50 != 0) return;
    loop();
    gone_up += punted().size();
    sent += sent_by_port(kEth0).size() + sent_by_port(kEth1).size() + sent_by_link(kIb0).size() +
            sent_by_link(kIb1).size();
  };
  for (int round = 0; round < 40; ++round) {
    for (const table::InterfaceId iface : {kEth0, kIb0}) {
      const Bytes whole = iface == kEth0 ? to_eth0(good.bytes()) : to_link(good.bytes());
      for (std::size_t len = 0; len <= whole.size(); ++len) {
        Bytes cut{whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(len)};
        // The first round only cuts frames; later ones also change octets among the first 40.
        for (int spoiled = 0; spoiled < round && !cut.empty(); ++spoiled)
          cut[random() % std::min<std::size_t>(cut.size(), 40)] = static_cast<std::byte>(random());
        receive_and_count(iface, cut);
      }
      for (std::size_t len = 0; len < 64; ++len) {
        Bytes noise(len);
        for (std::byte& b : noise) b = static_cast<std::byte>(random());
        receive_and_count(iface, noise);
      }
    }
  }
  while (fed % 50 != 0) receive_and_count(kEth0, {});
  // A packet that causes an ICMP error is both counted and punted.
  std::uint64_t errors = 0;
  for (const Drop reason : {Drop::kIpNoRoute, Drop::kIpTtlExceeded})
    for (const table::InterfaceId iface : {kEth0, kIb0}) errors += drops(iface, reason);
  EXPECT_GT(sent, 0U);
  EXPECT_GE(sent + gone_up + all_drops(), fed);
  EXPECT_LE(sent + gone_up + all_drops(), fed + errors);
  EXPECT_EQ(worker().stats().rx_packets.get(), fed);
  EXPECT_GT(all_drops(), fed / 2);
}

}  // namespace
}  // namespace ipoib::fwd::test
