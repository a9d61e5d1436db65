// SPDX-License-Identifier: BSD-3-Clause
// Packets with forged sources, IPv4 and IPv6. Some make a node send to itself, and each of these once
// ended the process: packets from own addresses, and answers to absent hosts.
#include <algorithm>
#include <string>
#include <string_view>

#include "lib/wire/ip.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

using wire::IpAddr;

constexpr std::uint8_t kIcmp = 1, kUdp = 17, kIcmp6 = 58;

struct Packet {
  std::string_view name;
  std::string_view src;
  std::string_view dst;
  std::uint8_t protocol = kUdp;
  std::uint8_t hops = 64;
};

std::vector<std::byte> bytes_of(const Packet& packet) {
  const IpAddr src = *wire::parse_ip(packet.src), dst = *wire::parse_ip(packet.dst);
  if (packet.protocol != kUdp) return fwd::test::echo_packet(src, dst, 32);
  return fwd::test::ip_packet(src, dst, kUdp, std::vector(40, std::byte{0x42}), packet.hops);
}

struct OwnSourceTest : NodeFixture {
  NodeConfig config() {
    NodeConfig c = NodeFixture::config();
    c.ports[0].addresses.push_back(*wire::parse_prefix("fd00:1::1/64"));
    c.links[0].addresses.push_back(*wire::parse_prefix("fd00:a::1/64"));
    // The node gives up an absent host after a tenth of a second.
    c.neighbour.retransmit = 100ms;
    c.neighbour.max_requests = 1;
    // Packets are given up with their neighbour, however late the node is.
    c.neighbour.max_held_age = 1min;
    return c;
  }
  void give(const NodeFaces& node, const Packet& packet) {
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    NodeFixture::give(ethernet.to_node,
                      ethernet_frame(wire::parse_ip(packet.src)->is_v4() ? 0x0800 : 0x86dd,
                                     bytes_of(packet), mac));
  }
  /// The node uses its own IPv6 addresses only after duplicate address detection.
  static bool is_ready(const NodeFaces& node) {
    const auto ready = [](const auto& iface) {
      const auto& addresses = iface.ip6.addresses;
      return iface.state == "up" && !addresses.empty() &&
             std::all_of(addresses.begin(), addresses.end(),
                         [](const auto& a) { return a.state == link::AddressState::kReady; });
    };
    return ask<bool>(node, [&](const NodeFaces& n) {
      return ready(n.view.ports()[0]) && ready(n.view.links()[0]);
    });
  }
  static std::uint64_t drops(const NodeFaces& node, Drop reason) {
    return ask<std::uint64_t>(node, [reason](const NodeFaces& n) {
      return n.view.ports()[0].traffic.drops[static_cast<std::size_t>(reason)];
    });
  }
  static std::uint64_t node_drops(const NodeFaces& node, Drop reason) {
    return ask<std::uint64_t>(node, [reason](const NodeFaces& n) {
      return n.stats.totals().drops[static_cast<std::size_t>(reason)];
    });
  }
};

TEST_F(OwnSourceTest, PacketsFromOwnAddressesAreMartian) {
  NodeConfig c = config();
  c.routes = {{*wire::parse_prefix("10.9.0.0/16"), {}, true},  // blackholes
              {*wire::parse_prefix("fd00:9::/32"), {}, true}};
  const std::vector<Packet> packets = {
      {"ping", "192.168.1.1", "192.168.1.1", kIcmp},
      {"ping of another interface's address", "10.0.0.1", "192.168.1.1", kIcmp},
      {"UDP", "192.168.1.1", "192.168.1.1"},
      {"protocol without a user", "192.168.1.1", "10.0.0.1", 99},
      {"TTL 1", "192.168.1.1", "10.0.0.7", kUdp, 1},
      {"no route", "10.0.0.1", "172.16.0.1"},
      {"blackhole", "192.168.1.1", "10.9.0.1"},
      {"to a group", "192.168.1.1", "239.1.2.3"},
      {"ping 6", "fd00:1::1", "fd00:1::1", kIcmp6},
      {"ping 6 of another interface's address", "fd00:a::1", "fd00:1::1", kIcmp6},
      {"UDP 6", "fd00:1::1", "fd00:1::1"},
      {"hop limit 1", "fd00:1::1", "fd00:a::7", kUdp, 1},
      {"blackhole 6", "fd00:1::1", "fd00:9::1"},
      {"no route 6", "fd00:a::1", "2001:db8::1"},
      {"the subnet's router", "fd00:1::", "fd00:1::1", kIcmp6},
  };
  run(c, [&](const NodeFaces& node) {
    ASSERT_TRUE(eventually([&] { return is_ready(node); }));
    std::uint64_t martians = 0;
    for (const Packet& packet : packets) {
      give(node, packet);
      ++martians;
      EXPECT_TRUE(eventually([&] { return drops(node, Drop::kIpMartianSource) == martians; }))
          << packet.name;
    }
  });
}

TEST_F(OwnSourceTest, P05_SourceCheckDropsForgedSources) {
  NodeConfig c = config();
  c.ports[0].ip.source_check = fwd::SourceCheck::kStrict;
  run(c, [this](const NodeFaces& node) {
    ASSERT_TRUE(eventually([&] { return is_ready(node); }));
    give(node, {"host of the link", "10.0.0.9", "192.168.1.2"});
    give(node, {"host of the link 6", "fd00:a::9", "fd00:1::1", kIcmp6});
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kIpSourceCheck) == 2; }));
    give(node, {"host of the port, absent", "192.168.1.9", "192.168.1.2"});
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kNeighbourFailed) == 1; }));
    EXPECT_EQ(drops(node, Drop::kIpSourceCheck), 2U);
  });
}

// The link never comes up: its port is no member of a subnet.
TEST_F(OwnSourceTest, AddressesOfAnInterfaceThatIsDownAreMartianSources) {
  NodeConfig c = config();
  c.hcas[0].subnet_administrator = false;
  const std::vector<Packet> packets = {
      {"own", "10.0.0.1", "192.168.1.2"},
      {"own, for this node", "10.0.0.1", "192.168.1.1", kIcmp},
      {"own 6", "fd00:a::1", "fd00:1::2"},
      {"own 6, for this node", "fd00:a::1", "fd00:1::1", kIcmp6},
      {"own 6, no route", "fd00:a::1", "2001:db8::1"},
      {"the subnet's router", "fd00:a::", "fd00:1::2"},
  };
  run(c, [&](const NodeFaces& node) {
    std::uint64_t martians = 0;
    for (const Packet& packet : packets) {
      give(node, packet);
      ++martians;
      EXPECT_TRUE(eventually([&] { return drops(node, Drop::kIpMartianSource) == martians; }))
          << packet.name;
    }
    EXPECT_FALSE(link_is_up(node));
    give(node, {"to an own address that is down", "fd00:1::2", "fd00:a::1", kIcmp6});
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kLinkDown) == 1; }));
  });
}

// The answer to a ping from an absent host waits for its neighbour and is dropped. It causes no
// ICMP error, because its sender is the node itself.
TEST_F(OwnSourceTest, AnswersToAbsentHostsAreGivenUp) {
  run(config(), [this](const NodeFaces& node) {
    ASSERT_TRUE(eventually([&] { return is_ready(node); }));
    give(node, {"ping", "192.168.1.77", "192.168.1.1", kIcmp});
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kNeighbourFailed) == 1; }));
    give(node, {"ping 6", "fd00:1::77", "fd00:1::1", kIcmp6});
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kNeighbourFailed) == 2; }));
    EXPECT_EQ(node_drops(node, Drop::kLocalFromSelf), 0U) << "an error went to the node itself";
  });
}

TEST_F(OwnSourceTest, SendersOfForwardedPacketsAreStillTold) {
  run(config(), [this](const NodeFaces& node) {
    ASSERT_TRUE(eventually([&] { return is_ready(node); }));
    ask<int>(node, [](const NodeFaces& n) {
      EXPECT_TRUE(
          n.control.add_neighbour({"eth0", *wire::parse_ip("192.168.1.2"), "02:00:00:00:00:09"}));
      return 0;
    });
    give(node, {"to an absent host", "192.168.1.2", "192.168.1.66"});
    std::vector<std::byte> frame;
    do {  // Reports of groups come between.
      frame = take(ethernet.from_node, 0x0800);
      ASSERT_FALSE(frame.empty());
    } while (frame[14 + 9] == static_cast<std::byte>(wire::IpProto::kIgmp));
    const auto ip = *wire::read<wire::Ipv4Hdr>(frame, 14);
    EXPECT_EQ(ip.dst.host(), kPeerIp);
    EXPECT_EQ(wire::read<wire::IcmpHdr>(frame, 34)->type, 3);
  });
}

// Generated packets have the node's own address as source. They go to an absent host, and to the
// node itself.
struct GeneratedFromOwnTest : OwnSourceTest,
                              testing::WithParamInterface<GeneratorConfig::Addresses> {};

TEST_P(GeneratedFromOwnTest, EndsNothing) {
  NodeConfig c = config();
  c.mode = ForwardMode::kTxonly;
  c.generator.ip = GetParam();
  c.generator.rate.value = 100;
  run(c, [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return drops(node, Drop::kNeighbourFailed) != 0; }));
    ask<int>(node, [](const NodeFaces& n) {
      GeneratorConfig to_self = n.view.config().generator;
      to_self.ip.dst = *wire::parse_ip(GetParam().src.is_v4() ? "10.0.0.1" : "fd00:a::1");
      EXPECT_TRUE(n.traffic.set_generator(to_self));
      return 0;
    });
    EXPECT_TRUE(eventually([&] { return node_drops(node, Drop::kLocalFromSelf) != 0; }));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Families, GeneratedFromOwnTest,
    testing::Values(
        GeneratorConfig::Addresses{*wire::parse_ip("192.168.1.1"), *wire::parse_ip("192.168.1.77")},
        GeneratorConfig::Addresses{*wire::parse_ip("fd00:1::1"), *wire::parse_ip("fd00:1::77")}),
    [](const auto& family) { return std::string{family.param.src.is_v4() ? "Ip4" : "Ip6"}; });

}  // namespace
}  // namespace ipoib::mgmt
