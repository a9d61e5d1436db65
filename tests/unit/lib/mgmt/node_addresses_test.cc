// SPDX-License-Identifier: BSD-3-Clause
// Addresses that commands give to the interfaces of a node and take away, as its hosts see them.
#include <rte_cycles.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/mgmt/stepped_node.h"
#include "lib/wire/arp.h"
#include "tests/support/addresses.h"
#include "tests/support/sim_tsc.h"
#include "tests/unit/lib/mgmt/node_fixture.h"
#include "tests/unit/lib/mgmt/stepped_loop.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::ip;
using ipoib::test::prefix;

class NodeAddresses : public NodeFixture {
 protected:
  void SetUp() override {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    auto made = SteppedNode::create(config(), make_timed_soft, &ipoib::test::read_sim_tsc);
    ASSERT_TRUE(made) << made.error().what;
    node_ = std::move(*made);
    node_->start();
    pass(*node_, 5s);
    mac_ = faces().view.ports()[0].mac;
    // The node knows its neighbour.
    ping("192.168.1.1");
    answer("192.168.1.2");
    ASSERT_TRUE(replies_from("192.168.1.1"));
  }
  void TearDown() override {
    leave(*node_);
    ipoib::test::empty(ethernet.from_node);
    ipoib::test::empty(cable.from_node);
  }
  [[nodiscard]] const NodeFaces& faces() const { return node_->faces(); }
  [[nodiscard]] NodeControl& control() const { return faces().control; }
  /// The neighbour 192.168.1.2 pings the address.
  void ping(std::string_view addr, std::string_view from = "192.168.1.2") {
    give(ethernet.to_node,
         ethernet_frame(0x0800, fwd::test::echo_packet(ip(from), ip(addr), 32), mac_));
    pass(*node_, 50ms);
  }
  void answer(std::string_view addr) {
    const auto arp = wire::build_arp(
        {wire::ArpOp::kReply, kPeerMac, ip(addr).v4_host(), mac_, ip("192.168.1.1").v4_host()});
    give(ethernet.to_node, ethernet_frame(0x0806, arp, mac_));
    pass(*node_, 50ms);
  }
  /// Returns whether the node has sent an IPv4 packet from the address since the last call.
  bool replies_from(std::string_view addr) {
    bool found = false;
    while (rte_mbuf* const m = test::next_of(ethernet.from_node)) {
      const auto frame = test::take(m);
      const auto hdr = wire::read<wire::Ipv4Hdr>(frame, 14);
      found = found || (wire::read<wire::Be16>(frame, 12)->host() == 0x0800 && hdr &&
                        hdr->src.host() == ip(addr).v4_host());
    }
    return found;
  }
  /// Returns whether the node has announced or asked for an address since the last call.
  bool sends_arp(std::string_view sender, std::string_view target) {
    bool found = false;
    while (rte_mbuf* const m = test::next_of(ethernet.from_node)) {
      const auto frame = test::take(m);
      if (wire::read<wire::Be16>(frame, 12)->host() != 0x0806) continue;
      const auto arp = wire::parse_arp(wire::LinkKind::kEthernet, std::span{frame}.subspan(14));
      found = found || (arp && arp->sender_ip == ip(sender).v4_host() &&
                        arp->target_ip == ip(target).v4_host());
    }
    return found;
  }
  [[nodiscard]] std::uint64_t drops(Drop reason) const {
    return faces().view.ports()[0].traffic.drops[static_cast<std::size_t>(reason)];
  }
  [[nodiscard]] bool has_route(std::string_view to) const {
    const auto rows = faces().view.routes({}, 1000);
    return std::ranges::any_of(rows, [&](const RouteInfo& r) { return r.to == prefix(to); });
  }

  std::unique_ptr<SteppedNode> node_;
  wire::MacAddr mac_{};
};

TEST_F(NodeAddresses, P19_AddressIsServedWhileItIsThere) {
  const auto vip = prefix("192.168.1.50/24");
  ASSERT_TRUE(control().add_address("eth0", vip));
  pass(*node_, 50ms);
  EXPECT_TRUE(sends_arp("192.168.1.50", "192.168.1.50"));
  ping("192.168.1.50");
  EXPECT_TRUE(replies_from("192.168.1.50"));
  EXPECT_EQ(faces().view.config().ports[0].addresses.back(), vip);
  EXPECT_EQ(faces().view.ports()[0].addresses.back(), vip);
  const auto martians = drops(Drop::kIpMartianSource);
  ping("10.0.0.1", "192.168.1.50");
  EXPECT_EQ(drops(Drop::kIpMartianSource), martians + 1) << "no other host has it";

  ASSERT_TRUE(control().remove_address("eth0", vip));
  EXPECT_EQ(faces().view.config().ports[0].addresses, config().ports[0].addresses);
  EXPECT_EQ(faces().view.ports()[0].addresses, config().ports[0].addresses);
  // Packets to it go to its new owner, and it may send.
  ping("192.168.1.50");
  EXPECT_TRUE(sends_arp("192.168.1.1", "192.168.1.50"));
  answer("192.168.1.50");
  ping("10.0.0.1", "192.168.1.50");
  EXPECT_TRUE(replies_from("10.0.0.1"));
  EXPECT_EQ(drops(Drop::kIpMartianSource), martians + 1);
}

TEST_F(NodeAddresses, P19_NetworkComesAndGoesWithItsAddress) {
  ASSERT_TRUE(control().add_address("eth0", prefix("10.5.0.1/24")));
  EXPECT_TRUE(has_route("10.5.0.0/24"));
  pass(*node_, 50ms);
  ping("10.5.0.2");
  EXPECT_TRUE(sends_arp("10.5.0.1", "10.5.0.2"));
  answer("10.5.0.2");
  ASSERT_TRUE(control().add_route({prefix("10.6.0.0/24"), {ip("10.5.0.2")}}));
  ASSERT_TRUE(control().remove_address("eth0", prefix("10.5.0.1/24")));
  EXPECT_FALSE(has_route("10.5.0.0/24"));
  EXPECT_FALSE(has_route("10.5.0.1/32"));
  const auto no_route = drops(Drop::kIpNoRoute);
  for (const char* to : {"10.5.0.2", "10.5.0.1", "10.5.0.255"}) ping(to);
  EXPECT_EQ(drops(Drop::kIpNoRoute), no_route + 3);
  ASSERT_TRUE(control().remove_route(prefix("10.6.0.0/24")));
  const auto neighbours = faces().view.neighbour_keys("eth0");
  EXPECT_TRUE(
      std::ranges::none_of(neighbours, [](const auto& key) { return key.addr == ip("10.5.0.2"); }));
}

TEST_F(NodeAddresses, P19_LinksChangeLikePorts) {
  const auto vip6 = prefix("fd00:a::50/64");
  ASSERT_TRUE(control().add_address("ib0", vip6));
  ASSERT_TRUE(control().add_address("ib0", prefix("10.0.0.50/24")));
  const auto state = [&]() -> std::optional<link::AddressState> {
    const auto links = faces().view.links();
    for (const auto& row : links[0].ip6.addresses)
      if (row.address == vip6) return row.state;
    return std::nullopt;
  };
  EXPECT_EQ(state(), link::AddressState::kTentative);
  pass(*node_, 5s);
  EXPECT_EQ(state(), link::AddressState::kReady);
  EXPECT_TRUE(has_route("fd00:a::50/128"));
  EXPECT_TRUE(has_route("fd00:a::/64"));
  ping("10.0.0.50");
  EXPECT_TRUE(replies_from("10.0.0.50"));
  EXPECT_EQ(faces().view.config().links[0].addresses,
            (std::vector{prefix("10.0.0.1/24"), vip6, prefix("10.0.0.50/24")}));
  ASSERT_TRUE(control().remove_address("ib0", vip6));
  EXPECT_EQ(state(), std::nullopt);
  EXPECT_FALSE(has_route("fd00:a::50/128"));
  EXPECT_FALSE(has_route("fd00:a::/64"));
  // A link that goes down and up has what it had.
  ASSERT_TRUE(control().set_interface_up("ib0", false));
  pass(*node_, 5s);
  ASSERT_TRUE(control().remove_address("ib0", prefix("10.0.0.1/24")));
  ASSERT_TRUE(control().set_interface_up("ib0", true));
  pass(*node_, 5s);
  ping("10.0.0.50");
  EXPECT_TRUE(replies_from("10.0.0.50"));
  EXPECT_FALSE(has_route("10.0.0.1/32"));
}

TEST_F(NodeAddresses, P19_RefusedChangesChangeNothing) {
  const auto refused = [](const Status& s) {
    return s ? std::nullopt : std::optional{s.error().code};
  };
  EXPECT_EQ(refused(control().add_address("eth9", prefix("10.5.0.1/24"))), Errc::kNotFound);
  EXPECT_EQ(refused(control().remove_address("eth9", prefix("10.5.0.1/24"))), Errc::kNotFound);
  EXPECT_EQ(refused(control().add_address("eth0", prefix("10.0.0.1/32"))), Errc::kExists);
  EXPECT_EQ(refused(control().add_address("eth0", prefix("10.0.0.7/24"))), Errc::kExists);
  EXPECT_EQ(refused(control().add_address("eth0", prefix("10.5.0.255/24"))),
            Errc::kInvalidArgument);
  EXPECT_EQ(refused(control().remove_address("eth0", prefix("10.0.0.1/24"))), Errc::kNotFound);
  EXPECT_EQ(faces().view.config().ports[0].addresses, config().ports[0].addresses);
  EXPECT_EQ(faces().view.ports()[0].addresses, config().ports[0].addresses);
  ping("10.0.0.1");
  EXPECT_TRUE(replies_from("10.0.0.1"));
}

}  // namespace
}  // namespace ipoib::mgmt
