// SPDX-License-Identifier: BSD-3-Clause
// The packet trace of a whole node in virtual time: requests, the names in its records, and its
// end.
#include "lib/mgmt/node/packet_trace.h"

#include <rte_cycles.h>

#include "lib/mgmt/stepped_node.h"
#include "tests/support/sim_tsc.h"
#include "tests/unit/lib/mgmt/node_fixture.h"
#include "tests/unit/lib/mgmt/stepped_loop.h"

namespace ipoib::mgmt {
namespace {

using State = TraceInfo::State;
using ipoib::test::read_sim_tsc;
using ipoib::test::sim_tsc;

namespace trace = msg::trace;

struct PacketTraceTest : NodeFixture {
  PacketTraceTest() {
    sim_tsc = 77 * rte_get_tsc_hz();
    NodeConfig c = config();
    c.links[0].addresses.push_back(*wire::parse_prefix("fd00:a::1/64"));
    auto made = SteppedNode::create(c, make_timed_soft, &read_sim_tsc);
    EXPECT_TRUE(made) << made.error().what;
    node = std::move(*made);
    node->start();
    pass(*node, 3s);
    own = node->faces().view.ports()[0].mac;
  }
  ~PacketTraceTest() override { leave(*node); }
  Trace& tracer() { return node->faces().trace; }
  void start(const TraceRequest& request) {
    const auto started = tracer().start(request);
    ASSERT_TRUE(started) << started.error().what;
    pass(*node, 10ms);
  }
  /// A UDP packet of a host behind eth0.
  void arrive(std::uint32_t dst, std::uint8_t ttl = 64) {
    const auto packet = fwd::test::ip_packet(wire::IpAddr::v4(kPeerIp), wire::IpAddr::v4(dst), 17,
                                             std::vector<std::byte>(28), ttl);
    give(ethernet.to_node, ethernet_frame(0x0800, packet, own));
    pass(*node, 20ms);
  }
  template <class Step>
  static const Step& step(const TracedPacket& p, std::size_t i) {
    return std::get<Step>(p.record.path()[i]);
  }

  std::unique_ptr<SteppedNode> node;
  wire::MacAddr own{};
};

TEST_F(PacketTraceTest, RecordsHaveTheNamesOfTheNode) {
  ASSERT_TRUE(node->faces().control.add_neighbour(
      {.iface = "ib0",
       .addr = *wire::parse_ip("10.0.0.2"),
       .lladdr = "00:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:02",
       .lid = 17,
       .sl = 0}));
  start({.packets = 10, .in = "eth0"});
  EXPECT_EQ(tracer().info().state, State::kRunning);
  arrive(0x0a00'0002);
  ASSERT_EQ(tracer().packets().size(), 1U);
  const TracedPacket& p = tracer().packets()[0];
  EXPECT_EQ(p.in, "eth0");
  EXPECT_EQ(p.record.worker, 0);
  EXPECT_GT(p.since_start, 10ms);
  EXPECT_LT(p.since_start, 100ms);
  ASSERT_EQ(p.record.path().size(), 5U);
  ASSERT_EQ(p.names.size(), 5U);
  EXPECT_EQ(p.names[2].iface, "ib0");
  EXPECT_EQ(p.names[2].prefix, wire::parse_prefix("10.0.0.0/24"));
  EXPECT_EQ(step<trace::Resolved>(p, 3).qpn, 0x48U);
  EXPECT_EQ(p.names[3].lid, 17);
  EXPECT_EQ(step<trace::Sent>(p, 4).mode, table::NeighbourMode::kUd);
  EXPECT_EQ(p.names[4].iface, "ib0");
}

TEST_F(PacketTraceTest, LocalHeldAndDroppedPackets) {
  start({.packets = 10, .in = "eth0", .protocol = 17});
  arrive(kPortIp);
  arrive(0x0a00'0009);
  arrive(0x0a00'0009, 1);
  arrive(0x0808'0808);
  const auto& packets = tracer().packets();
  ASSERT_EQ(packets.size(), 4U);
  EXPECT_EQ(packets[0].names[2].prefix, wire::parse_prefix("192.168.1.1/32"));
  EXPECT_EQ(step<trace::Punted>(packets[0], 3).kind, msg::Up::Kind::kLocal);
  EXPECT_EQ(packets[1].names.back().iface, "ib0");
  EXPECT_EQ(wire::to_string(std::get<trace::Held>(packets[1].record.path().back()).addr),
            "10.0.0.9");
  EXPECT_EQ(step<trace::Dropped>(packets[2], 4).reason, Drop::kIpTtlExceeded);
  EXPECT_EQ(packets[3].names[2].prefix, std::nullopt);
  EXPECT_EQ(step<trace::Dropped>(packets[3], 3).reason, Drop::kIpNoRoute);
}

TEST_F(PacketTraceTest, EndsByItselfAndByStop) {
  start({.packets = 2, .dst = wire::parse_prefix("8.8.8.0/24"), .dropped_only = true});
  arrive(0x0808'0808);
  EXPECT_EQ(tracer().info().state, State::kRunning);
  arrive(kPortIp);
  for (int i = 0; i < 3; ++i) arrive(0x0808'0809);
  EXPECT_EQ(tracer().info().state, State::kComplete);
  EXPECT_EQ(tracer().info().request.packets, 2U);
  EXPECT_EQ(tracer().packets().size(), 2U);
  EXPECT_FALSE(tracer().stop());

  start({.packets = 2, .in = "eth0"});
  EXPECT_TRUE(tracer().packets().empty()) << "those of the trace before";
  arrive(kPortIp);
  EXPECT_TRUE(tracer().stop());
  EXPECT_EQ(tracer().info().state, State::kStopped);
  pass(*node, 10ms);
  arrive(kPortIp);
  EXPECT_EQ(tracer().packets().size(), 1U);
  tracer().clear();
  tracer().clear();
  EXPECT_EQ(tracer().info().state, State::kNone);
  EXPECT_TRUE(tracer().packets().empty());
}

// The worker does not run: what it has published comes, and nothing else happens.
TEST_F(PacketTraceTest, AWorkerThatStandsStill) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(tracer().start({.packets = 1000, .in = "eth0"}));
    node->run_once();
    if (i == 10) tracer().clear();
  }
  EXPECT_EQ(tracer().info().state, State::kRunning);
  EXPECT_TRUE(tracer().packets().empty());
  arrive(kPortIp);
  ASSERT_EQ(tracer().packets().size(), 1U);
  EXPECT_TRUE(tracer().start({.packets = 1, .in = "eth0"}))
      << "the record is gone, the worker still has it";
  EXPECT_TRUE(tracer().packets().empty());
  arrive(kPortIp);
  EXPECT_EQ(tracer().info().state, State::kComplete);
}

TEST_F(PacketTraceTest, AWrongRequestChangesNothing) {
  start({.packets = 5, .in = "eth0"});
  const std::pair<TraceRequest, Errc> rows[] = {
      {{.packets = 0}, Errc::kInvalidArgument},
      {{.packets = 1001}, Errc::kInvalidArgument},
      {{.packets = 5, .in = "eth7"}, Errc::kNotFound},
      {{.packets = 5,
        .src = wire::parse_prefix("10.0.0.0/8"),
        .dst = wire::parse_prefix("fd00::/8")},
       Errc::kInvalidArgument},
  };
  for (const auto& [request, code] : rows) {
    const auto started = tracer().start(request);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, code);
  }
  arrive(kPortIp);
  EXPECT_EQ(tracer().packets().size(), 1U);
}

TEST_F(PacketTraceTest, RoutesAndGroupsOfIpv6) {
  start({.packets = 10, .dst = wire::parse_prefix("fd00:a::/64")});
  const auto packet = fwd::test::ip_packet(
      *wire::parse_ip("fd00:1::9"), *wire::parse_ip("fd00:a::9"), 17, std::vector<std::byte>(8));
  give(ethernet.to_node, ethernet_frame(0x86dd, packet, own));
  pass(*node, 20ms);
  ASSERT_EQ(tracer().packets().size(), 1U);
  const TracedPacket& p = tracer().packets()[0];
  EXPECT_EQ(p.names[2].prefix, wire::parse_prefix("fd00:a::/64"));
  EXPECT_EQ(p.names.back().iface, "ib0");
}

}  // namespace
}  // namespace ipoib::mgmt
