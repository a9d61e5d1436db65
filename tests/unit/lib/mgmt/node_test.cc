// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node.h"

#include <rte_cycles.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "lib/mgmt/node/node_assembly.h"
#include "lib/mgmt/node/node_builder.h"
#include "lib/wire/arp.h"
#include "lib/wire/igmp.h"
#include "tests/support/contract_checks.h"
#include "tests/support/mbufs.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

struct NodeTest : NodeFixture {
  /// Makes a node with one worker, which the test steps; null if that failed.
  static std::unique_ptr<NodeAssembly> build(const NodeConfig& c) {
    auto built = build_node(
        c, {0, {1}}, make_soft, []() noexcept { return std::uint64_t{rte_rdtsc()}; }, 1);
    EXPECT_TRUE(built) << built.error().what;
    return built ? std::move(*built) : nullptr;
  }
  /// Builds and starts a node that is a multicast router on its port.
  static std::unique_ptr<NodeAssembly> start_router(NodeConfig c) {
    c.ports[0].ip.multicast_router = true;
    auto built = build(c);
    if (built != nullptr) built->runner.start();
    return built;
  }
};

TEST_F(NodeTest, U08_LinkComesUpByItsOwnAdministratorAndIsLeftAtTheEnd) {
  run(config(), [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    const auto link = ask<LinkInfo>(node, [](const NodeFaces& n) { return n.view.links()[0]; });
    EXPECT_EQ(link.mtu, 2044);
    EXPECT_EQ(link.parameters.qkey, 0x8001'0b1bU);
    EXPECT_EQ(link.parameters.broadcast_mlid, 0xc000);
    const auto sa = ask<std::vector<SaInfo>>(
        node, [](const NodeFaces& n) { return n.view.subnet_administration(); });
    // These are the broadcast group and the groups of the node's own addresses.
    ASSERT_GE(sa[0].groups.size(), 1U);
    for (const auto& group : sa[0].groups) EXPECT_EQ(group.members.size(), 1U);
  });
}

// Many links behind one LID, such as those of virtual functions, need more than the default.
TEST_F(NodeTest, C16_AnHcaTakesAsManyConnectionsOfAPortAsConfigured) {
  HcaConfig hca;
  EXPECT_EQ(manager_config(hca).limits.port_max, cm::PortLimits{}.port_max);
  hca.connections_per_port = 1000;
  EXPECT_EQ(manager_config(hca).limits.port_max, 1000U);
}

struct CreatedGroupTest : NodeTest {
  /// Returns the parameters of a link of site-local scope that has created its broadcast group.
  link::LinkParameters create(std::optional<unsigned> hop_limit) {
    NodeConfig c = config();
    LinkConfigEntry& l = c.links[0];
    l.scope = 5;
    l.create_broadcast = true;
    l.broadcast.tclass = 0x28;
    l.broadcast.flow_label = 0x12345;
    l.broadcast.hop_limit = hop_limit;
    link::LinkParameters parameters;
    run(c, [&](const NodeFaces& node) {
      EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
      parameters =
          ask<LinkInfo>(node, [](const NodeFaces& n) { return n.view.links()[0]; }).parameters;
    });
    return parameters;
  }
};

TEST_F(CreatedGroupTest, U38_U42_TheGlobalRouteIsThatOfTheConfiguration) {
  const link::LinkParameters parameters = create(9);
  EXPECT_EQ(parameters.tclass, 0x28);
  EXPECT_EQ(parameters.flow_label, 0x12345U);
  EXPECT_EQ(parameters.hop_limit, 9);
}

// With a hop limit of 0 the packets of a larger scope would stay within the IB subnet.
TEST_F(CreatedGroupTest, U38_U42_TheHopLimitOfALargerScopeCrossesRoutersByDefault) {
  EXPECT_EQ(create({}).hop_limit, 64);
}

TEST_F(NodeTest, AnswersArpAndEchoRequestsForItsPort) {
  run(config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] {
      return ask<bool>(node, [](const NodeFaces& n) { return n.view.ports()[0].state == "up"; });
    }));
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    give(ethernet.to_node, ethernet_frame(0x0800, echo_request(), mac));
    // The node has to resolve the sender before it can answer.
    std::optional<wire::Arp> question;
    do {
      const auto frame = take(ethernet.from_node, 0x0806);
      question = wire::parse_arp(wire::LinkKind::kEthernet, std::span{frame}.subspan(14));
    } while (question && question->target_ip != kPeerIp);
    ASSERT_TRUE(question);
    EXPECT_EQ(question->sender_ip, kPortIp);
    const auto reply = wire::build_arp({wire::ArpOp::kReply, kPeerMac, kPeerIp, mac, kPortIp});
    give(ethernet.to_node, ethernet_frame(0x0806, reply, mac));

    const auto frame = take(ethernet.from_node, 0x0800);
    EXPECT_EQ(std::memcmp(frame.data(), kPeerMac.data(), 6), 0);
    const auto ip = *wire::read<wire::Ipv4Hdr>(frame, 14);
    EXPECT_EQ(ip.src.host(), kPortIp);
    EXPECT_EQ(ip.dst.host(), kPeerIp);
    EXPECT_EQ(wire::read<wire::IcmpHdr>(frame, 34)->type, 0);
  });
}

/// Neighbours can find a node that has no packet buffers left, because its own messages use a
/// reserve.
TEST_F(NodeTest, AnswersArpWithoutAPacketBufferLeft) {
  run(config(), [this](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] {
      return ask<bool>(node, [](const NodeFaces& n) { return n.view.ports()[0].state == "up"; });
    }));
    // The mbufs are taken on the management lcore, because its mempool cache holds some of them.
    std::vector<rte_mbuf*> taken;
    ask<int>(node, [&taken](const NodeFaces&) {
      rte_mempool* const pool = rte_mempool_lookup("ipoib_mbufs_0");
      while (rte_mbuf* m = rte_pktmbuf_alloc(pool)) taken.push_back(m);
      return 0;
    });
    EXPECT_GT(taken.size(), 1000U);
    const auto question =
        wire::build_arp({wire::ArpOp::kRequest, kPeerMac, kPeerIp, wire::MacAddr{}, kPortIp});
    constexpr wire::MacAddr kEverybody{std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                       std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
    give(ethernet.to_node, ethernet_frame(0x0806, question, kEverybody));
    std::optional<wire::Arp> answer;
    do {
      const auto frame = take(ethernet.from_node, 0x0806);
      answer = wire::parse_arp(wire::LinkKind::kEthernet, std::span{frame}.subspan(14));
    } while (answer && answer->target_ip != kPeerIp);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->sender_ip, kPortIp);
    ask<int>(node, [&taken](const NodeFaces&) {
      rte_pktmbuf_free_bulk(taken.data(), static_cast<unsigned>(taken.size()));
      return 0;
    });
  });
}

TEST_F(NodeTest, ANeighbourIsInThePrefixTableWithItsInterface) {
  const auto built = build(config());
  ASSERT_NE(built, nullptr);
  NodeParts& parts = *built->parts;
  const auto iface = parts.interfaces.find("eth0")->control->id();
  const auto hop = [&] {
    return parts.tables.next_hops->get(parts.tables.prefixes->lookup(kPeerIp));
  };
  ASSERT_TRUE(parts.routes->add_network(iface, *wire::parse_prefix("192.168.1.1/24")));
  const table::NextHop network{table::NextHopKind::kConnected, 0, iface, table::kNoNeighbour};
  EXPECT_EQ(hop(), network);
  const auto index = *parts.neighbours->allocate_index();
  table::Neighbour n;
  n.addr = wire::IpAddr::v4(kPeerIp);
  n.iface = iface;
  n.state = table::NeighbourState::kValid;
  parts.neighbours->install(index, n);
  EXPECT_EQ(hop(), (table::NextHop{table::NextHopKind::kConnected, 0, iface, index}));
  parts.neighbours->remove(index);
  EXPECT_EQ(hop(), network);
}

TEST_F(NodeTest, TablesOfPrefixesHaveTheConfiguredSizes) {
  NodeConfig c = config();
  c.route_table = {.max_prefixes = 164, .max_prefixes6 = 80, .max_networks = 100};
  const auto built = build(c);
  ASSERT_NE(built, nullptr);
  NodeControl& control = built->control;
  const auto fill = [&control](const std::string& to) {
    for (unsigned n = 0; n < 200; ++n) {
      const auto prefix = *wire::parse_prefix(fmt::format(fmt::runtime(to), n));
      if (auto s = control.add_route({.to = prefix, .via = {}, .blackhole = true}); !s)
        return s.error().what;
    }
    return std::string{};
  };
  const SharedTables& tables = built->parts->tables;
  const std::size_t before = tables.prefixes->size();
  EXPECT_NE(fill("20.1.{}.128/25").find("all 100 groups are in use"), std::string::npos);
  EXPECT_EQ(tables.prefixes->size(), before + 98) << "two have own addresses";
  EXPECT_NE(fill("20.0.{}.0/24").find("no room for prefix"), std::string::npos);
  EXPECT_EQ(tables.prefixes->size(), 164U);
  EXPECT_NE(fill("fd00:0:0:{}::/64").find("no room for prefix"), std::string::npos);
  EXPECT_EQ(tables.prefixes6->size(), 80U);
}

// Packets with TTL 1 from many sources use up the rate of most errors, but not that of the error
// about a packet that is too big.
TEST_F(NodeTest, P05_AFloodOfExpiredPacketsLeavesPathMtuDiscovery) {
  const auto built = build(config());
  ASSERT_NE(built, nullptr);
  NodeParts& parts = *built->parts;
  NodeStats& stats = built->faces.stats;
  built->runner.start();
  const auto punt = [&](std::uint32_t sender, const wire::IcmpError& error) {
    const auto packet = fwd::test::ip_packet(wire::IpAddr::v4(sender), wire::IpAddr::v4(kPeerIp),
                                             17, std::vector(40, std::byte{0x42}));
    msg::Up up{};
    up.kind = msg::Up::Kind::kIcmpError;
    up.iface = parts.interfaces.find("eth0")->control->id();
    up.icmp_type = error.type;
    up.icmp_code = error.code;
    up.mtu = static_cast<std::uint16_t>(error.value);
    up.mbuf = test::mbuf_of(parts.buffers.on(0), packet);
    parts.punt->handle(up);
  };
  for (std::uint32_t i = 0; i < 500; ++i) punt(0x0a0a'0000 + i, wire::kTtlExceeded);
  const IcmpErrorCounters flooded = stats.icmp_errors();
  EXPECT_GT(flooded.suppressed, 0U);
  punt(kPeerIp, wire::unreachable4(wire::IcmpUnreachable::kFragmentationNeeded, 1500));
  EXPECT_EQ(stats.icmp_errors().suppressed, flooded.suppressed);
}

/// Hands over a packet of IGMP from the port, as a worker does.
void punt_membership(NodeParts& parts, const std::vector<std::byte>& packet) {
  msg::Up up{};
  up.kind = msg::Up::Kind::kMembership;
  up.iface = parts.interfaces.find("eth0")->control->id();
  up.mbuf = test::mbuf_of(parts.buffers.on(0), packet);
  parts.punt->handle(up);
}

/// A host on the port eth0 asks for `n` groups from 239.1.0.0 + `first` on.
void report_groups(NodeParts& parts, std::uint32_t first, std::uint32_t n) {
  wire::MembershipReport report;
  for (std::uint32_t i = first; i < first + n; ++i)
    report.records.push_back({wire::RecordType::kIsExclude, wire::IpAddr::v4(0xef01'0000 + i), {}});
  punt_membership(parts, wire::make_igmp(wire::IpAddr::v4(kPeerIp), report));
}

// A host that reports more groups than its share, in IGMP that a worker has passed on.
TEST_F(NodeTest, WhatTheLimitsOfIgmpRefuseIsInTheTotals) {
  const auto built = start_router(config());
  ASSERT_NE(built, nullptr);
  NodeParts& parts = *built->parts;
  parts.multicast->update_state(parts.now());  // The port is up.
  for (const std::uint32_t first : {0U, 150U}) report_groups(parts, first, 150);
  const auto refused = built->faces.stats.totals().membership_refused;
  EXPECT_EQ(refused.at("host_groups"), 44U);
  EXPECT_EQ(refused.at("groups"), 0U);
}

TEST_F(NodeTest, P06_TheLimitOfGroupsIsThatOfTheConfiguration) {
  NodeConfig c = config();
  c.ports[0].ip.max_groups = 20;
  const auto built = start_router(c);
  ASSERT_NE(built, nullptr);
  NodeParts& parts = *built->parts;
  parts.multicast->update_state(parts.now());  // The port is up.
  report_groups(parts, 0, 30);
  EXPECT_EQ(built->faces.stats.totals().membership_refused.at("groups"), 10U);
}

// A node that is a multicast router on its port only, as the election goes on.
TEST_F(NodeTest, P06_TheQueriersOfItsLinksAreListed) {
  const auto built = start_router(config());
  ASSERT_NE(built, nullptr);
  NodeParts& parts = *built->parts;
  const auto row = [&] {
    const auto rows = built->faces.view.queriers("eth0");
    EXPECT_EQ(rows.size(), 2U);
    EXPECT_EQ(built->faces.view.queriers("").size(), 2U) << "the link is no multicast router's";
    EXPECT_TRUE(built->faces.view.queriers("ib0").empty());
    EXPECT_FALSE(rows.back().v4);
    return rows.front();
  };
  EXPECT_EQ(row().role, "none") << "the port is down";
  EXPECT_EQ(row().querier, std::nullopt);
  parts.multicast->update_state(parts.now());  // It is up.
  EXPECT_EQ(row().iface, "eth0");
  EXPECT_TRUE(row().v4);
  EXPECT_EQ(row().querier, wire::IpAddr::v4(kPortIp));
  EXPECT_EQ(row().role, "self");
  EXPECT_EQ(row().forwarder, "listening");
  parts.multicast->router().tick(parts.now() + route::MulticastMembership::kListenTime);
  EXPECT_EQ(row().forwarder, "self");
  punt_membership(parts, wire::make_igmp(wire::IpAddr::v4(kPortIp - 1), wire::MembershipQuery{}));
  EXPECT_EQ(row().querier, wire::IpAddr::v4(kPortIp - 1));
  EXPECT_EQ(row().role, "other");
  EXPECT_EQ(row().forwarder, "other");
  EXPECT_LT(row().age, std::chrono::minutes(1));
}

// The port's solicited-node group and a group of its configuration, at once and in answer to a
// query that a worker has passed on.
TEST_F(NodeTest, P06_OwnGroupsAreReportedToTheRoutersOfAPort) {
  NodeConfig c = config();
  c.ports[0].ip.groups = {*wire::parse_ip("239.1.1.1")};
  const auto built = build(c);
  ASSERT_NE(built, nullptr);
  NodeParts& parts = *built->parts;
  built->runner.start();
  const auto reports = [&] {
    for (const InterfaceTotals& i : built->faces.stats.totals().interfaces)
      if (i.name == "eth0") return i.membership.at("reports_sent");
    return std::uint64_t{0};
  };
  route::MulticastRouter& router = parts.multicast->router();
  router.tick(parts.now());
  EXPECT_EQ(reports(), 0U) << "the port is down";
  parts.multicast->update_state(parts.now());  // It is up.
  router.tick(parts.now());
  const std::uint64_t at_once = reports();
  EXPECT_GE(at_once, 1U);
  router.tick(parts.now() + std::chrono::seconds(2));  // the repetition
  const std::uint64_t before = reports();
  wire::MembershipQuery query;
  query.max_response = std::chrono::milliseconds(100);
  msg::Up up{};
  up.kind = msg::Up::Kind::kMembership;
  up.iface = parts.interfaces.find("eth0")->control->id();
  up.mbuf = test::mbuf_of(parts.buffers.on(0), wire::make_igmp(wire::IpAddr::v4(kPeerIp), query));
  parts.punt->handle(up);
  router.tick(parts.now() + std::chrono::seconds(4));
  EXPECT_EQ(reports(), before + 1);
}

TEST_F(NodeTest, IcmpErrorsAndOwnPacketsWithoutMbufsAreInTheStatistics) {
  const auto built = build(config());
  ASSERT_NE(built, nullptr);
  NodeParts& parts = *built->parts;
  NodeStats& stats = built->faces.stats;
  built->runner.start();
  const auto to_closed_port = fwd::test::ip_packet(
      wire::IpAddr::v4(kPeerIp), wire::IpAddr::v4(kPortIp), 17, std::vector(40, std::byte{0x42}));
  rte_mempool* const pool = parts.buffers.on(0);
  msg::Up up{};
  up.kind = msg::Up::Kind::kLocal;
  up.iface = parts.interfaces.find("eth0")->control->id();
  up.mbuf = test::mbuf_of(pool, to_closed_port);
  parts.punt->handle(up);
  EXPECT_EQ(stats.icmp_errors().sent, 1U);
  stats.clear_forward_stats();
  EXPECT_EQ(stats.icmp_errors().sent, 0U);
  EXPECT_EQ(stats.totals().icmp_errors.sent, 1U);

  std::vector<rte_mbuf*> taken;
  for (rte_mempool* const each : {pool, parts.buffers.reserve()})
    while (rte_mbuf* m = rte_pktmbuf_alloc(each)) taken.push_back(m);
  stats.clear_stats();
  parts.injector->send_own(to_closed_port, nullptr);
  const auto drops = stats.drops();
  ASSERT_EQ(drops.size(), 1U);
  EXPECT_EQ(drops[0].reason, Drop::kNoMbuf);
  EXPECT_EQ(drops[0].where, "node");
  EXPECT_EQ(drops[0].packets, 1U);
  for (rte_mbuf* m : taken) rte_pktmbuf_free(m);
}

/// Returns a frame with a packet to 239.1.2.3.
std::vector<std::byte> group_packet() {
  const auto group = wire::IpAddr::v4(0xef01'0203);
  const auto packet = fwd::test::ip_packet(wire::IpAddr::v4(kPeerIp), group, 17,
                                           std::vector(40, std::byte{0x42}), 9);
  return ethernet_frame(0x0800, packet, wire::group_mac(group));
}

/// A route for many groups forwards each stream from its first packet on; the worker reports the
/// stream.
TEST_F(NodeTest, P06_StreamsOfAStaticRouteBecomeKnown) {
  NodeConfig c = config();
  c.multicast_routes = {{*wire::parse_prefix("239.0.0.0/8"), {}, "eth0", {"ib0"}}};
  run(c, [this](const NodeFaces& node) {
    std::optional<MulticastRouteInfo> row;
    EXPECT_TRUE(eventually([&] {
      give(ethernet.to_node, group_packet());
      const auto rows = ask<std::vector<MulticastRouteInfo>>(
          node, [](const NodeFaces& n) { return n.view.multicast_routes(); });
      for (const MulticastRouteInfo& r : rows)
        if (r.source == wire::IpAddr::v4(kPeerIp)) row = r;
      return row.has_value();
    }));
    ASSERT_TRUE(row);
    EXPECT_EQ(row->group, wire::IpAddr::v4(0xef01'0203));
    EXPECT_EQ(row->in, "eth0");
    EXPECT_EQ(row->out, std::vector<std::string>{"ib0"});
  });
}

TEST_F(NodeTest, StatisticsCountFromTheLastClear) {
  run(config(), [this](const NodeFaces& node) {
    const auto received = [&] {
      return ask<std::uint64_t>(node, [](const NodeFaces& n) {
        return n.view.ports()[0].traffic.drops[static_cast<std::size_t>(Drop::kEthUnknownType)];
      });
    };
    const auto mac =
        ask<wire::MacAddr>(node, [](const NodeFaces& n) { return n.view.ports()[0].mac; });
    const auto unknown = ethernet_frame(0x9999, echo_request(), mac);
    give(ethernet.to_node, unknown);
    EXPECT_TRUE(eventually([&] { return received() == 1; }));
    // Reports of groups may be lost too, as no router is on the link.
    const auto drops =
        ask<std::vector<DropInfo>>(node, [](const NodeFaces& n) { return n.stats.drops(); });
    EXPECT_TRUE(std::ranges::any_of(drops, [](const DropInfo& row) {
      return row.reason == Drop::kEthUnknownType && row.packets == 1;
    }));
    EXPECT_EQ(xstat(node, "eth0", "rx_drop_eth_unknown_type"), 1);
    EXPECT_EQ(xstat(node, "eth0", "rx_good_packets"), 1);
    ask<int>(node, [](const NodeFaces& n) { return n.stats.clear_stats(), 0; });
    EXPECT_EQ(xstat(node, "eth0", "rx_drop_eth_unknown_type"), 0);
    EXPECT_EQ(xstat(node, "eth0", "rx_good_packets"), 0);
    EXPECT_EQ(received(), 0U);
    const auto cleared =
        ask<std::vector<DropInfo>>(node, [](const NodeFaces& n) { return n.stats.drops(); });
    EXPECT_TRUE(std::ranges::none_of(
        cleared, [](const DropInfo& row) { return row.reason == Drop::kEthUnknownType; }));
    give(ethernet.to_node, unknown);
    EXPECT_TRUE(eventually([&] { return received() == 1; }));
  });
}

// The ethdev of the HCA counts frames, in addition to the HCA's drop reasons.
TEST_F(NodeTest, ExtendedStatisticsOfEveryInterfaceAndHca) {
  run(config(), [](const NodeFaces& node) {
    ASSERT_TRUE(eventually([&] { return link_is_up(node); }));
    // The link sends at least neighbour discovery, soon after the worker starts.
    EXPECT_TRUE(eventually([&] { return xstat(node, "ib0", "tx_good_packets") > 0; }));
    EXPECT_EQ(xstat(node, "ib0", "rx_drop_ip_no_route"), 0);
    EXPECT_TRUE(eventually([&] { return xstat(node, "soft0", "tx_good_packets") > 0; }));
    EXPECT_EQ(xstat(node, "soft0", "rx_drop_ib_icrc"), 0);
    EXPECT_TRUE(ask<std::vector<Xstat>>(node, [](const NodeFaces& n) {
                  return n.stats.xstats("ib7");
                }).empty());
  });
}

TEST_F(NodeTest, InterfacesGoDownAndUpByRequest) {
  run(config(), [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    EXPECT_TRUE(ask<bool>(node, [](const NodeFaces& n) {
      return n.control.set_interface_up("ib0", false).has_value();
    }));
    EXPECT_TRUE(eventually([&] {
      return ask<bool>(node,
                       [](const NodeFaces& n) { return n.view.links()[0].state == "stopped"; });
    }));
    EXPECT_TRUE(ask<bool>(node, [](const NodeFaces& n) {
      return n.control.set_interface_up("ib0", true).has_value();
    }));
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    EXPECT_EQ(ask<Errc>(node,
                        [](const NodeFaces& n) {
                          return n.control.set_interface_up("ib7", true).error().code;
                        }),
              Errc::kNotFound);
  });
}

// Neighbours and routes are listed by key, in order.
TEST_F(NodeTest, NeighboursAndRoutesByKey) {
  run(config(), [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    ask<int>(node, [](const NodeFaces& n) {
      for (const char* addr : {"192.168.1.9", "192.168.1.3", "192.168.1.200"})
        EXPECT_TRUE(n.control.add_neighbour({"eth0", *wire::parse_ip(addr), "02:00:00:00:00:09"}));
      auto keys = n.view.neighbour_keys("eth0");
      std::erase_if(keys, [](const NeighbourKey& k) { return wire::is_multicast(k.addr); });
      EXPECT_EQ(keys.size(), 3U);
      const auto first = n.view.neighbour(keys[0]);
      EXPECT_EQ(first->addr, *wire::parse_ip("192.168.1.3"));
      EXPECT_EQ(first->iface, "eth0");
      EXPECT_TRUE(n.control.remove_neighbour("eth0", first->addr));
      EXPECT_FALSE(n.view.neighbour(keys[0]));
      EXPECT_FALSE(n.view.neighbour({}));

      const auto all = n.view.routes(std::nullopt, 1000);
      EXPECT_GT(all.size(), 2U);
      std::vector<wire::IpPrefix> pieces;
      for (std::optional<wire::IpPrefix> after;;) {
        const auto piece = n.view.routes(after, 2);
        if (piece.empty()) break;
        EXPECT_LE(piece.size(), 2U);
        after = piece.back().to;
        for (const RouteInfo& r : piece) pieces.push_back(r.to);
      }
      EXPECT_TRUE(std::equal(all.begin(), all.end(), pieces.begin(), pieces.end(),
                             [](const auto& a, const auto& b) { return a.to == b; }));
      return 0;
    });
  });
}

TEST_F(NodeTest, PortEventsReachTheLinksOfTheirHca) {
  run(config(), [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    const auto change = [&](const fabric::PortChange& c) {
      return ask<Errc>(node, [&c](const NodeFaces& n) {
        const Status done = n.control.change_hca("soft0", c);
        return done ? Errc{} : done.error().code;
      });
    };
    const auto reason_says = [&](const char* what) {
      return eventually([&] {
        return ask<bool>(node, [what](const NodeFaces& n) {
          return n.view.links()[0].state != "up" &&
                 n.view.links()[0].reason.find(what) != std::string::npos;
        });
      });
    };
    EXPECT_EQ(change({.up = false}), Errc{});
    EXPECT_TRUE(reason_says("the port is not active"));
    EXPECT_EQ(change({.up = true}), Errc{});
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));

    EXPECT_EQ(change({.pkeys = {{0x8001}}}), Errc{});
    EXPECT_TRUE(reason_says("P_Key 0xffff is not in the P_Key table of the port"));
    EXPECT_EQ(change({.pkeys = {{0x8001, 0xffff}}}), Errc{});
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));

    const auto joins = [&] {
      return ask<std::uint64_t>(
          node, [](const NodeFaces& n) { return n.view.links()[0].counters.joins_sent; });
    };
    const auto before = joins();
    EXPECT_EQ(change({.reregister = true}), Errc{});
    EXPECT_TRUE(eventually([&] { return joins() > before && link_is_up(node); }));

    EXPECT_EQ(change({.lid = 9}), Errc::kRefused) << "others know the administrator by its LID";
    EXPECT_EQ(change({.sm_lid = 0xffff}), Errc::kInvalidArgument);
    EXPECT_EQ(ask<Errc>(node,
                        [](const NodeFaces& n) {
                          return n.control.change_hca("soft7", {}).error().code;
                        }),
              Errc::kNotFound);
  });
}

TEST_F(NodeTest, SetUpFailuresSayWhatIsWrong) {
  const auto error_of = [](const NodeConfig& c) {
    const auto node = Node::create(c, {0, {1}}, make_soft);
    return node ? std::string{} : node.error().what;
  };
  auto c = config();
  c.ports[0].device = "net_missing7";
  EXPECT_EQ(error_of(c).rfind("port eth0: no device net_missing7; available: ", 0), 0U)
      << error_of(c);

  c = config();
  c.worker.count = 2;
  EXPECT_EQ(error_of(c),
            "2 workers require as many lcores in addition to the management lcore; EAL has 1 "
            "(option -l)");

  c = config();
  c.total_num_mbufs = 1U << 24;
  EXPECT_NE(error_of(c).find("--total-num-mbufs"), std::string::npos);

  c = config();
  c.routes = {{*wire::parse_prefix("172.16.0.0/16"), {*wire::parse_ip("172.31.0.1")}}};
  EXPECT_EQ(error_of(c), "gateway 172.31.0.1 is not in a connected network");
}

struct NodeContractDeathTest : NodeTest {};

// Other threads post() a task. Without this check an answer might be made of rows that change
// meanwhile.
TEST_F(NodeContractDeathTest, OnlyItsOwnThreadAsksARunningNode) {
  run(config(), [](const NodeFaces& node) {
    EXPECT_TRUE(eventually([&] { return link_is_up(node); }));
    expect_caught([&] { static_cast<void>(node.view.links()); },
                  "the node is asked by its own thread");
  });
}

}  // namespace
}  // namespace ipoib::mgmt
