// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/route_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "tests/support/addresses.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/route/fake_prefix_sink.h"

namespace ipoib::route {
namespace {

using ipoib::test::ip;
using ipoib::test::prefix;
using table::NextHop;
using table::NextHopKind;

struct RouteTableTest : testing::Test {
  void SetUp() override {
    ASSERT_TRUE(table.add_address(0, prefix("10.0.0.1/24")));
    ASSERT_TRUE(table.add_address(1, prefix("192.168.1.1/24")));
  }
  FakePrefixSink sink;
  RouteTable table{sink};
};

TEST_F(RouteTableTest, AnAddressBringsItsNetworkAndBroadcasts) {
  EXPECT_EQ(sink.lookup("10.0.0.0/24"),
            (NextHop{NextHopKind::kConnected, 0, 0, table::kNoNeighbour}));
  EXPECT_EQ(sink.lookup("10.0.0.1/32").kind, NextHopKind::kLocal);
  EXPECT_EQ(sink.lookup("10.0.0.255/32").kind, NextHopKind::kBroadcast);
  EXPECT_EQ(sink.lookup("10.0.0.0/32").kind, NextHopKind::kBroadcast);
  EXPECT_NE(sink.lookup("10.0.0.255/32").iface, table::kNoInterface);
  EXPECT_EQ(sink.lookup("10.0.0.0/32").iface, table::kNoInterface) << "no packet leaves for it";
  EXPECT_EQ(table.interface_of(ip("192.168.1.77")), 1);
  EXPECT_EQ(table.interface_of(ip("172.16.0.1")), table::kNoInterface);
}

/// Tables without addresses.
struct NetBroadcasts : testing::Test {
  /// The interfaces that a broadcast to all subnets of a net may leave by; empty if the address has no
  /// such route.
  std::vector<table::InterfaceId> interfaces(std::string_view broadcast) const {
    std::vector<table::InterfaceId> found;
    const NextHop hop = sink.lookup(broadcast);
    if (hop.kind != NextHopKind::kBroadcast || hop.neighbour == table::kNoNeighbour) return found;
    EXPECT_EQ(hop.iface, table::kNoInterface);
    for (auto i = hop.neighbour; sink.hops.at(i).kind != NextHopKind::kNone; ++i) {
      EXPECT_EQ(sink.hops.at(i).kind, NextHopKind::kBroadcast);
      EXPECT_EQ(sink.hops.at(i).neighbour, table::kNoNeighbour);
      found.push_back(sink.hops.at(i).iface);
    }
    return found;
  }
  /// Adds an address, on an interface that broadcasts to all subnets may leave by.
  void add(table::InterfaceId iface, std::string_view address) {
    table.set_all_subnets(iface, true);
    ASSERT_TRUE(table.add_address(iface, prefix(address))) << address;
  }
  using Interfaces = std::vector<table::InterfaceId>;
  static constexpr const char* kBroadcast = "10.255.255.255/32";
  static constexpr auto kNone = table::kNoInterface;
  static constexpr table::InterfaceId kFirst = 1, kSecond = 2;
  FakePrefixSink sink;
  RouteTable table{sink};
};

TEST_F(NetBroadcasts, U03_ANetHasTheInterfacesOfItsSubnets) {
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{});
  add(2, "10.1.2.1/24");
  EXPECT_EQ(interfaces(kBroadcast), Interfaces{2});
  add(0, "10.7.0.1/16");
  add(0, "10.8.0.1/16");
  EXPECT_EQ(interfaces(kBroadcast), (Interfaces{0, 2}));
  add(1, "172.16.1.1/24");
  EXPECT_EQ(interfaces("172.16.255.255/32"), Interfaces{1});
  EXPECT_EQ(interfaces(kBroadcast), (Interfaces{0, 2}));
  const auto numbers = sink.hops.size();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(table.add_network(2, prefix("10.1.2.1/24")));
  EXPECT_EQ(sink.hops.size(), numbers) << "an interface that comes up again";
  EXPECT_EQ(sink.lookup("10.1.2.255/32").iface, 2);
  EXPECT_EQ(table.remove(prefix(kBroadcast)).error().code, Errc::kRefused);
  EXPECT_EQ(table.add_redirect(2, ip("10.255.255.255"), ip("10.1.2.9")).error().code,
            Errc::kExists);
  EXPECT_EQ(table.add_neighbour(2, ip("10.255.255.255"), 7).error().code, Errc::kNotFound);
}

// Under CIDR the address may be any host's, unless an interface has been set.
TEST_F(NetBroadcasts, U03_UnlessAnInterfaceAsksForThemTheyFollowTheRoutes) {
  ASSERT_TRUE(table.add_address(0, prefix("10.1.2.1/24")));
  ASSERT_TRUE(table.add_address(1, prefix("10.1.3.1/24")));
  ASSERT_TRUE(table.add_address(2, prefix("172.16.5.1/24")));
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{});
  EXPECT_FALSE(table.is_broadcast(ip("10.255.255.255")));
  EXPECT_EQ(sink.lookup("172.16.255.255/32"), NextHop{});
  table.set_all_subnets(1, true);
  EXPECT_EQ(interfaces(kBroadcast), Interfaces{1}) << "while the node runs";
  EXPECT_TRUE(table.is_broadcast(ip("10.255.255.255")));
  EXPECT_EQ(sink.lookup("172.16.255.255/32"), NextHop{});
  table.set_all_subnets(0, true);
  EXPECT_EQ(interfaces(kBroadcast), (Interfaces{0, 1}));
  table.set_all_subnets(1, false);
  EXPECT_EQ(interfaces(kBroadcast), Interfaces{0});
  table.set_all_subnets(0, false);
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{});
  EXPECT_EQ(table.routes().count(prefix(kBroadcast)), 0U);
  table.set_all_subnets(3, true);
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{}) << "it has no subnet";
  EXPECT_TRUE(table.is_broadcast(ip("10.1.2.255"))) << "of a prefix, whatever is set";
  EXPECT_TRUE(table.is_broadcast(ip("10.1.2.0"))) << "the obsolete form";
  EXPECT_FALSE(table.is_broadcast(ip("10.1.2.1")));
}

TEST_F(NetBroadcasts, U03_WholeNetsAndPointToPointPrefixesHaveNone) {
  add(0, "192.168.1.1/24");
  add(1, "172.16.1.1/15");
  add(2, "10.1.2.4/31");
  add(3, "10.1.2.9/32");
  for (const char* none : {"172.16.255.255/32", kBroadcast, "192.168.255.255/32"})
    EXPECT_EQ(sink.lookup(none), NextHop{}) << none;
  EXPECT_EQ(sink.lookup("192.168.1.255/32"),
            (NextHop{NextHopKind::kBroadcast, 0, 0, table::kNoNeighbour}));
}

// An own network that has the address says more of it than the classes do, whichever comes first.
TEST_F(NetBroadcasts, U03_AnOwnNetworkThatHasTheAddressKnowsBetter) {
  struct Row {
    const char* network;
    const char* broadcast;
    NextHop hop;  ///< That of the broadcast address.
  };
  const NextHop own{NextHopKind::kBroadcast, 0, 1, table::kNoNeighbour};
  for (const auto& row :
       {Row{"10.0.0.1/8", kBroadcast, own}, Row{"10.255.255.1/24", kBroadcast, own},
        Row{"10.254.0.1/15", kBroadcast, own}, Row{"10.255.255.254/31", kBroadcast, {}},
        Row{"172.20.0.1/14", "172.20.255.255/32", {}}})
    for (const bool first : {false, true}) {
      FakePrefixSink fresh;
      RouteTable routes{fresh};
      const std::string_view subnet = row.network[1] == '7' ? "172.20.1.1/24" : "10.1.2.1/24";
      for (const auto iface : {kFirst, kSecond}) routes.set_all_subnets(iface, true);
      std::vector<std::pair<table::InterfaceId, std::string_view>> order{{2, subnet},
                                                                         {1, row.network}};
      if (first) std::swap(order[0], order[1]);
      for (const auto& [iface, address] : order)
        ASSERT_TRUE(routes.add_address(iface, prefix(address)));
      EXPECT_EQ(fresh.lookup(row.broadcast), row.hop) << row.network << first;
      ASSERT_TRUE(routes.add_network(2, prefix(subnet)));
      EXPECT_EQ(fresh.lookup(row.broadcast), row.hop) << row.network << " comes up again";
    }
}

// The longest of several networks that have an address says whether it is a broadcast address,
// and where. So it stays when the interface of another comes up again.
TEST_F(NetBroadcasts, U03_TheLongestNetworkDecidesAboutAnAddress) {
  const auto broadcast = [](table::InterfaceId out) {
    return NextHop{NextHopKind::kBroadcast, 0, out, table::kNoNeighbour};
  };
  const auto own = NextHop{NextHopKind::kLocal, 0, 2, table::kNoNeighbour};
  struct Row {
    const char* network;
    const char* longer;
    const char* address;
    NextHop hop;  ///< That of the address.
  };
  for (const auto& row : {Row{"10.0.0.5/8", "10.255.255.1/24", kBroadcast, broadcast(2)},
                          Row{"10.0.0.5/8", "10.0.0.1/24", "10.0.0.0/32", broadcast(kNone)},
                          Row{"10.0.0.5/8", "10.255.255.254/31", kBroadcast, {}},
                          Row{"10.0.0.5/8", "10.255.255.255/31", kBroadcast, own},
                          Row{"10.0.0.5/8", "10.255.255.255/32", kBroadcast, own},
                          Row{"10.0.0.5/8", "10.0.0.1/31", "10.0.0.0/32", {}},
                          Row{"10.1.2.5/24", "10.1.2.254/31", "10.1.2.255/32", {}}})
    for (const bool first : {false, true}) {
      FakePrefixSink fresh;
      RouteTable routes{fresh};
      for (const auto iface : {kFirst, kSecond}) routes.set_all_subnets(iface, true);
      const auto add = [&](table::InterfaceId iface, const char* address) {
        ASSERT_TRUE(routes.add_address(iface, prefix(address))) << address;
      };
      if (first) add(2, row.longer);
      add(1, row.network);
      if (!first) add(2, row.longer);
      EXPECT_EQ(fresh.lookup(row.address), row.hop) << row.longer << first;
      ASSERT_TRUE(routes.add_network(1, prefix(row.network)));
      EXPECT_EQ(fresh.lookup(row.address), row.hop) << row.longer << " comes up again";
    }
}

// A route to the net, to several nets or to all does not say that a host has the address; a route to a
// part of the net does.
TEST_F(NetBroadcasts, U03_ARouteToAPartOfTheNetKnowsBetter) {
  add(2, "10.1.2.1/24");
  for (const char* wide : {"0.0.0.0/0", "8.0.0.0/5", "10.0.0.0/8"}) {
    ASSERT_TRUE(table.add_static(prefix(wide), {ip("10.1.2.9")}));
    EXPECT_EQ(interfaces(kBroadcast), Interfaces{2}) << wide;
  }
  ASSERT_TRUE(table.add_static(prefix("10.1.0.0/16"), {ip("10.1.2.9")}));
  EXPECT_EQ(interfaces(kBroadcast), Interfaces{2}) << "another part";
  for (const char* part : {"10.128.0.0/9", "10.255.255.0/24", kBroadcast}) {
    ASSERT_TRUE(table.add_static(prefix(part), {ip("10.1.2.9")})) << part;
    EXPECT_NE(sink.lookup(kBroadcast).kind, NextHopKind::kBroadcast) << part;
    add(3, fmt::format("10.{}.0.1/24", 20 + prefix(part).len));
    EXPECT_NE(sink.lookup(kBroadcast).kind, NextHopKind::kBroadcast) << part;
    ASSERT_TRUE(table.remove(prefix(part)));
    EXPECT_EQ(interfaces(kBroadcast), (Interfaces{2, 3})) << part;
  }
  ASSERT_TRUE(table.add_blackhole(prefix(kBroadcast)));
  EXPECT_EQ(sink.lookup(kBroadcast).kind, NextHopKind::kBlackhole);
  EXPECT_EQ(table.add_blackhole(prefix(kBroadcast)).error().code, Errc::kExists);
  ASSERT_TRUE(table.remove(prefix(kBroadcast)));
  EXPECT_EQ(interfaces(kBroadcast), (Interfaces{2, 3}));
}

// The broadcast address is the least of what needs the room: addresses and routes do without it.
TEST_F(NetBroadcasts, U03_NoRoomForABroadcastCostsNoRoute) {
  sink.refused.insert(prefix(kBroadcast));
  const auto log = logged([&] { add(2, "10.1.2.1/24"); });
  EXPECT_NE(log.find("10.0.0.0/8"), std::string::npos) << log;
  EXPECT_EQ(sink.lookup("10.1.2.1/32").kind, NextHopKind::kLocal);
  EXPECT_EQ(sink.lookup("10.1.2.255/32").kind, NextHopKind::kBroadcast);
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{});

  const char* whole = "10.0.0.0/8";
  EXPECT_TRUE(table.add_static(prefix(whole), {ip("10.1.2.9")}));
  EXPECT_EQ(sink.lookup(whole).kind, NextHopKind::kGateway);
  EXPECT_EQ(sink.gateways.size(), 1U) << "the route has its gateway";
  EXPECT_TRUE(table.remove(prefix(whole)));
  EXPECT_EQ(sink.lookup(whole), NextHop{});
  EXPECT_TRUE(sink.gateways.empty());

  sink.refused.clear();
  ASSERT_TRUE(table.add_network(2, prefix("10.1.2.1/24")));
  EXPECT_EQ(interfaces(kBroadcast), Interfaces{2}) << "there is room now";

  const char* part = "10.255.0.0/16";
  ASSERT_TRUE(table.add_static(prefix(part), {ip("10.1.2.9")}));
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{});
  sink.refused.insert(prefix(kBroadcast));
  ASSERT_TRUE(table.remove(prefix(part)));
  EXPECT_EQ(sink.lookup(part), NextHop{});
  EXPECT_TRUE(sink.gateways.empty()) << "the route and its gateway are gone together";

  // A change fails, so that the route with the old interfaces may not stay.
  sink.refused.clear();
  ASSERT_TRUE(table.add_network(2, prefix("10.1.2.1/24")));
  sink.refused.insert(prefix(kBroadcast));
  add(3, "10.1.3.1/24");
  EXPECT_EQ(sink.lookup("10.1.3.1/32").kind, NextHopKind::kLocal);
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{});
}

// An own address, as a route, says more of the address than the classes do, until it goes.
TEST_F(NetBroadcasts, U03_AnOwnAddressThatGoesLeavesTheBroadcast) {
  add(2, "10.1.2.1/24");
  ASSERT_TRUE(table.add_local(3, prefix("10.255.255.255/32")));
  EXPECT_EQ(sink.lookup(kBroadcast).kind, NextHopKind::kLocal);
  table.remove_local(3, prefix("10.255.255.255/32"));
  EXPECT_EQ(interfaces(kBroadcast), Interfaces{2});
}

// A network and its addresses go in either order. Routes that they hid are as before.
TEST_F(NetBroadcasts, P19_ANetworkThatGoesLeavesWhatItHid) {
  for (const char* longer : {"10.255.255.1/24", "10.0.0.1/24", "10.255.255.254/31", "10.0.0.0/31",
                             "10.255.255.255/31", "10.255.255.255/32", "10.0.0.0/32", "10.0.0.1/9",
                             "10.128.0.1/9", "10.7.0.1/16", "172.16.1.1/24"})
    for (const char* wide : {"10.0.0.5/8", "10.1.0.5/16", "9.0.0.5/7"})
      for (const bool network_first : {false, true}) {
        SCOPED_TRACE(fmt::format("{} in {}, network first: {}", longer, wide, network_first));
        FakePrefixSink fresh;
        RouteTable routes{fresh};
        for (const auto iface : {kFirst, kSecond}) routes.set_all_subnets(iface, true);
        ASSERT_TRUE(routes.add_address(1, prefix(wide)));
        const auto seen = [&] {
          std::map<wire::IpPrefix, NextHop> hops;
          for (const auto& [to, index] : fresh.prefixes) hops[to] = fresh.hops.at(index);
          for (auto& [to, hop] : hops)
            if (hop.kind == NextHopKind::kBroadcast && hop.neighbour != table::kNoNeighbour)
              hop = fresh.hops.at(hop.neighbour);
          return hops;
        };
        const auto before = seen();
        const auto known = routes.routes().size();
        ASSERT_TRUE(routes.add_address(2, prefix(longer)));
        const auto with = seen();
        routes.remove_network(1, prefix(longer));
        EXPECT_EQ(seen(), with) << "it is no network of that interface";
        if (network_first) routes.remove_network(2, prefix(longer));
        routes.remove_local(2, prefix(longer));
        if (!network_first) routes.remove_network(2, prefix(longer));
        EXPECT_EQ(seen(), before);
        EXPECT_EQ(routes.routes().size(), known);
        routes.remove_network(2, prefix(longer));
        EXPECT_EQ(seen(), before) << "again";
        ASSERT_TRUE(routes.add_address(1, prefix(longer))) << "another interface may have it";
      }
}

// The wider network goes first: its broadcast addresses are those of the longer one.
TEST_F(NetBroadcasts, P19_AWideNetworkThatGoesLeavesALongerOne) {
  add(1, "10.0.0.5/8");
  add(2, "10.255.255.1/24");
  table.remove_network(1, prefix("10.0.0.5/8"));
  EXPECT_EQ(sink.lookup(kBroadcast), (NextHop{NextHopKind::kBroadcast, 0, 2, table::kNoNeighbour}));
  EXPECT_EQ(sink.lookup("10.0.0.0/32"), NextHop{});
  EXPECT_EQ(table.interface_of(ip("10.1.1.1")), table::kNoInterface);
  EXPECT_EQ(table.interface_of(ip("10.255.255.9")), 2);
}

TEST_F(NetBroadcasts, P19_ALastSubnetThatGoesTakesTheBroadcastOfItsNet) {
  add(2, "10.1.2.1/24");
  add(3, "10.7.0.1/16");
  table.remove_network(2, prefix("10.1.2.1/24"));
  EXPECT_EQ(interfaces(kBroadcast), Interfaces{3});
  table.remove_network(3, prefix("10.7.0.1/16"));
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{});
}

// A failure concerns that address only.
TEST_F(NetBroadcasts, P19_NoRoomForARestoredBroadcastIsLogged) {
  add(1, "10.0.0.5/8");
  add(2, "10.255.255.254/31");
  sink.refused.insert(prefix(kBroadcast));
  const auto log = logged([&] { table.remove_network(2, prefix("10.255.255.254/31")); });
  EXPECT_NE(log.find("broadcast"), std::string::npos) << log;
  EXPECT_EQ(sink.lookup("10.255.255.254/31"), NextHop{});
  EXPECT_EQ(sink.lookup(kBroadcast), NextHop{});
  EXPECT_EQ(sink.lookup("10.0.0.0/8").kind, NextHopKind::kConnected);
}

TEST_F(NetBroadcasts, U03_NumbersAreUsedAgain) {
  for (std::uint32_t i = 0; i < 1'000; ++i)
    add(static_cast<table::InterfaceId>(i), fmt::format("10.{}.{}.1/24", i / 250, i % 250));
  EXPECT_EQ(interfaces(kBroadcast).size(), 1'000U);
  EXPECT_LT(std::prev(sink.hops.end())->first, table::kMaxNextHops);
}

TEST_F(RouteTableTest, NeighboursBelongToTheNetworksOfTheirInterface) {
  const auto of = [&](const char* network) { return sink.prefixes.at(prefix(network)); };
  ASSERT_TRUE(table.add_neighbour(0, ip("10.0.0.7"), 5));
  ASSERT_TRUE(table.add_neighbour(1, ip("192.168.1.7"), 6));
  EXPECT_EQ(sink.neighbours.at({ip("10.0.0.7"), of("10.0.0.0/24")}), 5U);
  EXPECT_EQ(sink.neighbours.at({ip("192.168.1.7"), of("192.168.1.0/24")}), 6U);
  table.remove_neighbour(0, ip("10.0.0.7"));
  EXPECT_EQ(sink.neighbours.size(), 1U);
  // On another interface, in no network, of this node, and broadcast addresses.
  for (const char* addr :
       {"192.168.1.8", "172.16.0.1", "10.0.0.1", "10.0.0.0", "10.0.0.255", "255.255.255.255"})
    EXPECT_EQ(table.add_neighbour(0, ip(addr), 7).error().code, Errc::kNotFound) << addr;
  EXPECT_EQ(sink.neighbours.size(), 1U);
  sink.full = true;
  EXPECT_EQ(table.add_neighbour(0, ip("10.0.0.8"), 8).error().code, Errc::kNoResources);
}

TEST_F(RouteTableTest, PointToPointPrefixesHaveNoBroadcast) {
  ASSERT_TRUE(table.add_address(2, prefix("10.9.0.0/31")));
  EXPECT_EQ(sink.lookup("10.9.0.0/32").kind, NextHopKind::kLocal);
  EXPECT_EQ(sink.lookup("10.9.0.1/32").kind, NextHopKind::kNone);
  ASSERT_TRUE(table.add_address(2, prefix("10.9.1.1/32")));
  EXPECT_EQ(sink.lookup("10.9.1.1/32").kind, NextHopKind::kLocal);
}

TEST_F(RouteTableTest, AddressesAndNetworksAreNotUsedTwice) {
  EXPECT_EQ(table.add_address(1, prefix("10.0.0.1/16")).error().code, Errc::kExists);
  EXPECT_EQ(table.add_address(1, prefix("10.0.0.9/24")).error().code, Errc::kExists);
}

TEST_F(RouteTableTest, StaticRouteLeadsToItsGateway) {
  ASSERT_TRUE(table.add_static(prefix("172.16.5.5/16"), {ip("10.0.0.2")}));
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), (NextHop{NextHopKind::kGateway, 0, 0, 2}));
  ASSERT_TRUE(table.remove(prefix("172.16.0.0/16")));
  EXPECT_EQ(sink.lookup("172.16.0.0/16").kind, NextHopKind::kNone);
  EXPECT_TRUE(sink.gateways.empty());
}

TEST_F(RouteTableTest, AGatewayIsForgottenWithItsLastRoute) {
  ASSERT_TRUE(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}));
  ASSERT_TRUE(table.add_static(prefix("0.0.0.0/0"), {ip("10.0.0.2")}));
  ASSERT_TRUE(table.remove(prefix("172.16.0.0/16")));
  EXPECT_EQ(sink.gateways.size(), 1U);
  ASSERT_TRUE(table.remove(prefix("0.0.0.0/0")));
  EXPECT_TRUE(sink.gateways.empty());
}

TEST_F(RouteTableTest, SeveralGatewaysShareTheBucketsOfAGroup) {
  ASSERT_TRUE(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2"), ip("192.168.1.3")}));
  const NextHop group = sink.lookup("172.16.0.0/16");
  ASSERT_EQ(group.kind, NextHopKind::kGroup);
  std::map<table::NeighbourIndex, int> shares;
  for (table::NextHopIndex i = 0; i < 1U << group.bucket_bits; ++i) {
    const NextHop hop = sink.hops.at(group.neighbour + i);
    EXPECT_EQ(hop.kind, NextHopKind::kGateway);
    EXPECT_EQ(hop.iface, hop.neighbour == 2 ? 0 : 1);
    ++shares[hop.neighbour];
  }
  EXPECT_EQ(shares, (std::map<table::NeighbourIndex, int>{{2, 32}, {3, 32}}));
}

TEST_F(RouteTableTest, RoutesThroughTheSameGatewaysShareTheirNextHop) {
  ASSERT_TRUE(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}));
  ASSERT_TRUE(table.add_static(prefix("172.17.0.0/16"), {ip("10.0.0.2"), ip("10.0.0.3")}));
  const std::size_t hops = sink.hops.size();
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const wire::IpAddr to = wire::IpAddr::v4(0x6400'0000 + (i << 4));
    const bool one = i % 2 == 0;
    ASSERT_TRUE(table.add_static(
        {to, 28}, one ? std::vector{ip("10.0.0.2")} : std::vector{ip("10.0.0.2"), ip("10.0.0.3")}));
    ASSERT_EQ(sink.prefixes.at({to, 28}),
              sink.prefixes.at(prefix(one ? "172.16.0.0/16" : "172.17.0.0/16")));
  }
  EXPECT_EQ(sink.hops.size(), hops);
}

TEST_F(RouteTableTest, AConnectedNetworkTakesThePlaceOfARoute) {
  ASSERT_TRUE(table.add_static(prefix("10.9.0.0/24"), {ip("10.0.0.2")}));
  ASSERT_TRUE(table.add_address(1, prefix("10.9.0.1/24")));
  EXPECT_EQ(sink.lookup("10.9.0.0/24").kind, NextHopKind::kConnected);
  ASSERT_TRUE(table.remove(prefix("10.9.0.0/24"))) << "the route that waits";
  EXPECT_EQ(sink.lookup("10.9.0.0/24").kind, NextHopKind::kConnected);
  EXPECT_TRUE(sink.gateways.empty());
}

TEST_F(RouteTableTest, P19_RoutesOutliveTheNetworkOfTheirGateway) {
  ASSERT_TRUE(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}));
  ASSERT_TRUE(table.add_neighbour(0, ip("10.0.0.7"), 5));
  table.remove_local(0, prefix("10.0.0.1/24"));
  table.remove_network(0, prefix("10.0.0.1/24"));
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), (NextHop{NextHopKind::kGateway, 0, 0, 2}));
  EXPECT_EQ(sink.lookup("10.0.0.0/24"), NextHop{});
  EXPECT_EQ(table.add_static(prefix("172.17.0.0/16"), {ip("10.0.0.2")}).error().code,
            Errc::kInvalidArgument);
  EXPECT_EQ(table.add_neighbour(0, ip("10.0.0.8"), 6).error().code, Errc::kNotFound);
  table.remove_neighbour(0, ip("10.0.0.7"));
  EXPECT_TRUE(sink.neighbours.empty());
  ASSERT_TRUE(table.remove(prefix("172.16.0.0/16")));
  EXPECT_TRUE(sink.gateways.empty());
}

TEST_F(RouteTableTest, P19_AnIpv6NetworkGoes) {
  ASSERT_TRUE(table.add_network(0, prefix("fd00::1/64")));
  ASSERT_TRUE(table.add_local(0, prefix("fd00::1/64")));
  table.remove_local(0, prefix("fd00::1/64"));
  table.remove_network(0, prefix("fd00::1/64"));
  for (const char* to : {"fd00::/64", "fd00::/128", "fd00::1/128"})
    EXPECT_EQ(sink.lookup(to), NextHop{}) << to;
  ASSERT_TRUE(table.add_network(1, prefix("fd00::2/64")));
}

TEST_F(RouteTableTest, RefusalsNameTheFaultAndLeaveNothingBehind) {
  const auto hops_before = sink.prefixes.size();
  EXPECT_EQ(table.add_static(prefix("172.16.0.0/16"), {ip("10.1.0.2")}).error().what,
            "gateway 10.1.0.2 is not in a connected network");
  EXPECT_EQ(
      table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2"), ip("10.0.0.1")}).error().what,
      "gateway 10.0.0.1 is an address of this node or a broadcast address");
  EXPECT_EQ(table.add_static(prefix("10.0.0.0/24"), {ip("10.0.0.2")}).error().code, Errc::kExists);
  EXPECT_EQ(table.add_static(prefix("172.16.0.0/16"), {}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(table.remove(prefix("10.0.0.0/24")).error().code, Errc::kRefused);
  EXPECT_EQ(table.remove(prefix("10.7.0.0/24")).error().code, Errc::kNotFound);
  sink.full = true;
  EXPECT_EQ(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}).error().code,
            Errc::kNoResources);
  EXPECT_TRUE(sink.gateways.empty());
  EXPECT_EQ(sink.prefixes.size(), hops_before);
}

TEST_F(RouteTableTest, P05_LinkLocalGatewayIsOnTheInterfaceOfTheRoute) {
  EXPECT_EQ(table.add_static(prefix("::/0"), {ip("fe80::1")}).error().what,
            "gateway fe80::1 is link-local: the route must name its interface");
  ASSERT_TRUE(table.add_static(prefix("::/0"), {ip("fe80::1")}, 1));
  EXPECT_EQ(sink.lookup("::/0").kind, NextHopKind::kGateway);
  EXPECT_EQ(sink.lookup("::/0").iface, 1);
  EXPECT_EQ(table.routes().at(prefix("::/0")).iface, 1);
  ASSERT_TRUE(table.add_static(prefix("fd09::/64"), {ip("fe80::5")}, 0));
  EXPECT_EQ(sink.lookup("fd09::/64").iface, 0);
  EXPECT_EQ(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}, 1).error().what,
            "gateway 10.0.0.2 is not in a network of the route's interface");
  ASSERT_TRUE(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}, 0));
  for (const char* to : {"::/0", "fd09::/64", "172.16.0.0/16"})
    ASSERT_TRUE(table.remove(prefix(to)));
  EXPECT_TRUE(sink.gateways.empty());
}

TEST_F(RouteTableTest, NextHopsAreUsedAgain) {
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_TRUE(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}));
    ASSERT_TRUE(table.remove(prefix("172.16.0.0/16")));
  }
}

TEST_F(RouteTableTest, Blackhole) {
  ASSERT_TRUE(table.add_blackhole(prefix("203.0.113.0/24")));
  EXPECT_EQ(sink.lookup("203.0.113.0/24").kind, NextHopKind::kBlackhole);
  ASSERT_TRUE(table.remove(prefix("203.0.113.0/24")));
}

TEST_F(RouteTableTest, AnIpv6AddressIsLocalOnlyWhileItIsReady) {
  ASSERT_TRUE(table.add_network(0, prefix("fd00::1/64")));
  EXPECT_EQ(sink.lookup("fd00::/64").kind, NextHopKind::kConnected);
  EXPECT_EQ(sink.lookup("fd00::1/128").kind, NextHopKind::kNone);
  ASSERT_TRUE(table.add_local(0, prefix("fd00::1/64")));
  ASSERT_TRUE(table.add_local(0, prefix("fd00::1/64")));
  EXPECT_EQ(sink.lookup("fd00::1/128").kind, NextHopKind::kLocal);
  EXPECT_EQ(sink.lookup("fd00::/128").kind, NextHopKind::kLocal);  // subnet-router anycast
  EXPECT_EQ(table.add_local(1, prefix("fd00::1/64")).error().code, Errc::kExists);
  table.remove_local(1, prefix("fd00::1/64"));
  EXPECT_EQ(sink.lookup("fd00::1/128").kind, NextHopKind::kLocal);
  table.remove_local(0, prefix("fd00::1/64"));
  EXPECT_EQ(sink.lookup("fd00::1/128").kind, NextHopKind::kNone);
  EXPECT_EQ(sink.lookup("fd00::/128").kind, NextHopKind::kNone);
  EXPECT_EQ(sink.lookup("fd00::/64").kind, NextHopKind::kConnected);
}

TEST_F(RouteTableTest, ASuspendedAddressStaysOwn) {
  ASSERT_TRUE(table.add_network(0, prefix("fd00::1/64")));
  ASSERT_TRUE(table.suspend_local(0, prefix("fd00::1/64")));
  EXPECT_EQ(sink.lookup("fd00::1/128").kind, NextHopKind::kLocalDown);
  EXPECT_EQ(sink.lookup("fd00::1/128").iface, 0);
  EXPECT_EQ(sink.lookup("fd00::/128").kind, NextHopKind::kLocalDown);
  EXPECT_EQ(table.suspend_local(1, prefix("fd00::1/64")).error().code, Errc::kExists);
  EXPECT_EQ(table.add_static(prefix("fd00::1/128"), {ip("fd00::2")}).error().code, Errc::kExists);
  EXPECT_FALSE(table.add_static(prefix("fd00:9::/64"), {ip("fd00::1")})) << "the gateway is own";
  ASSERT_TRUE(table.add_local(0, prefix("fd00::1/64")));
  EXPECT_EQ(sink.lookup("fd00::1/128").kind, NextHopKind::kLocal);
  ASSERT_TRUE(table.suspend_local(0, prefix("fd00::1/64")));
  EXPECT_EQ(sink.lookup("fd00::1/128").kind, NextHopKind::kLocalDown);
  table.remove_local(0, prefix("fd00::1/64"));
  EXPECT_EQ(sink.lookup("fd00::1/128").kind, NextHopKind::kNone);
  EXPECT_EQ(sink.lookup("fd00::/128").kind, NextHopKind::kNone);
}

TEST_F(RouteTableTest, ASuspendedAddressLeavesThoseOfOtherInterfaces) {
  ASSERT_TRUE(table.add_local(0, prefix("fd00::1/64")));
  ASSERT_TRUE(table.add_local(1, prefix("fd00::2/48")));
  ASSERT_TRUE(table.suspend_local(1, prefix("fd00::2/48")));
  EXPECT_EQ(sink.lookup("fd00::2/128").kind, NextHopKind::kLocalDown);
  EXPECT_EQ(sink.lookup("fd00::/128").kind, NextHopKind::kLocal);
  EXPECT_EQ(sink.lookup("fd00::/128").iface, 0);
  table.remove_local(1, prefix("fd00::2/48"));
  EXPECT_EQ(sink.lookup("fd00::/128").kind, NextHopKind::kLocal);
}

TEST_F(RouteTableTest, ARouterThatAdvertisesItselfIsTheDefaultUnlessOneIsConfigured) {
  ASSERT_TRUE(table.add_advertised(1, ip("fe80::1")));
  EXPECT_EQ(sink.lookup("::/0").kind, NextHopKind::kGateway);
  EXPECT_EQ(sink.lookup("::/0").iface, 1);
  EXPECT_EQ(table.add_advertised(1, ip("fe80::2")).error().code, Errc::kExists);
  EXPECT_EQ(table.remove(prefix("::/0")).error().code, Errc::kRefused) << "it is not static";
  table.remove_advertised(0, ip("fe80::1"));
  table.remove_advertised(1, ip("fe80::2"));
  EXPECT_EQ(sink.lookup("::/0").iface, 1);
  table.remove_advertised(1, ip("fe80::1"));
  EXPECT_TRUE(sink.gateways.empty());
  EXPECT_EQ(sink.lookup("::/0").kind, NextHopKind::kNone);
}

TEST_F(RouteTableTest, RedirectsEndWithTheirNextHop) {
  ASSERT_TRUE(table.add_redirect(0, ip("2001:db8::9"), ip("fe80::7")));
  ASSERT_TRUE(table.add_redirect(1, ip("2001:db8::a"), ip("fe80::7")));
  ASSERT_TRUE(table.add_redirect(0, ip("2001:db8::b"), ip("fe80::8")));
  ASSERT_TRUE(table.add_redirect(0, ip("2001:db8::c"), ip("2001:db8::c")));
  table.remove_redirects(0, ip("fe80::7"));
  EXPECT_EQ(sink.lookup("2001:db8::9/128").kind, NextHopKind::kNone);
  EXPECT_EQ(sink.lookup("2001:db8::a/128").kind, NextHopKind::kGateway);
  EXPECT_EQ(sink.lookup("2001:db8::b/128").kind, NextHopKind::kGateway);
  table.remove_redirects(0, ip("2001:db8::c"));
  EXPECT_EQ(sink.lookup("2001:db8::c/128").kind, NextHopKind::kNone);
  EXPECT_FALSE(sink.gateways.contains({0, ip("fe80::7")}));
}

TEST_F(RouteTableTest, RedirectsAreHostRoutesThatMakeRoomForNewerOnes) {
  ASSERT_TRUE(table.add_redirect(0, ip("2001:db8::9"), ip("fe80::7")));
  const auto hop = sink.lookup("2001:db8::9/128");
  EXPECT_EQ(hop.kind, NextHopKind::kGateway);
  EXPECT_EQ(hop.iface, 0);
  ASSERT_TRUE(table.add_redirect(0, ip("2001:db8::9"), ip("fe80::8")));  // replaces the first
  EXPECT_EQ(sink.gateways,
            (std::set<std::pair<table::InterfaceId, wire::IpAddr>>{{0, ip("fe80::8")}}));
  for (std::size_t i = 0; i < RouteTable::kMaxRedirects; ++i) {
    wire::IpAddr to = ip("2001:db8:1::");
    to.bytes[14] = static_cast<std::byte>(i >> 8);
    to.bytes[15] = static_cast<std::byte>(i);
    ASSERT_TRUE(table.add_redirect(0, to, ip("fe80::8")));
  }
  EXPECT_EQ(sink.lookup("2001:db8::9/128").kind, NextHopKind::kNone);
  EXPECT_EQ(sink.lookup("2001:db8:1::1/128").kind, NextHopKind::kGateway);
  EXPECT_EQ(table.add_redirect(0, ip("10.0.0.1"), ip("10.0.0.9")).error().code, Errc::kExists);
}

}  // namespace
}  // namespace ipoib::route
