// SPDX-License-Identifier: BSD-3-Clause
// A node in virtual time: this thread runs the management loop and the worker's loops, and sets the
// time.
#include "lib/mgmt/stepped_node.h"

#include <rte_cycles.h>

#include <algorithm>

#include "lib/wire/arp.h"
#include "tests/support/contract_checks.h"
#include "tests/support/sim_tsc.h"
#include "tests/unit/lib/mgmt/node_fixture.h"
#include "tests/unit/lib/mgmt/stepped_loop.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::read_sim_tsc;
using ipoib::test::sim_tsc;

struct SteppedNodeTest : NodeFixture {
  static std::unique_ptr<SteppedNode> make(const NodeConfig& c, unsigned instance = 0) {
    sim_tsc = 77 * rte_get_tsc_hz();
    auto node = SteppedNode::create(c, make_timed_soft, &read_sim_tsc, instance);
    EXPECT_TRUE(node) << node.error().what;
    (*node)->start();
    return std::move(*node);
  }
  /// Returns the next frame of the type, or an empty one if there is none.
  static std::vector<std::byte> sent(rte_ring* ring, std::uint16_t ether_type) {
    while (rte_mbuf* const m = test::next_of(ring)) {
      std::vector<std::byte> frame = test::take(m);
      if (wire::read<wire::Be16>(frame, 12)->host() == ether_type) return frame;
    }
    return {};
  }
};

TEST_F(SteppedNodeTest, AnswersAPingAndForgetsWhoAskedWhenMinutesHavePassed) {
  const auto node = make(config());
  pass(*node, 2s);
  EXPECT_EQ(node->faces().view.links()[0].state, "up");
  const wire::MacAddr own = node->faces().view.ports()[0].mac;
  give(ethernet.to_node, ethernet_frame(0x0800, echo_request(), own));
  pass(*node, 50ms);
  ASSERT_FALSE(sent(ethernet.from_node, 0x0806).empty());
  const auto arp = wire::build_arp({wire::ArpOp::kReply, kPeerMac, kPeerIp, own, kPortIp});
  give(ethernet.to_node, ethernet_frame(0x0806, arp, own));
  pass(*node, 50ms);
  EXPECT_FALSE(sent(ethernet.from_node, 0x0800).empty());
  const auto hosts = [&node] {
    return std::ranges::count_if(
        node->faces().view.neighbour_keys("eth0"),
        [](const NeighbourKey& key) { return !wire::is_multicast(key.addr); });
  };
  EXPECT_EQ(hosts(), 1);
  pass(*node, 600s);  // the entry ends after 300 s without use
  EXPECT_EQ(hosts(), 0);
  leave(*node);
}

TEST_F(SteppedNodeTest, EveryPacketIsUnderOneCounter) {
  const auto node = make(config());
  pass(*node, 5s);  // The reports of groups are over.
  const auto balance = [&node] {
    pass(*node, 50ms);
    const PacketBalance b = node->packet_balance();
    EXPECT_EQ(b.came(), b.went());
    return b;
  };
  const PacketBalance before = balance();
  EXPECT_GT(before.sent, 0U);
  const wire::MacAddr own = node->faces().view.ports()[0].mac;

  // The reply waits for its neighbour, so its packet has arrived and not yet left.
  give(ethernet.to_node, ethernet_frame(0x0800, echo_request(), own));
  pass(*node, 50ms);
  PacketBalance b = node->packet_balance();
  EXPECT_EQ(b.came() - b.went(), 1U);
  EXPECT_EQ(node->unfinished().held, 1U);

  const auto arp = wire::build_arp({wire::ArpOp::kReply, kPeerMac, kPeerIp, own, kPortIp});
  give(ethernet.to_node, ethernet_frame(0x0806, arp, own));
  b = balance();
  EXPECT_EQ(b.received, before.received + 2);
  EXPECT_EQ(b.delivered, before.delivered + 2);
  EXPECT_EQ(b.dropped, before.dropped);
  EXPECT_EQ(node->unfinished().held, 0U);

  // The first frame has an unknown type; the second one waits in the device when it stops.
  give(ethernet.to_node, ethernet_frame(0x1234, echo_request(), own));
  b = balance();
  EXPECT_EQ(b.dropped, before.dropped + 1);
  give(ethernet.to_node, ethernet_frame(0x0800, echo_request(), own));
  ASSERT_TRUE(node->faces().control.set_port_started("eth0", false));
  b = balance();
  EXPECT_EQ(b.received, before.received + 4);
  EXPECT_EQ(b.dropped, before.dropped + 2);
  ASSERT_TRUE(node->faces().control.set_port_started("eth0", true));
  pass(*node, 1s);
  leave(*node);
}

// A group exists on the link while it has members, here this node itself.
TEST_F(SteppedNodeTest, U34_GroupsOfAStaticRouteFromALinkAreReceivedWhileItExists) {
  NodeConfig c = config();
  const auto group = *wire::parse_ip("239.1.2.3");
  const MulticastRouteConfig route{*wire::parse_prefix("239.1.0.0/16"), {}, "ib0", {"eth0"}};
  c.links[0].ip.groups = {group};
  const auto node = make(c);
  const auto routed = [&] {
    pass(*node, 500ms);
    const auto rows = node->faces().view.groups("ib0");
    return std::ranges::any_of(rows, [&](const auto& r) { return r.group == group && r.routed; });
  };
  pass(*node, 2s);
  EXPECT_FALSE(routed());
  ASSERT_TRUE(node->faces().control.add_multicast_route(route));
  EXPECT_TRUE(routed());
  ASSERT_TRUE(node->faces().control.remove_multicast_route(route));
  EXPECT_FALSE(routed());
  leave(*node);
}

TEST_F(SteppedNodeTest, TimeStandsStillBetweenSteps) {
  const auto node = make(config());
  pass(*node, 2s);
  const TimePoint before = node->now();
  EXPECT_GE(before - TimePoint{}, 2s);
  for (int i = 0; i < 1000; ++i) {
    node->iterate(0);
    node->run_once();
  }
  EXPECT_EQ(node->now(), before);
  ASSERT_TRUE(node->next_deadline());
  EXPECT_GT(*node->next_deadline(), before);
  leave(*node);
}

// One thread acts as the management lcore and the workers in turn.
TEST_F(SteppedNodeTest, EachStepIsMadeInItsRole) {
  const auto node = make(config());
  LcoreRole in_turn;
  node->faces().loop.post([&] { in_turn = lcore_role; });
  EXPECT_TRUE(node->work_waiting());
  pass(*node, 20ms);
  EXPECT_EQ(in_turn.kind, kContractsChecked ? LcoreRole::Kind::kManagement : LcoreRole::Kind::kAny);
  EXPECT_EQ(lcore_role.kind, LcoreRole::Kind::kAny);
  {
    const ActingAs role{LcoreRole::worker_number(0)};
    expect_broken([&] { node->faces().traffic.set_burst(32); }, "wrong lcore: a worker called");
  }
  leave(*node);
}

TEST_F(SteppedNodeTest, TwoInstancesLiveInOneProcess) {
  RingDevice cable2{"cable"}, ethernet2{"ethernet"};
  NodeConfig second = config();
  second.hcas[0].wire = cable2.name;
  second.ports[0].device = ethernet2.name;
  const auto a = make(config());
  EXPECT_EQ(SteppedNode::create(second, make_timed_soft, &read_sim_tsc).error().code,
            Errc::kNoResources);
  const auto b = make(second, 1);
  for (SteppedNode* node : {a.get(), b.get()}) {
    pass(*node, 2s);
    EXPECT_EQ(node->faces().view.links()[0].state, "up");
    leave(*node);
  }
}

}  // namespace
}  // namespace ipoib::mgmt
