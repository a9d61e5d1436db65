// SPDX-License-Identifier: BSD-3-Clause
// A node with two gateways for one prefix, of which one stops answering or becomes unreachable.
#include <algorithm>
#include <set>
#include <utility>

#include "lib/wire/arp.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

constexpr std::uint32_t kGateways[] = {0xc0a8'0102, 0xc0a8'0103};

wire::MacAddr mac_of(std::size_t gateway) {
  return {std::byte{2}, {}, {}, {}, {}, static_cast<std::byte>(0x10 + gateway)};
}

/// Returns a UDP packet from a host of the port's network to 10.9.0.1; its source port is the
/// number of the flow.
std::vector<std::byte> flow_packet(std::uint16_t flow) {
  std::vector<std::byte> message(40, std::byte{0x42});
  const wire::Be16 port{flow};
  std::memcpy(message.data(), &port, sizeof port);
  return fwd::test::ip_packet(wire::IpAddr::v4(0xc0a8'0142), wire::IpAddr::v4(0x0a09'0001), 17,
                              message);
}

class NodeEcmpTest : public NodeFixture {
 protected:
  NodeConfig ecmp_config() {
    NodeConfig c = config();
    c.routes.push_back({.to = *wire::parse_prefix("10.9.0.0/16"),
                        .via = {wire::IpAddr::v4(kGateways[0]), wire::IpAddr::v4(kGateways[1])}});
    c.neighbour.retransmit = 20ms;
    c.neighbour.negative = 50ms;
    c.neighbour.reachable = 100ms;
    c.neighbour.probe_delay = 20ms;
    return c;
  }
  /// Takes all frames that the node sends: answers ARP requests for the live gateways, and records
  /// which gateways the flows use.
  void look(const wire::MacAddr& node) {
    for (const auto& frame : test::take_all(ethernet.from_node)) {
      const auto type = wire::read<wire::Be16>(frame, 12)->host();
      for (std::size_t g = 0; g < 2; ++g) {
        if (type == 0x0800 && std::memcmp(frame.data(), mac_of(g).data(), 6) == 0) {
          used.insert(g);
          ++arrived;
        }
        if (type != 0x0806 || !lives[g]) continue;
        const auto arp = wire::parse_arp(wire::LinkKind::kEthernet, std::span{frame}.subspan(14));
        if (!arp || arp->target_ip != kGateways[g]) continue;
        const auto reply =
            wire::build_arp({wire::ArpOp::kReply, mac_of(g), kGateways[g], node, arp->sender_ip});
        give(ethernet.to_node, ethernet_frame(0x0806, reply, node));
      }
    }
  }
  /// Sends a packet of each flow repeatedly, until all of them leave through exactly these
  /// gateways.
  bool all_flows_go_by(const wire::MacAddr& node, const std::set<std::size_t>& gateways) {
    const auto done = [&] { return arrived == kFlows && used == gateways; };
    return eventually([&] {
      used.clear();
      arrived = 0;
      for (std::uint16_t flow = 0; flow < kFlows; ++flow)
        give(ethernet.to_node, ethernet_frame(0x0800, flow_packet(flow), node));
      const auto limit = std::chrono::steady_clock::now() + 200ms;
      while (!done() && std::chrono::steady_clock::now() < limit) look(node);
      return done();
    });
  }

  /// Returns the dead gateways of the route with two gateways, as `show route` lists them.
  static std::vector<wire::IpAddr> dead_gateways(const NodeFaces& node) {
    return ask<std::vector<wire::IpAddr>>(node, [](const NodeFaces& n) {
      for (const RouteInfo& r : n.view.routes({}, 1000))
        if (r.via.size() == 2) return r.dead;
      return std::vector<wire::IpAddr>{};
    });
  }

  static constexpr unsigned kFlows = 64;
  bool lives[2] = {true, true};
  std::set<std::size_t> used;
  unsigned arrived = 0;
};

// The node detects by itself that one of two gateways is dead. No flow is interrupted for long, and
// the node uses the gateway again when it answers.
TEST_F(NodeEcmpTest, P05_FlowsLeaveADeadGatewayAndComeBackWithIt) {
  run(ecmp_config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] {
      return ask<bool>(node, [](const NodeFaces& n) { return n.view.ports()[0].state == "up"; });
    }));
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    EXPECT_TRUE(all_flows_go_by(mac, {0, 1}));
    EXPECT_EQ(dead_gateways(node), std::vector<wire::IpAddr>{});
    lives[0] = false;
    EXPECT_TRUE(all_flows_go_by(mac, {1}));
    EXPECT_EQ(dead_gateways(node), std::vector{wire::IpAddr::v4(kGateways[0])});
    lives[0] = true;
    EXPECT_TRUE(all_flows_go_by(mac, {0, 1}));
    EXPECT_EQ(dead_gateways(node), std::vector<wire::IpAddr>{});
  });
}

// The gateway was silent before the route existed.
TEST_F(NodeEcmpTest, P05_ANewRouteAvoidsAGatewayThatIsKnownToBeDead) {
  NodeConfig c = ecmp_config();
  c.neighbour.negative = 60s;
  const std::vector<RouteConfig> routes = std::exchange(c.routes, {});
  lives[0] = false;
  run(c, [&](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] {
      return ask<bool>(node, [](const NodeFaces& n) { return n.view.ports()[0].state == "up"; });
    }));
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    auto to_gateway = flow_packet(0);
    wire::Ipv4Hdr ip;
    std::memcpy(&ip, to_gateway.data(), sizeof ip);
    ip.dst.set(kGateways[0]);
    ip.checksum = {};
    ip.checksum.set(wire::internet_checksum(wire::bytes_of(ip)));
    std::memcpy(to_gateway.data(), &ip, sizeof ip);
    give(ethernet.to_node, ethernet_frame(0x0800, to_gateway, mac));
    EXPECT_TRUE(eventually([&] {
      return ask<bool>(node, [](const NodeFaces& n) {
        const auto keys = n.view.neighbour_keys("eth0");
        return std::any_of(keys.begin(), keys.end(), [&n](const NeighbourKey& key) {
          const auto row = n.view.neighbour(key);
          return row && row->addr == wire::IpAddr::v4(kGateways[0]) &&
                 row->phase == link::NeighbourPhase::kFailed;
        });
      });
    }));
    ask<int>(node, [&](const NodeFaces& n) {
      EXPECT_TRUE(n.control.add_route(routes[0]));
      return 0;
    });
    EXPECT_EQ(dead_gateways(node), std::vector{wire::IpAddr::v4(kGateways[0])});
    EXPECT_TRUE(all_flows_go_by(mac, {1}));
  });
}

/// There is one gateway behind each of two ports; their MAC addresses are configured.
class NodeEcmpPortsTest : public NodeFixture {
 protected:
  NodeConfig ports_config() {
    NodeConfig c = config();
    c.ports.push_back({"eth1", other.name, {*wire::parse_prefix("192.168.2.1/24")}, 1500});
    const wire::IpAddr gateways[] = {wire::IpAddr::v4(0xc0a8'0102), wire::IpAddr::v4(0xc0a8'0202)};
    c.neighbours = {{"eth0", gateways[0], "02:00:00:00:00:10"},
                    {"eth1", gateways[1], "02:00:00:00:00:11"}};
    c.routes.push_back(
        {.to = *wire::parse_prefix("10.9.0.0/16"), .via = {gateways[0], gateways[1]}});
    c.redirects = false;
    return c;
  }
  static void set_up(const NodeFaces& node, const char* port, bool up) {
    EXPECT_TRUE(ask<bool>(node, [=](const NodeFaces& n) {
      return n.control.set_interface_up(port, up).has_value();
    }));
  }
  /// Returns the number of IPv4 packets that the node has sent on this ring.
  static unsigned taken(rte_ring* ring) {
    unsigned n = 0;
    for (const auto& frame : test::take_all(ring))
      n += wire::read<wire::Be16>(frame, 12)->host() == 0x0800;
    return n;
  }
  /// Sends a packet of each flow repeatedly, until all of them leave through exactly these ports.
  bool all_flows_go_by(const wire::MacAddr& node, bool eth0, bool eth1) {
    constexpr std::uint16_t kFlows = 64;
    return eventually([&] {
      unsigned by_eth0 = 0, by_eth1 = 0;
      for (std::uint16_t flow = 0; flow < kFlows; ++flow)
        give(ethernet.to_node, ethernet_frame(0x0800, flow_packet(flow), node));
      const auto limit = std::chrono::steady_clock::now() + 200ms;
      while (by_eth0 + by_eth1 < kFlows && std::chrono::steady_clock::now() < limit) {
        by_eth0 += taken(ethernet.from_node);
        by_eth1 += taken(other.from_node);
      }
      return by_eth0 + by_eth1 == kFlows && (by_eth0 != 0) == eth0 && (by_eth1 != 0) == eth1;
    });
  }

  RingDevice other{"other"};
};

// No neighbour stops answering: the port to one of them is taken down.
TEST_F(NodeEcmpPortsTest, P05_FlowsLeaveAPortThatGoesDownAndComeBackWithIt) {
  run(ports_config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] {
      return ask<bool>(node, [](const NodeFaces& n) { return n.view.ports()[1].state == "up"; });
    }));
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    EXPECT_TRUE(all_flows_go_by(mac, true, true));
    set_up(node, "eth1", false);
    EXPECT_TRUE(all_flows_go_by(mac, true, false));
    set_up(node, "eth1", true);
    EXPECT_TRUE(all_flows_go_by(mac, true, true));
  });
}

}  // namespace
}  // namespace ipoib::mgmt
