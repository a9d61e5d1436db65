// SPDX-License-Identifier: BSD-3-Clause
// Routes of Linux in a whole node: packets by gateways on no network of the node, by IPv6 gateways, to
// hosts on the link, and by none.
#include <rte_cycles.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/mgmt/stepped_node.h"
#include "lib/route/route_table.h"
#include "lib/wire/arp.h"
#include "lib/wire/nd.h"
#include "tests/support/addresses.h"
#include "tests/unit/lib/mgmt/node_fixture.h"
#include "tests/unit/lib/mgmt/stepped_loop.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::ip;
using ipoib::test::prefix;
using route::RouteAction;
using route::RoutePath;

class NodeKernelRoutes : public NodeFixture {
 protected:
  void SetUp() override {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    NodeConfig c = config();
    c.neighbour.retransmit = 100ms;
    auto made = SteppedNode::create(c, make_timed_soft, &ipoib::test::read_sim_tsc);
    ASSERT_TRUE(made) << made.error().what;
    node_ = std::move(*made);
    node_->start();
    pass(*node_, 5s);
    const auto port = node_->faces().view.ports()[0];
    ASSERT_EQ(port.state, "up");
    node_mac_ = port.mac;
    ASSERT_EQ(node_->routes().interface_of(wire::IpAddr::v4(kPeerIp)), kPort);
    static_cast<void>(test::take_all(ethernet.from_node));
  }
  void TearDown() override {
    leave(*node_);
    const PacketBalance b = node_->packet_balance();
    EXPECT_EQ(b.came(), b.went()) << "a packet vanished";
  }

  void set(std::string_view to, std::vector<RoutePath> paths, std::uint32_t metric = 0) {
    const auto set =
        node_->routes().set_kernel({prefix(to), metric, RouteAction::kForward, std::move(paths)});
    ASSERT_TRUE(set) << set.error().what;
  }
  void set(std::string_view to, RouteAction action) {
    ASSERT_TRUE(node_->routes().set_kernel({prefix(to), 0, action, {}}));
  }

  /// A packet of a host of the port's network.
  void send(std::string_view to, std::uint8_t payload = 0x42) {
    give(ethernet.to_node,
         ethernet_frame(0x0800,
                        fwd::test::ip_packet(wire::IpAddr::v4(kPeerIp), ip(to), 17,
                                             std::vector<std::byte>(40, std::byte{payload})),
                        node_mac_));
  }
  void send6(std::string_view from, std::string_view to) {
    give(ethernet.to_node,
         ethernet_frame(0x86dd,
                        fwd::test::ip_packet(ip(from), ip(to), 17, std::vector<std::byte>(40)),
                        node_mac_));
  }
  /// Passes time and answers requests for the hosts. Afterwards `came` has the IP packets, but not
  /// ICMPv6, that the node sent, by host.
  void run(Duration d = 1s) {
    for (const TimePoint end = node_->now() + d; node_->now() < end;) {
      pass(*node_, 10ms);
      for (const auto& frame : test::take_all(ethernet.from_node)) look(frame);
    }
  }
  void look(const std::vector<std::byte>& frame) {
    const auto packet = std::span{frame}.subspan(14);
    switch (wire::read<wire::Be16>(frame, 12)->host()) {
      case 0x0806: return answer_arp(packet);
      case 0x86dd:
        if (const auto nd = wire::parse_nd({wire::LinkKind::kEthernet}, packet)) return answer(*nd);
        break;
      default: break;
    }
    for (const auto& [addr, mac] : hosts)
      if (std::memcmp(frame.data(), mac.data(), 6) == 0)
        came[wire::to_string(addr)].push_back({packet.begin(), packet.end()});
  }
  void answer_arp(std::span<const std::byte> octets) {
    const auto arp = wire::parse_arp({wire::LinkKind::kEthernet}, octets);
    if (!arp || arp->op != wire::ArpOp::kRequest) return;
    const auto host = hosts.find(wire::IpAddr::v4(arp->target_ip));
    asked.insert(wire::to_string(wire::IpAddr::v4(arp->target_ip)));
    if (host == hosts.end()) return;
    give(ethernet.to_node,
         fwd::test::ethernet(node_mac_, host->second, 0x0806,
                             wire::build_arp({wire::ArpOp::kReply, host->second, arp->target_ip,
                                              node_mac_, arp->sender_ip})));
  }
  void answer(const wire::NdMessage& question) {
    if (question.type != wire::Icmp6Type::kNeighbourSolicitation) return;
    asked.insert(wire::to_string(question.target));
    const auto host = hosts.find(question.target);
    if (host == hosts.end()) return;
    wire::NdMessage m;
    m.type = wire::Icmp6Type::kNeighbourAdvertisement;
    m.src = m.target = question.target;
    m.dst = question.src;
    m.solicited = m.override_it = true;
    m.target_hw = wire::HwAddr{host->second};
    give(ethernet.to_node, fwd::test::ethernet(node_mac_, host->second, 0x86dd, wire::build_nd(m)));
  }
  /// ICMP or ICMPv6 type and code of the only packet that came to the host.
  std::pair<int, int> only_error(const std::string& host) {
    const auto packets = std::exchange(came[host], {});
    if (packets.size() != 1) return {-1, static_cast<int>(packets.size())};
    const bool v4 = std::to_integer<int>(packets[0][0]) >> 4 == 4;
    const std::size_t icmp = v4 ? 20 : 40;
    return {std::to_integer<int>(packets[0].at(icmp)),
            std::to_integer<int>(packets[0].at(icmp + 1))};
  }

  static constexpr table::InterfaceId kPort = 0;
  std::unique_ptr<SteppedNode> node_;
  wire::MacAddr node_mac_{};
  std::map<wire::IpAddr, wire::MacAddr> hosts{{wire::IpAddr::v4(kPeerIp), kPeerMac}};
  std::map<std::string, std::vector<std::vector<std::byte>>> came;
  std::set<std::string> asked;
};

TEST_F(NodeKernelRoutes, P17_Ipv4PacketsLeaveByAnIpv6Gateway) {
  hosts[ip("fe80::99")] = fwd::test::mac(0x99);
  set("10.9.0.0/16", {{kPort, ip("fe80::99")}});
  send("10.9.0.1", 1);
  run();
  ASSERT_EQ(came["fe80::99"].size(), 1U) << "the packet waited for its gateway";
  send("10.9.0.2", 2);
  run();
  ASSERT_EQ(came["fe80::99"].size(), 2U);
  const auto ipv4 = wire::read<wire::Ipv4Hdr>(came["fe80::99"][1]);
  EXPECT_EQ(ipv4->version(), 4);
  EXPECT_EQ(wire::IpAddr::v4(ipv4->dst.host()), ip("10.9.0.2"));
  EXPECT_EQ(ipv4->ttl, 63);
  EXPECT_TRUE(came[wire::to_string(wire::IpAddr::v4(kPeerIp))].empty()) << "no redirect";
}

TEST_F(NodeKernelRoutes, P17_AnIpv6GatewayThatDoesNotAnswerIsAnUnreachableHost) {
  set("10.9.0.0/16", {{kPort, ip("fe80::99")}});
  send("10.9.0.1");
  run(2s);
  EXPECT_TRUE(asked.contains("fe80::99"));
  EXPECT_EQ(only_error("192.168.1.2"), (std::pair{3, 1}));
}

// Linux has checked them (onlink): RFC 1812 knows no such gateways.
TEST_F(NodeKernelRoutes, P11_GatewaysOnNoNetworkOfTheNodeAreAskedFor) {
  hosts[ip("198.51.100.7")] = fwd::test::mac(0x97);
  hosts[ip("2001:db8:77::7")] = fwd::test::mac(0x96);
  set("10.9.0.0/16", {{kPort, ip("198.51.100.7")}});
  set("2001:db8:9::/48", {{kPort, ip("2001:db8:77::7")}});
  send("10.9.0.1");
  send6("2001:db8:5::5", "2001:db8:9::9");
  run();
  EXPECT_EQ(came["198.51.100.7"].size(), 1U);
  EXPECT_EQ(came["2001:db8:77::7"].size(), 1U);
}

TEST_F(NodeKernelRoutes, P11_HostsOfARouteToTheLinkAreNeighbours) {
  hosts[ip("10.9.0.5")] = fwd::test::mac(0x95);
  set("10.9.0.0/16", {{kPort}});
  send("10.9.0.5");
  run();
  EXPECT_EQ(came["10.9.0.5"].size(), 1U);
  send("10.9.0.6");
  run(2s);
  EXPECT_EQ(only_error("192.168.1.2"), (std::pair{3, 1})) << "it does not answer";
  EXPECT_TRUE(asked.contains("10.9.0.6"));
}

TEST_F(NodeKernelRoutes, P11_SendersAreToldOfRoutesThatDrop) {
  hosts[ip("fe80::5")] = fwd::test::mac(0x85);
  set("10.9.0.0/16", RouteAction::kUnreachable);
  set("10.10.0.0/16", RouteAction::kProhibit);
  set("10.11.0.0/16", RouteAction::kBlackhole);
  for (const auto& [to, error] :
       {std::pair{"10.9.0.1", std::pair{3, 1}}, std::pair{"10.10.0.1", std::pair{3, 13}},
        std::pair{"10.11.0.1", std::pair{-1, 0}}}) {
    send(to);
    run();
    EXPECT_EQ(only_error("192.168.1.2"), error) << to;
  }
}

TEST_F(NodeKernelRoutes, P17_EachRouteToAPrefixHasItsRow) {
  hosts[ip("192.168.1.7")] = fwd::test::mac(0x97);
  const auto to = prefix("10.9.0.0/16");
  set("10.9.0.0/16", {{kPort, ip("192.168.1.7"), 3}, {kPort, ip("fe80::99")}}, 20);
  set("10.9.0.0/16", {{kPort}}, 10);
  set("10.9.0.0/16", {{kPort, ip("192.168.1.7")}, {kPort}}, 30);
  ASSERT_TRUE(node_->faces().control.add_route({.to = to, .via = {}, .blackhole = true}));
  const auto rows = [&](std::size_t most) {
    std::vector<RouteInfo> found;
    for (const RouteInfo& r : node_->faces().view.routes({}, most))
      if (r.to == to) found.push_back(r);
    return found;
  };
  const auto all = rows(1000);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].kind, "static");
  EXPECT_EQ(all[0].action, "blackhole");
  EXPECT_TRUE(all[0].active);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(all[i].kind, "kernel");
    EXPECT_EQ(all[i].metric, 10 * i);
    EXPECT_EQ(all[i].iface, "eth0");
    EXPECT_FALSE(all[i].active);
  }
  EXPECT_TRUE(all[1].via.empty());
  EXPECT_EQ(all[2].via, (std::vector{ip("192.168.1.7"), ip("fe80::99")}));
  EXPECT_EQ(all[2].weights, (std::vector<std::uint32_t>{3, 1}));
  EXPECT_EQ(all[3].via, (std::vector{wire::IpAddr::v4(0), ip("192.168.1.7")})) << "one on the link";
  EXPECT_TRUE(all[3].weights.empty());

  // A page ends with all rows of a prefix, and the next one begins behind it.
  std::vector<RouteInfo> pages;
  for (std::optional<wire::IpPrefix> after;;) {
    const auto page = node_->faces().view.routes(after, 1);
    if (page.empty()) break;
    pages.insert(pages.end(), page.begin(), page.end());
    after = page.back().to;
  }
  EXPECT_EQ(pages.size(), node_->faces().view.routes({}, 1000).size());
  EXPECT_EQ(node_->faces().stats.totals().routes.at("static"), 1U);
  EXPECT_FALSE(node_->faces().stats.totals().routes.contains("kernel")) << "none is in effect";
  ASSERT_TRUE(node_->faces().control.remove_route(to));
  EXPECT_EQ(node_->faces().control.remove_route(to).error().code, Errc::kRefused);
  EXPECT_EQ(rows(1000)[0].metric, 10U);
  EXPECT_TRUE(rows(1000)[0].active);
}

}  // namespace
}  // namespace ipoib::mgmt
