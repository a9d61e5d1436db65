// SPDX-License-Identifier: BSD-3-Clause
// Capabilities of ethdevs, the settings of their multicast filters, and the removal of a device.
#include "lib/mgmt/device/eth_device.h"

#include <algorithm>

#include "lib/mgmt/device/device_readings.h"
#include "tests/support/device_faults.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

using fabric::MulticastFilter;

constexpr wire::MacAddr kGroups[] = {
    {std::byte{0x33}, std::byte{0x33}, std::byte{0xff}, {}, {}, std::byte{1}},
    {std::byte{0x33}, std::byte{0x33}, std::byte{0xff}, {}, {}, std::byte{2}},
    {std::byte{0x33}, std::byte{0x33}, std::byte{0xff}, {}, {}, std::byte{3}}};

class EthDeviceTest : public NodeFixture {
 protected:
  void SetUp() override { DeviceFaults::reset(); }
  void TearDown() override {
    EXPECT_EQ(DeviceFaults::listeners(), 0U);
    DeviceFaults::reset();
  }
  EthDevice open() const {
    EthDeviceConfig config;
    config.device = ethernet.name;
    config.rx_pools = {outside_pool};
    std::uint16_t port = 0;
    EXPECT_EQ(rte_eth_dev_get_port_by_name(ethernet.name.c_str(), &port), 0);
    EXPECT_EQ(rte_eth_promiscuous_disable(port), 0);  // a ring ethdev starts in promiscuous mode
    auto device = EthDevice::open(config);
    EXPECT_TRUE(device) << device.error().what;
    return std::move(*device);
  }
  static MulticastFilter filter(const EthDevice& device) { return device.capabilities().multicast; }
  static std::vector<wire::MacAddr> first(std::size_t n) { return {kGroups, kGroups + n}; }

  DeviceFaults& faults = DeviceFaults::get();
};

TEST_F(EthDeviceTest, ReceivesAllMulticastWhereItCan) {
  const EthDevice device = open();
  EXPECT_EQ(filter(device), MulticastFilter::kAll);
  EXPECT_EQ(rte_eth_allmulticast_get(device.port()), 1);
  EXPECT_FALSE(device.promiscuous());
  EXPECT_FALSE(faults.removal_interrupt);
}

TEST_F(EthDeviceTest, ElseTheAddressesOfJoinedGroups) {
  faults.no_all_multicast = true;
  faults.max_groups = 2;
  EthDevice device = open();
  EXPECT_EQ(filter(device), MulticastFilter::kGroups);
  EXPECT_FALSE(device.promiscuous());
  for (const wire::MacAddr& group : first(2)) device.groups().join(group);
  device.groups().join(kGroups[0]);  // another group with the same MAC address
  EXPECT_EQ(faults.groups, first(2));
  device.groups().leave(kGroups[1]);
  device.groups().leave(kGroups[0]);
  EXPECT_EQ(faults.groups, first(1));

  // A stop clears the device's list.
  DropCounters drops;
  ASSERT_TRUE(device.stop(drops));
  faults.groups.clear();
  ASSERT_TRUE(device.start(drops));
  EXPECT_EQ(faults.groups, first(1));
  device.groups().leave(kGroups[0]);
  EXPECT_TRUE(faults.groups.empty());
}

TEST_F(EthDeviceTest, MoreGroupsThanItsFilterTakesMakeItPromiscuous) {
  faults.no_all_multicast = true;
  faults.max_groups = 2;
  EthDevice device = open();
  for (const wire::MacAddr& group : kGroups) device.groups().join(group);
  EXPECT_EQ(filter(device), MulticastFilter::kPromiscuous);
  EXPECT_TRUE(device.promiscuous());
  const auto off = device.set_promiscuous(false);
  ASSERT_FALSE(off);
  EXPECT_EQ(off.error().what, "cannot disable promiscuous mode: device " + ethernet.name +
                                  " requires it to receive multicast");
  EXPECT_TRUE(device.promiscuous());
}

TEST_F(EthDeviceTest, RouterOfMulticastNeedsGroupsThatOthersJoined) {
  faults.no_all_multicast = true;
  faults.max_groups = 2;
  EthDevice device = open();
  device.groups().join_all();
  EXPECT_EQ(filter(device), MulticastFilter::kPromiscuous);
}

TEST_F(EthDeviceTest, WithoutAFilterThatCanBeSetItIsPromiscuous) {
  faults.no_all_multicast = true;
  const EthDevice device = open();
  EXPECT_EQ(filter(device), MulticastFilter::kPromiscuous);
  EXPECT_TRUE(device.promiscuous());
}

TEST_F(EthDeviceTest, DeviceThatRefusesAllOfItIsUsedAsItIs) {
  faults.no_all_multicast = faults.no_promiscuous = true;
  const EthDevice device = open();
  EXPECT_EQ(filter(device), MulticastFilter::kUnknown);
}

TEST(EthDeviceCapabilities, AreWhatTheDriverStates) {
  std::uint32_t flags = 0;
  rte_eth_dev_info info{};
  info.dev_flags = &flags;
  const auto most = [&](std::uint64_t offloads, std::uint16_t packet, std::uint16_t frame) {
    info.tx_offload_capa = offloads;
    info.tx_desc_lim.nb_seg_max = packet;
    info.tx_desc_lim.nb_mtu_seg_max = frame;
    return capabilities_of(info).max_segments;
  };
  constexpr auto kChains = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  EXPECT_EQ(most(0, 40, 40), 1) << "the offload is not offered";
  EXPECT_EQ(most(kChains, 40, 8), 8);
  EXPECT_EQ(most(kChains, 5, 8), 5);
  EXPECT_EQ(most(kChains, 0, 8), 8) << "not stated";
  EXPECT_EQ(most(kChains, 0, 0), fabric::kAnySegments);
  EXPECT_FALSE(capabilities_of(info).removal_events);
  EXPECT_FALSE(capabilities_of(info).receives_chains);
  flags = RTE_ETH_DEV_INTR_RMV;
  info.rx_offload_capa = RTE_ETH_RX_OFFLOAD_SCATTER;
  EXPECT_TRUE(capabilities_of(info).removal_events);
  EXPECT_TRUE(capabilities_of(info).receives_chains);
}

TEST_F(EthDeviceTest, AsksForRemovalEventsWhereTheDriverHasThem) {
  std::uint32_t flags = RTE_ETH_DEV_INTR_RMV;
  faults.says = [&](rte_eth_dev_info& info) { info.dev_flags = &flags; };
  const EthDevice device = open();
  EXPECT_TRUE(faults.removal_interrupt);
}

TEST_F(EthDeviceTest, GoneForGoodWhenItIsPulledOut) {
  EthDevice device = open();
  const std::uint16_t port = device.port();
  EXPECT_FALSE(device.removed());
  DeviceFaults::remove(port);
  ASSERT_TRUE(device.removed());
  device.close();
  EXPECT_TRUE(device.closed());
  EXPECT_FALSE(device.removed()) << "that is done";
  EXPECT_FALSE(rte_eth_dev_is_valid_port(port));

  const std::string what =
      "device " + ethernet.name + " was removed; restart the node to use it again";
  DropCounters drops;
  EXPECT_TRUE(device.stop(drops));
  EXPECT_EQ(device.start(drops).error().what, what);
  EXPECT_EQ(device.set_mtu(1500).error().what, what);
  EXPECT_EQ(device.set_promiscuous(true).error().what, what);
  EXPECT_FALSE(device.promiscuous());
  EXPECT_FALSE(link_status(device).up);
  EXPECT_TRUE(device_xstats(device).empty());
  EXPECT_EQ(device_stats(device).rx_missed, 0U);
  device.groups().join(kGroups[0]);
}

class RemovalTest : public EthDeviceTest {
 protected:
  static EthernetPortInfo port(const NodeFaces& node) {
    return ask<EthernetPortInfo>(node, [](const NodeFaces& n) { return n.view.ports()[0]; });
  }
  static HcaInfo hca(const NodeFaces& node) {
    return ask<HcaInfo>(node, [](const NodeFaces& n) { return n.view.hcas()[0]; });
  }
  /// Runs a node that cannot announce its departure to the fabric.
  static void run_without_farewell(const NodeConfig& c, const Outside& outside) {
    ASSERT_TRUE(run_node(c, make_soft, outside));
  }
  /// Returns a packet from another host of the port's network to the peer.
  static std::vector<std::byte> transit_packet() {
    return fwd::test::echo_packet(wire::IpAddr::v4(0xc0a8'0142), wire::IpAddr::v4(kPeerIp), 32);
  }
  /// Sends a packet to the node in two mbufs, of which the first has `first` octets.
  static void give_chain(rte_ring* ring, std::span<const std::byte> octets, std::size_t first) {
    std::array<rte_mbuf*, 2> m{};
    ASSERT_EQ(rte_pktmbuf_alloc_bulk(outside_pool, m.data(), 2), 0);
    const std::span<const std::byte> parts[] = {octets.first(first), octets.subspan(first)};
    for (std::size_t i = 0; i < 2; ++i)
      std::memcpy(rte_pktmbuf_append(m[i], static_cast<std::uint16_t>(parts[i].size())),
                  parts[i].data(), parts[i].size());
    ASSERT_EQ(rte_pktmbuf_chain(m[0], m[1]), 0);
    ASSERT_EQ(rte_ring_enqueue(ring, m[0]), 0);
  }
  static std::uint16_t port_id(const std::string& name) {
    std::uint16_t id = 0;
    EXPECT_EQ(rte_eth_dev_get_port_by_name(name.c_str(), &id), 0);
    return id;
  }
};

// The port is down and reports the reason, workers no longer poll its device, and the link keeps
// working.
TEST_F(RemovalTest, OtherTrafficGoesOnWithoutThePort) {
  run(config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node) && port(node).state == "up"; }));
    EXPECT_EQ(port(node).problem, "");
    DeviceFaults::remove(port_id(ethernet.name));
    EXPECT_TRUE(eventually([&] { return port(node).state == "waiting"; }));
    EXPECT_EQ(port(node).problem, "its device was removed; restart the node to use it again");
    give(ethernet.to_node, ethernet_frame(0x9999, echo_request(), kPeerMac));
    const auto loops = [&] {
      return ask<std::uint64_t>(node, [](const NodeFaces& n) { return n.stats.worker_loops()[0]; });
    };
    const auto before = loops();
    EXPECT_TRUE(eventually([&] { return loops() > before + 10; }));
    EXPECT_EQ(rte_ring_count(ethernet.to_node), 1U);
    EXPECT_TRUE(link_is_up(node));
    const auto start = ask<std::string>(node, [](const NodeFaces& n) -> std::string {
      const auto started = n.control.set_port_started("eth0", true);
      return started ? "" : started.error().what;
    });
    EXPECT_TRUE(start.ends_with("was removed; restart the node to use it again")) << start;
    EXPECT_GE(xstat(node, "eth0", "rx_good_packets"), 0);
  });
}

TEST_F(RemovalTest, OtherTrafficGoesOnWithoutTheCable) {
  run_without_farewell(config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node) && port(node).state == "up"; }));
    DeviceFaults::remove(port_id(cable.name));
    EXPECT_TRUE(eventually([&] { return !link_is_up(node); }));
    EXPECT_TRUE(eventually(
        [&] { return hca(node).problem == "the Ethernet device of the cable was removed"; }));
    const auto received = port(node).traffic.rx_packets;
    give(ethernet.to_node, ethernet_frame(0x9999, echo_request(), port(node).mac));
    EXPECT_TRUE(eventually([&] { return port(node).traffic.rx_packets == received + 1; }));
    EXPECT_GE(xstat(node, "soft0", "rx_drop_ib_pkey"), 0);
  });
}

TEST_F(RemovalTest, CapabilitiesAreShownAndGroupsProgrammed) {
  faults.no_all_multicast = true;
  faults.max_groups = 64;
  run(config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return port(node).state == "up"; }));
    EXPECT_EQ(port(node).capabilities.multicast, MulticastFilter::kGroups);
    EXPECT_EQ(hca(node).capabilities.max_segments, fabric::kAnySegments);
    // The all-nodes group is in the list exactly once.
    EXPECT_TRUE(eventually([&] {
      return ask<bool>(node, [this](const NodeFaces&) {
        const auto all_nodes = wire::group_mac(*wire::parse_ip("ff02::1"));
        return std::count(faults.groups.begin(), faults.groups.end(), all_nodes) == 1;
      });
    }));
  });
}

// The node's own groups do not include the groups that hosts join behind the port.
TEST_F(RemovalTest, PortOfAMulticastRouterReceivesTheGroupsOfOthers) {
  faults.no_all_multicast = true;
  faults.max_groups = 64;
  NodeConfig c = config();
  c.ports[0].ip.multicast_router = true;
  run(c, [](const NodeFaces& node) {
    EXPECT_TRUE(eventually(
        [&] { return port(node).capabilities.multicast == MulticastFilter::kPromiscuous; }));
  });
}

// Workers know the device's limit, and copy chains that it cannot send.
TEST_F(RemovalTest, ChainsLeaveInAsManyMbufsAsTheDeviceSends) {
  faults.says = [](rte_eth_dev_info& info) {
    info.tx_offload_capa &= ~std::uint64_t{RTE_ETH_TX_OFFLOAD_MULTI_SEGS};
  };
  NodeConfig c = config();
  c.redirects = false;
  c.neighbours = {{"eth0", wire::IpAddr::v4(kPeerIp), "02:00:00:00:00:09"}};
  run(c, [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return port(node).state == "up"; }));
    const auto packet = transit_packet();
    const auto frame = ethernet_frame(0x0800, packet, port(node).mac);
    give_chain(ethernet.to_node, frame, 14 + 20);
    // take() returns the first mbuf only.
    EXPECT_EQ(take(ethernet.from_node, 0x0800).size(), frame.size());
  });
}

TEST_F(RemovalTest, SecondaryProcessIsRefused) {
  faults.secondary = true;
  const auto node = Node::create(config(), {0, {1}}, make_soft);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().code, Errc::kRefused);
  EXPECT_TRUE(node.error().what.starts_with("this process is a DPDK secondary process"));
}

}  // namespace
}  // namespace ipoib::mgmt
