// SPDX-License-Identifier: BSD-3-Clause
// Two whole nodes in virtual time, whose software HCAs have two LIDs each and a connection between
// them: the subnet administrator names a second path, and both HCAs change to it.
#include <rte_cycles.h>

#include <array>
#include <set>
#include <utility>

#include "drivers/soft/soft_frame.h"
#include "lib/mgmt/stepped_node.h"
#include "lib/wire/arp.h"
#include "lib/wire/ip.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

class TwoPathsTest : public NodeFixture {
 protected:
  /// Base LIDs of the ports; the next LIDs are the others.
  static constexpr std::array<std::uint16_t, 2> kLid = {2, 4};

  void SetUp() override {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    for (unsigned side : {0U, 1U}) {
      auto node = SteppedNode::create(node_config(side), make_timed_soft,
                                      &ipoib::test::read_sim_tsc, side + 1);
      ASSERT_TRUE(node) << node.error().what;
      nodes_[side] = std::move(*node);
      nodes_[side]->start();
    }
    pass(5s);
    for (const auto& node : nodes_) ASSERT_EQ(node->faces().view.links()[0].state, "up");
  }
  void TearDown() override {
    for (const auto& node : nodes_) node->begin_to_leave();
    pass(2s);
    for (const auto& node : nodes_) EXPECT_TRUE(node->has_left());
  }
  NodeConfig node_config(unsigned side) {
    NodeConfig c = config();
    c.hcas[0].wire = (side == 0 ? cable : other_cable).name;
    c.hcas[0].guid += side;
    c.hcas[0].lid = kLid[side];
    c.hcas[0].lmc = 1;
    c.hcas[0].sm_lid = kLid[0];
    c.hcas[0].subnet_administrator = side == 0;
    c.links[0].mode = LinkMode::kConnectedRc;
    if (side == 0) return c;
    c.links[0].addresses = {*wire::parse_prefix("10.0.0.2/24")};
    c.ports.clear();
    c.routes = {{*wire::parse_prefix("192.168.1.0/24"), {*wire::parse_ip("10.0.0.1")}}};
    return c;
  }
  /// Runs the loops of both nodes every 5 ms. The host of node 0 sends an echo request to node
  /// 1 in each of them, unless it is silent, and counts the replies.
  void pass(Duration d) {
    for (const TimePoint end = nodes_[0]->now() + d; nodes_[0]->now() < end;) {
      ipoib::test::sim_tsc += rte_get_tsc_hz() / 200;
      if (talks_) {
        const auto request =
            fwd::test::echo_packet(wire::IpAddr::v4(kPeerIp), *wire::parse_ip("10.0.0.2"), 32);
        give(ethernet.to_node, ethernet_frame(0x0800, request, mac()));
        ++requests_;
      }
      for (const auto& node : nodes_) {
        node->iterate(0);
        node->run_once();
      }
      carry(cable, other_cable);
      carry(other_cable, cable);
      serve_host();
    }
  }
  void carry(const RingDevice& from, const RingDevice& to) {
    while (rte_mbuf* const m = test::next_of(from.from_node)) {
      const std::vector<std::byte> frame = test::take(m);
      const auto lrh = wire::read<wire::Lrh>(frame, sizeof(soft::EthHdr));
      if (!broken_.contains(lrh->dlid.host())) give(to.to_node, frame);
    }
  }
  void serve_host() {
    while (rte_mbuf* const m = test::next_of(ethernet.from_node)) {
      const std::vector<std::byte> frame = test::take(m);
      const std::uint16_t type = wire::read<wire::Be16>(frame, 12)->host();
      const auto ip = wire::read<wire::Ipv4Hdr>(frame, 14);
      if (type == 0x0806)
        give(ethernet.to_node,
             ethernet_frame(
                 0x0806, wire::build_arp({wire::ArpOp::kReply, kPeerMac, kPeerIp, mac(), kPortIp}),
                 mac()));
      else if (type == 0x0800 && ip->protocol == static_cast<std::uint8_t>(wire::IpProto::kIcmp))
        ++replies_;
    }
  }
  [[nodiscard]] wire::MacAddr mac() const { return nodes_[0]->faces().view.ports()[0].mac; }
  [[nodiscard]] link::ConnectionCounters counters(unsigned side) const {
    return nodes_[side]->faces().view.links()[0].connected->counters;
  }
  /// The connection of the side that sends.
  [[nodiscard]] std::uint32_t qpn(unsigned side) const {
    const auto rows = nodes_[side]->faces().view.connections("ib0");
    return rows.size() == 1 && rows[0].state == "established" ? rows[0].qpn : 0;
  }
  /// All requests of this time are answered, and those of before that the connection kept.
  void expect_talk(Duration d) {
    const auto requests = std::exchange(requests_, 0U);
    const auto replies = std::exchange(replies_, 0U);
    pass(d);
    EXPECT_GE(replies_, requests_ - 2) << "before: " << replies << " of " << requests;
  }

  RingDevice other_cable{"cable"};
  std::array<std::unique_ptr<SteppedNode>, 2> nodes_;
  std::set<std::uint16_t> broken_;  ///< Frames to these LIDs are lost.
  bool talks_ = false;
  std::uint64_t requests_ = 0;
  std::uint64_t replies_ = 0;
};

TEST_F(TwoPathsTest, C15_SoftwareHcasMigrateAConnectionAndBack) {
  talks_ = true;
  pass(3s);
  const std::array<std::uint32_t, 2> qpns = {qpn(0), qpn(1)};
  ASSERT_NE(qpns[0], 0U);
  ASSERT_NE(qpns[1], 0U);
  std::uint64_t migrations = 0;
  for (const unsigned bit : {0U, 1U}) {
    for (unsigned side : {0U, 1U}) ASSERT_EQ(counters(side).alternates, migrations + 1);
    expect_talk(1s);
    broken_ = {static_cast<std::uint16_t>(kLid[0] + bit),
               static_cast<std::uint16_t>(kLid[1] + bit)};
    pass(2s);  // The retries take about 0.6 s.
    expect_talk(1s);
    broken_.clear();
    ++migrations;
    for (unsigned side : {0U, 1U}) {
      EXPECT_EQ(counters(side).migrations, migrations);
      EXPECT_EQ(qpn(side), qpns[side]) << "the connection stays";
    }
    pass(65s);  // The next path is sought again after a minute, if the first query was lost.
  }
  for (unsigned side : {0U, 1U}) EXPECT_EQ(counters(side).established, 1U);
}

}  // namespace
}  // namespace ipoib::mgmt
