// SPDX-License-Identifier: BSD-3-Clause
// Queues of Ethernet ports: their number by device and workers, the spread of flows over them, and
// a node whose workers share a port.
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_random.h>
#include <rte_thash.h>

#include <map>

#include "lib/mgmt/device/eth_device.h"
#include "tests/support/device_faults.h"
#include "tests/unit/lib/mgmt/shared_port_fixture.h"

namespace ipoib::mgmt {
namespace {

struct Queues {
  const char* driver;
  unsigned max_rx, max_tx, receivers, senders;
  unsigned rx, tx;
};

TEST(PortQueues, P14_NumbersFollowTheWorkersAndTheDevice) {
  for (const Queues& q :
       {Queues{"net_ice", 256, 256, 1, 1, 1, 1}, Queues{"net_ice", 256, 256, 3, 5, 3, 5},
        Queues{"net_ixgbe_vf", 4, 2, 3, 5, 3, 2},
        // The device or its peer has queues in pairs.
        Queues{"net_tap", 16, 16, 1, 4, 1, 1}, Queues{"net_memif", 255, 255, 2, 4, 2, 2},
        // It would receive on four.
        Queues{"net_virtio", 8, 8, 1, 4, 1, 1},
        // Packets arrive at all queues that were given when the device was created.
        Queues{"net_af_packet", 2, 2, 1, 4, 2, 2}, Queues{"net_ring", 4, 1, 3, 3, 4, 1}}) {
    rte_eth_dev_info info{};
    info.driver_name = q.driver;
    info.max_rx_queues = static_cast<std::uint16_t>(q.max_rx);
    info.max_tx_queues = static_cast<std::uint16_t>(q.max_tx);
    const auto numbers = queues_for(info, q.receivers, q.senders);
    ASSERT_TRUE(numbers);
    EXPECT_EQ(numbers->rx, q.rx) << q.driver;
    EXPECT_EQ(numbers->tx, q.tx) << q.driver;
    const auto too_many = queues_for(info, q.max_rx + 1, q.senders);
    ASSERT_FALSE(too_many);
    EXPECT_EQ(too_many.error().code, Errc::kUnavailable);
    EXPECT_EQ(too_many.error().what, fmt::format("the device has {} receive queues, and {} workers "
                                                 "receive",
                                                 q.max_rx, q.max_rx + 1));
  }
}

/// A device without a wire. Its driver has RSS with 128 hash values.
class RssTest : public NodeFixture {
 protected:
  void SetUp() override {
    DeviceFaults::reset();
    ASSERT_EQ(rte_vdev_init("net_null7", ""), 0);
  }
  void TearDown() override {
    DeviceFaults::reset();
    EXPECT_EQ(rte_vdev_uninit("net_null7"), 0);
  }
  static Result<EthDevice> open(std::size_t receivers, unsigned senders) {
    EthDeviceConfig config;
    config.device = "net_null7";
    config.rx_pools.assign(receivers, outside_pool);
    config.senders = senders;
    return EthDevice::open(config);
  }
  /// Number of hash values by receive queue.
  static std::map<unsigned, unsigned> hashes(const EthDevice& device) {
    std::array<rte_eth_rss_reta_entry64, 2> table{};
    for (auto& group : table) group.mask = ~std::uint64_t{0};
    EXPECT_EQ(rte_eth_dev_rss_reta_query(device.port(), table.data(), 128), 0);
    std::map<unsigned, unsigned> shares;
    for (const auto& group : table)
      for (const std::uint16_t queue : group.reta) ++shares[queue];
    return shares;
  }

  DeviceFaults& asked = DeviceFaults::get();
};

TEST_F(RssTest, P14_HashValuesAreSharedEvenly) {
  auto device = open(3, 5);
  ASSERT_TRUE(device) << device.error().what;
  EXPECT_EQ(asked.rx_queues, 3);
  EXPECT_EQ(asked.tx_queues, 5);
  const std::map<unsigned, unsigned> even{{0, 43}, {1, 43}, {2, 42}};
  EXPECT_EQ(hashes(*device), even);

  // A device may forget its table when it stops.
  DropCounters drops;
  ASSERT_TRUE(device->stop(drops));
  std::array<rte_eth_rss_reta_entry64, 2> one{};
  for (auto& group : one) group.mask = ~std::uint64_t{0};
  ASSERT_EQ(rte_eth_dev_rss_reta_update(device->port(), one.data(), 128), 0);
  ASSERT_TRUE(device->start(drops));
  EXPECT_EQ(hashes(*device), even);
}

/// Hash of the addresses and ports with the key that the device was given.
std::uint32_t hash(const std::vector<std::uint8_t>& key, rte_ipv4_tuple tuple) {
  return rte_softrss(reinterpret_cast<std::uint32_t*>(&tuple), RTE_THASH_V4_L4_LEN, key.data());
}

TEST_F(RssTest, P14_BothDirectionsOfAFlowHaveOneHash) {
  asked.says = [](rte_eth_dev_info& info) { info.hash_key_size = 40; };
  auto device = open(2, 2);
  ASSERT_TRUE(device) << device.error().what;
  EXPECT_NE(asked.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_TCP, 0U);
  EXPECT_NE(asked.rss_hf & RTE_ETH_RSS_NONFRAG_IPV6_UDP, 0U);
  ASSERT_EQ(asked.rss_key.size(), 40U);
  // Drivers read the key at every start.
  DropCounters drops;
  asked.rss_key.clear();
  ASSERT_TRUE(device->stop(drops));
  ASSERT_TRUE(device->start(drops));
  ASSERT_EQ(asked.rss_key.size(), 40U);
  rte_ipv4_tuple there{}, back{};
  there.src_addr = back.dst_addr = 0xc0a8'0102;
  there.dst_addr = back.src_addr = 0x0a00'0007;
  there.sport = back.dport = 40'000;
  there.dport = back.sport = 443;
  EXPECT_EQ(hash(asked.rss_key, there), hash(asked.rss_key, back));
  back.dport = 40'001;
  EXPECT_NE(hash(asked.rss_key, there), hash(asked.rss_key, back)) << "another flow";
}

TEST_F(RssTest, P14_OneQueueHasNoRss) {
  const auto device = open(1, 2);
  ASSERT_TRUE(device) << device.error().what;
  EXPECT_EQ(asked.rss_hf, 0U);
}

TEST_F(RssTest, P14_DeviceWithFewerQueuesThanReceiversIsRefused) {
  asked.says = [](rte_eth_dev_info& info) { info.max_rx_queues = 2; };
  const auto device = open(3, 3);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().what,
            "net_null7: the device has 2 receive queues, and 3 workers receive");
}

TEST_F(RssTest, P14_OnlyADeviceThatSpreadsFlowsServesAllWorkersUnasked) {
  EXPECT_GE(spread_of("net_null7").queues, 16U);
  EXPECT_EQ(spread_of("no_such_device").queues, 1U);
  for (const char* const driver : {"net_virtio", "net_memif", "net_tap", "net_af_packet"}) {
    asked.says = [driver](rte_eth_dev_info& info) { info.driver_name = driver; };
    EXPECT_EQ(spread_of("net_null7").queues, 1U) << driver;
  }
  asked.says = [](rte_eth_dev_info& info) { info.flow_type_rss_offloads = 0; };
  EXPECT_EQ(spread_of("net_null7").queues, 1U);
}

TEST_F(RssTest, P14_AutoGivesTheQueuesToAllWorkers) {
  NodeConfig c = config();
  c.total_num_mbufs = 0;
  c.ports[0].device = "net_null7";
  c.worker.count = 3;
  c.worker.assign.clear();
  const auto node = build_node(
      c, {0, {1, 2, 3}}, make_soft, []() noexcept { return std::uint64_t{rte_rdtsc()}; }, 1);
  ASSERT_TRUE(node) << node.error().what;
  EXPECT_EQ((*node)->faces.view.ports()[0].workers, (std::vector{0U, 1U, 2U}));
  EXPECT_EQ((*node)->faces.view.ports()[0].rx_queues, 3U);
}

TEST_F(RssTest, P14_AutoTakesFewerQueuesIfTheDriverRefuses) {
  asked.powers_of_two = true;
  NodeConfig c = config();
  c.total_num_mbufs = 0;
  c.ports[0].device = "net_null7";
  c.worker.count = 3;
  c.worker.assign = {{"eth0", {0, 1, 2}}};
  const auto build = [&] {
    return build_node(
        c, {0, {1, 2, 3}}, make_soft, []() noexcept { return std::uint64_t{rte_rdtsc()}; }, 1);
  };
  EXPECT_FALSE(build()) << "it was asked for";
  c.worker.assign.clear();
  const auto node = build();
  ASSERT_TRUE(node) << node.error().what;
  EXPECT_EQ((*node)->faces.view.ports()[0].workers, (std::vector{0U, 1U}));
}

TEST_F(RssTest, P14_AGivenNumberOfMbufsIsForOneQueue) {
  NodeConfig c = config();
  c.ports[0].device = "net_null7";
  c.worker.count = 3;
  c.total_num_mbufs = 8192;
  const auto node = build_node(
      c, {0, {1, 2, 3}}, make_soft, []() noexcept { return std::uint64_t{rte_rdtsc()}; }, 1);
  ASSERT_TRUE(node) << node.error().what;
  EXPECT_EQ((*node)->faces.view.ports()[0].workers, std::vector{0U});
}

using SharedPortTest = SharedPortFixture;

TEST_F(SharedPortTest, P14_IsServedAndShownByBothWorkers) {
  begin(config());
  EXPECT_EQ(row().rx_queues, 2U);
  EXPECT_EQ(row().tx_queues, 2U);
  EXPECT_EQ(row().workers, (std::vector{1U, 0U}));
  for (const WorkerInfo& w : node->faces.stats.workers())
    EXPECT_EQ(std::count(w.interfaces.begin(), w.interfaces.end(), "eth0"), 1) << w.number;

  give(port.in[1], ethernet_frame(0x0800, echo_request(), row().mac));
  pass();
  std::map<unsigned, std::pair<unsigned, std::uint64_t>> received;  // by worker: queue and packets
  for (const QueueTotals& q : node->faces.stats.totals().queues)
    if (q.interface == "eth0") received[q.worker] = {q.queue, q.rx_packets};
  EXPECT_EQ(received, (decltype(received){{0, {1, 1}}, {1, {0, 0}}}));
}

// The worker that receives a packet from a port sends it by its own queue pair and its own queue of
// the cable.
TEST_F(SharedPortTest, P14_BothWorkersSendOnTheLink) {
  TwoQueues wide;
  NodeConfig c = config();
  c.hcas[0].wire = wide.name;
  c.neighbours = {{"ib0", *wire::parse_ip("10.0.0.9"),
                   "00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:09", 9}};
  begin(c);
  std::map<unsigned, unsigned> queues;  // of ib0 by worker
  for (const QueueTotals& q : node->faces.stats.totals().queues)
    if (q.interface == "ib0") queues[q.worker] = q.queue;
  EXPECT_EQ(queues, (decltype(queues){{0, 0}, {1, 1}}));
  for (int i = 0; i < 50; ++i) pass();
  ASSERT_EQ(node->faces.view.links()[0].state, "up");
  for (rte_ring* ring : wide.out) test::empty(ring);

  std::array<std::uint32_t, 2> source{};
  for (std::size_t worker = 0; worker < 2; ++worker) {
    // Receive queue 0 of the port is worker 1's, transmit queue 0 of the cable worker 0's.
    const auto packet =
        fwd::test::Ip4{.src = "192.168.1.77", .dst = "10.0.0.9", .payload_len = 100}.bytes();
    give(port.in[1 - worker], ethernet_frame(0x0800, packet, row().mac));
    pass();
    pass();
    EXPECT_EQ(test::next_of(wide.out[1 - worker]), nullptr);
    rte_mbuf* const m = test::next_of(wide.out[worker]);
    ASSERT_NE(m, nullptr) << worker;
    source[worker] = rte_pktmbuf_mtod_offset(m, const wire::Deth*, 14 + 8 + 12)->src_qp.host();
    rte_pktmbuf_free(m);
  }
  EXPECT_EQ(source[0], node->faces.view.links()[0].qpn) << "the address of the link";
  EXPECT_NE(source[1], source[0]);
}

// Worker 1 is the first of the cable: it reads receive queue 0, and has the first queue pair.
TEST_F(SharedPortTest, P14_BothWorkersReadTheCable) {
  TwoQueues wide;
  NodeConfig c = config();
  c.hcas[0].wire = wide.name;
  c.worker.assign["soft0"] = {1, 0};
  begin(c);
  for (int i = 0; i < 50; ++i) pass();
  const LinkInfo link = node->faces.view.links()[0];
  ASSERT_EQ(link.state, "up");
  const auto& queues = node->parts->links[0]->queues();
  ASSERT_EQ(queues.workers, (std::vector{1U, 0U}));
  EXPECT_EQ(queues.ud[0]->qpn(), link.qpn);
  const auto received = [this] {
    std::array<std::uint64_t, 2> packets{};  // of ib0, by worker
    for (const QueueTotals& q : node->faces.stats.totals().queues)
      if (q.interface == "ib0") packets[q.worker] = q.rx_packets;
    return packets;
  };
  const auto loop = [this](unsigned worker) {
    node->parts->workers.all()[worker].worker->iterate(node->parts->clock.tsc());
  };
  const auto before = received();
  // Each worker finds the frame for its own queue pair.
  for (const std::size_t queue : {0U, 1U})
    give(wide.in[queue], cable_frame(link, queues.ud[queue]->qpn(), 9));
  loop(1);
  EXPECT_EQ(received(), (std::array{before[0], before[1] + 1}));
  loop(0);
  EXPECT_EQ(received(), (std::array{before[0] + 1, before[1] + 1}));

  // Worker 1 passes frames for the other one on.
  for (int i = 0; i < 5; ++i) give(wide.in[0], cable_frame(link, queues.ud[1]->qpn(), 9));
  loop(0);
  EXPECT_EQ(received(), (std::array{before[0] + 1, before[1] + 1}));
  loop(1);
  loop(0);
  EXPECT_EQ(received(), (std::array{before[0] + 6, before[1] + 1}));
}

TEST_F(SharedPortTest, P14_QueuePairsOfALinkAreLimited) {
  TwoQueues wide;
  NodeConfig c = config();
  c.hcas[0].wire = wide.name;
  c.links[0].queue_pairs = 1;
  begin(c);
  const auto queues = node->faces.stats.totals().queues;
  EXPECT_EQ(std::count_if(queues.begin(), queues.end(),
                          [](const QueueTotals& q) { return q.interface == "ib0"; }),
            1);
}

// The messages of connections may hold as many mbufs as the mempool was made for, whether the cable
// has queues for all workers or for one.
TEST_F(SharedPortTest, P14_ServedWorkersShareTheMbufsOfMessages) {
  TwoQueues wide;
  for (const auto& [wire, workers] : {std::pair{wide.name, 2U}, {cable.name, 1U}}) {
    const TwoQueues eth;
    NodeConfig c = config();
    c.ports[0].device = eth.name;
    c.hcas[0].wire = wire;
    c.links[0].mode = LinkMode::kConnectedRc;
    c.total_num_mbufs = 8192;
    c.worker.count = 2;
    std::uint32_t mbufs = 0;
    const HcaFactory make =
        [&mbufs](const HcaConfig&, const HcaResources& r) -> Result<std::unique_ptr<fabric::Hca>> {
      mbufs = r.message_mbufs;
      return fail(Errc::kUnavailable, "only the resources are looked at");
    };
    EXPECT_FALSE(build_node(c, {0, {1, 2}}, make, real_tsc, 1));
    EXPECT_EQ(mbufs, 4096 / workers);
  }
}

// Packets on all queues that no worker has taken are dropped and counted.
TEST_F(SharedPortTest, P14_StopDrainsAllQueues) {
  begin(config());
  for (rte_ring* ring : port.in) give(ring, ethernet_frame(0x0800, echo_request(), row().mac));
  ASSERT_TRUE(node->faces.control.set_port_started("eth0", false));
  EXPECT_EQ(row().traffic.drops[static_cast<std::size_t>(Drop::kLinkDown)], 2U);
  ASSERT_TRUE(node->faces.control.set_port_started("eth0", true));
}

}  // namespace
}  // namespace ipoib::mgmt
