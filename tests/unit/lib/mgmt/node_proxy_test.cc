// SPDX-License-Identifier: BSD-3-Clause
// Two ports of a whole node that share a subnet, in virtual time: hosts on one find those on the other,
// and their packets cross.
#include <rte_cycles.h>

#include <map>
#include <memory>
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

/// A host on one of the ports, which answers requests for its addresses.
struct ProxiedStation {
  RingDevice* wire;
  wire::MacAddr mac;
  std::vector<std::string> addresses;
  std::vector<std::vector<std::byte>> came{};   ///< IP packets, without ICMPv6, from the header on.
  std::map<std::string, wire::HwAddr> knows{};  ///< From answers to it.
};

class NodeProxy : public NodeFixture {
 protected:
  ~NodeProxy() override {
    node_.reset();
    std::uint16_t port = 0;
    if (rte_eth_dev_get_port_by_name(second.name.c_str(), &port) == 0)
      static_cast<void>(rte_eth_dev_close(port));
  }
  void SetUp() override {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    NodeConfig c = config();
    c.ports = {{"eth0", ethernet.name, {prefix("192.168.1.1/24"), prefix("fd00:1::1/64")}, 1500},
               {"eth1", second.name, {prefix("192.168.1.2/24"), prefix("fd00:1::2/64")}, 1500}};
    for (PortConfig& p : c.ports) p.ip.proxy = "lab";
    auto made = SteppedNode::create(c, make_timed_soft, &ipoib::test::read_sim_tsc);
    ASSERT_TRUE(made) << made.error().what;
    node_ = std::move(*made);
    node_->start();
    run(5s);
  }
  void TearDown() override {
    leave(*node_);
    const PacketBalance balance = node_->packet_balance();
    EXPECT_EQ(balance.came(), balance.went()) << "a packet vanished";
  }
  void run(Duration d) {
    for (const TimePoint end = node_->now() + d; node_->now() < end;) {
      pass(*node_, 10ms);
      for (ProxiedStation* s : {&a, &b})
        for (const auto& frame : test::take_all(s->wire->from_node)) look(*s, frame);
    }
  }
  void look(ProxiedStation& s, const std::vector<std::byte>& frame) {
    const auto packet = std::span{frame}.subspan(14);
    const auto type = wire::read<wire::Be16>(frame, 12)->host();
    const bool to_it = std::memcmp(frame.data(), s.mac.data(), 6) == 0;
    if (type == 0x0806) {
      const auto arp = wire::parse_arp({wire::LinkKind::kEthernet}, packet);
      if (arp && arp->op == wire::ArpOp::kReply && to_it)
        s.knows.insert_or_assign(wire::to_string(wire::IpAddr::v4(arp->sender_ip)), arp->sender_hw);
      if (!arp || arp->op != wire::ArpOp::kRequest) return;
      for (const auto& own : s.addresses)
        if (ip(own) == wire::IpAddr::v4(arp->target_ip))
          send(s, 0x0806,
               wire::build_arp(
                   {wire::ArpOp::kReply, s.mac, arp->target_ip, arp->sender_hw, arp->sender_ip}));
      return;
    }
    if (type != 0x86dd && type != 0x0800) return;
    if (const auto nd = wire::parse_nd({wire::LinkKind::kEthernet}, packet)) return look(s, *nd);
    if (to_it) s.came.push_back({packet.begin(), packet.end()});
  }
  void look(ProxiedStation& s, const wire::NdMessage& m) {
    if (m.type == wire::Icmp6Type::kNeighbourAdvertisement && m.target_hw && m.solicited)
      s.knows.insert_or_assign(wire::to_string(m.target), *m.target_hw);
    if (m.type != wire::Icmp6Type::kNeighbourSolicitation) return;
    for (const auto& own : s.addresses) {
      if (ip(own) != m.target) continue;
      wire::NdMessage answer;
      answer.type = wire::Icmp6Type::kNeighbourAdvertisement;
      answer.src = answer.target = m.target;
      answer.dst = m.src;
      answer.solicited = answer.override_it = true;
      answer.target_hw = wire::HwAddr{s.mac};
      send(s, 0x86dd, wire::build_nd(answer));
    }
  }
  void send(ProxiedStation& s, std::uint16_t type, const std::vector<std::byte>& payload) {
    const auto port = node_->faces().view.ports()[s.wire == &ethernet ? 0 : 1];
    send_to(s, port.mac, type, payload);
  }
  void send_to(ProxiedStation& s, const wire::MacAddr& to, std::uint16_t type,
               const std::vector<std::byte>& payload) {
    give(s.wire->to_node, fwd::test::ethernet(to, s.mac, type, payload));
  }
  void ask(ProxiedStation& s, const std::string& own, const std::string& target) {
    if (ip(own).is_v4()) {
      constexpr wire::MacAddr kAll{std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                   std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
      return send_to(s, kAll, 0x0806,
                     wire::build_arp({wire::ArpOp::kRequest, s.mac, ip(own).v4_host(),
                                      wire::MacAddr{}, ip(target).v4_host()}));
    }
    wire::NdMessage m;
    m.src = ip(own);
    m.target = ip(target);
    m.dst = wire::solicited_node(m.target);
    m.source_hw = wire::HwAddr{s.mac};
    send_to(s, wire::group_mac(m.dst), 0x86dd, wire::build_nd(m));
  }
  ProxyInfo proxy() const { return node_->faces().view.proxies().at(0); }

  RingDevice second{"second"};
  ProxiedStation a{&ethernet, fwd::test::mac(0x1a), {"192.168.1.10", "fd00:1::10"}};
  ProxiedStation b{&second, fwd::test::mac(0x1b), {"192.168.1.11", "fd00:1::11"}};
  std::unique_ptr<SteppedNode> node_;
};

TEST_F(NodeProxy, P24_PacketsCrossBetweenHostsOfOneSubnet) {
  const auto ports = node_->faces().view.ports();
  for (const std::size_t family : {0U, 1U}) {
    const std::string &from = a.addresses[family], &to = b.addresses[family];
    ask(a, from, to);
    run(1s);
    ASSERT_TRUE(a.knows.contains(to)) << "no answer for " << to;
    EXPECT_EQ(a.knows.at(to), wire::HwAddr{ports[0].mac});
    const auto hops = [](const std::vector<std::byte>& packet) {
      return std::to_integer<int>(packet.at(std::to_integer<int>(packet[0]) >> 4 == 4 ? 8 : 7));
    };
    a.came.clear();
    b.came.clear();
    const std::uint16_t type = family == 0 ? 0x0800 : 0x86dd;
    send(a, type, fwd::test::ip_packet(ip(from), ip(to), 17, std::vector<std::byte>(40)));
    run(1s);
    ASSERT_EQ(b.came.size(), 1U) << to;
    EXPECT_EQ(hops(b.came[0]), 63) << "routed";
    send(b, type, fwd::test::ip_packet(ip(to), ip(from), 17, std::vector<std::byte>(40)));
    run(1s);
    ASSERT_EQ(a.came.size(), 1U) << from << ": no redirect either";
  }
  const route::RouteTable& routes = node_->routes();
  EXPECT_EQ(routes.routes().at(prefix("192.168.1.11/32")).kind, route::RouteKind::kProxied);
  EXPECT_FALSE(routes.routes().contains(prefix("192.168.1.10/32"))) << "the network's route fits";
  EXPECT_EQ(proxy().hosts.size(), 4U);
  EXPECT_GE(proxy().counters.answered, 2U);
}

// The route of the network leads to the first port, where the host is not.
TEST_F(NodeProxy, P24_APacketFromElsewhereFindsItsHostOnTheOtherPort) {
  send(a, 0x0800,
       fwd::test::ip_packet(ip("10.99.0.1"), ip("192.168.1.11"), 17, std::vector<std::byte>(40)));
  run(2s);
  EXPECT_EQ(b.came.size(), 1U);
}

TEST_F(NodeProxy, P24_AHostThatIsNowhereIsUnreachable) {
  ask(a, a.addresses[0], "192.168.1.77");
  run(5s);
  EXPECT_TRUE(a.knows.empty());
  EXPECT_EQ(proxy().counters.unanswered, 1U);
  EXPECT_EQ(proxy().questions, 0U);
}

TEST_F(NodeProxy, P24_AddressesAtRunTimeAreSharedToo) {
  ASSERT_TRUE(node_->faces().control.add_address("eth0", prefix("192.168.7.1/24")));
  ASSERT_TRUE(node_->faces().control.add_address("eth1", prefix("192.168.7.2/24")));
  EXPECT_FALSE(node_->faces().control.add_address("ib0", prefix("192.168.7.3/24")));
  ASSERT_TRUE(node_->faces().control.remove_address("eth0", prefix("192.168.7.1/24")));
  EXPECT_EQ(node_->routes().interface_of(ip("192.168.7.9")), 1);
  ASSERT_TRUE(node_->faces().control.remove_address("eth1", prefix("192.168.7.2/24")));
}

}  // namespace
}  // namespace ipoib::mgmt
