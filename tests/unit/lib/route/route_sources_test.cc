// SPDX-License-Identifier: BSD-3-Clause
// Several routes to one prefix: which one is in effect, what happens when it goes, and the routes of
// Linux.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/route/route_table.h"
#include "lib/wire/ip_prefix.h"
#include "tests/support/addresses.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/route/fake_prefix_sink.h"

namespace ipoib::route {
namespace {

using ipoib::test::ip;
using ipoib::test::prefix;
using table::NextHop;
using table::NextHopKind;

NextHop through(table::InterfaceId iface, table::NeighbourIndex neighbour) {
  return {NextHopKind::kGateway, 0, iface, neighbour};
}
NextHop only(NextHopKind kind, table::InterfaceId iface = table::kNoInterface) {
  return {kind, 0, iface, table::kNoNeighbour};
}

struct RouteSources : testing::Test {
  void SetUp() override {
    ASSERT_TRUE(table.add_address(0, prefix("10.0.0.1/24")));
    ASSERT_TRUE(table.add_address(1, prefix("192.168.1.1/24")));
  }
  Status kernel(std::string_view to, std::uint32_t metric, std::vector<RoutePath> paths) {
    return table.set_kernel({prefix(to), metric, RouteAction::kForward, std::move(paths)});
  }
  Status kernel(std::string_view to, std::uint32_t metric, RouteAction action) {
    return table.set_kernel({prefix(to), metric, action, {}});
  }
  /// Number of buckets of the group by neighbour; kNoNeighbour: the destination itself.
  std::map<table::NeighbourIndex, int> shares(std::string_view to) const {
    const NextHop group = sink.lookup(to);
    EXPECT_EQ(group.kind, NextHopKind::kGroup);
    std::map<table::NeighbourIndex, int> found;
    for (table::NextHopIndex i = 0; i < 1U << group.bucket_bits; ++i)
      ++found[sink.hops.at(group.neighbour + i).neighbour];
    return found;
  }
  std::size_t waiting(std::string_view to) const {
    const auto it = table.waiting().find(prefix(to));
    return it != table.waiting().end() ? it->second.size() : 0;
  }

  FakePrefixSink sink;
  RouteTable table{sink};
};

/// A way to have a route to a prefix.
struct Source {
  const char* name;
  std::function<Status(RouteTable&)> add;
  std::function<void(RouteTable&)> remove;
  NextHop hop;
};

/// True if a route of the source is refused where a better one is in effect.
bool is_refused(const Source& source, const Source& better) {
  const std::string_view name{source.name};
  return name == "static" || (name == "redirect" && (better.hop.kind == NextHopKind::kLocal ||
                                                     better.hop.kind == NextHopKind::kBroadcast));
}

std::vector<Source> best_first(const char* to) {
  const wire::IpPrefix net = prefix(to);
  const auto set = [net](std::uint32_t metric, const char* via) {
    return [=](RouteTable& t) {
      return t.set_kernel({net, metric, RouteAction::kForward, {{1, ip(via)}}});
    };
  };
  const auto unset = [net](std::uint32_t metric) {
    return [=](RouteTable& t) { t.remove_kernel(net, metric); };
  };
  const bool v4 = net.addr.is_v4();
  const char* gateway = v4 ? "10.0.0.9" : "fe80::9";
  std::vector<Source> all{
      {"static", [=](RouteTable& t) { return t.add_static(net, {ip(gateway)}, 0); },
       [=](RouteTable& t) { EXPECT_TRUE(t.remove(net)); }, through(0, 9)},
      {"kernel 0", set(0, v4 ? "10.77.0.20" : "fe80::14"), unset(0), through(1, 20)},
      {"kernel 5", set(5, v4 ? "10.77.0.21" : "fe80::15"), unset(5), through(1, 21)},
      {"kernel max", set(0xffff'ffff, v4 ? "10.77.0.22" : "fe80::16"), unset(0xffff'ffff),
       through(1, 22)}};
  if (net.len == wire::host_len(net.addr))
    all.push_back({"redirect",
                   [=](RouteTable& t) { return t.add_redirect(0, net.addr, ip("fe80::1e")); },
                   [](RouteTable& t) { t.remove_redirects(0, ip("fe80::1e")); }, through(0, 30)});
  if (net == prefix("::/0"))
    all.push_back({"advertised", [](RouteTable& t) { return t.add_advertised(0, ip("fe80::1f")); },
                   [](RouteTable& t) { t.remove_advertised(0, ip("fe80::1f")); }, through(0, 31)});
  if (net.len == 24 || net.len == 64) {
    const wire::IpPrefix address{v4 ? ip("10.8.0.1") : ip("fd08::1"), net.len};
    all.insert(all.begin(), {"connected", [=](RouteTable& t) { return t.add_network(1, address); },
                             [=](RouteTable& t) { t.remove_network(1, address); },
                             only(NextHopKind::kConnected, 1)});
  }
  if (net == prefix("10.8.0.255/32"))
    all.insert(all.begin(),
               {"broadcast", [](RouteTable& t) { return t.add_network(1, prefix("10.8.0.1/24")); },
                [](RouteTable& t) { t.remove_network(1, prefix("10.8.0.1/24")); },
                only(NextHopKind::kBroadcast, 1)});
  if (net == prefix("10.8.0.9/32") || net == prefix("fd08::9/128"))
    all.insert(all.begin(),
               {"local", [=](RouteTable& t) { return t.add_local(1, net); },
                [=](RouteTable& t) { t.remove_local(1, net); }, only(NextHopKind::kLocal, 1)});
  return all;
}

// Both orders of adding, and both of removing, and at no time is the prefix without a route.
TEST_F(RouteSources, P17_EachSourceHasItsPreferenceOverEachOther) {
  for (const char* to : {"10.8.0.0/24", "10.8.0.255/32", "10.8.0.9/32", "fd08::/64", "fd08::9/128",
                         "::/0", "0.0.0.0/0"}) {
    const auto all = best_first(to);
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = i + 1; j < all.size(); ++j)
        for (const bool better_first : {false, true}) {
          const Source &better = all[i], &worse = all[j];
          if (better_first && is_refused(worse, better)) continue;
          SCOPED_TRACE(fmt::format("{}: {} and {}, {} first", to, better.name, worse.name,
                                   better_first ? better.name : worse.name));
          const Source &first = better_first ? better : worse,
                       &second = better_first ? worse : better;
          const auto gateways = sink.gateways.size();
          ASSERT_TRUE(first.add(table));
          EXPECT_EQ(sink.lookup(to), first.hop);
          sink.removed.clear();
          ASSERT_TRUE(second.add(table));
          EXPECT_EQ(sink.lookup(to), better.hop);
          EXPECT_EQ(waiting(to), 1U);
          better.remove(table);
          EXPECT_EQ(sink.lookup(to), worse.hop);
          EXPECT_EQ(waiting(to), 0U);
          EXPECT_FALSE(sink.removed.contains(prefix(to)));
          ASSERT_TRUE(better.add(table));
          EXPECT_EQ(sink.lookup(to), better.hop);
          worse.remove(table);
          EXPECT_EQ(sink.lookup(to), better.hop);
          EXPECT_FALSE(sink.removed.contains(prefix(to)));
          better.remove(table);
          EXPECT_EQ(sink.lookup(to), NextHop{});
          EXPECT_EQ(waiting(to), 0U);
          EXPECT_EQ(sink.gateways.size(), gateways);
        }
  }
}

TEST_F(RouteSources, P17_RoutesThatWaitTakeEffectInTheirOrder) {
  for (const char* to : {"10.8.0.0/24", "10.8.0.9/32", "fd08::9/128", "::/0"}) {
    const auto all = best_first(to);
    std::mt19937 random{7};
    for (int run = 0; run < 20; ++run) {
      std::vector<std::size_t> order(all.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::ranges::shuffle(order, random);
      std::stable_partition(order.begin(), order.end(),
                            [&](std::size_t i) { return i != 0 && is_refused(all[i], all[0]); });
      for (const std::size_t i : order) ASSERT_TRUE(all[i].add(table)) << all[i].name;
      for (const Source& source : all) {
        EXPECT_EQ(sink.lookup(to), source.hop) << to << " " << source.name;
        source.remove(table);
      }
      EXPECT_EQ(sink.lookup(to), NextHop{});
    }
  }
}

TEST_F(RouteSources, P11_AStaticRouteIsRefusedBesideAnotherOrABetterOne) {
  EXPECT_EQ(table.add_static(prefix("10.0.0.0/24"), {ip("10.0.0.2")}).error().code, Errc::kExists);
  ASSERT_TRUE(kernel("172.16.0.0/16", 0, {{0, ip("10.0.0.3")}}));
  ASSERT_TRUE(table.add_blackhole(prefix("172.16.0.0/16")));
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), only(NextHopKind::kBlackhole));
  EXPECT_EQ(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}).error().code,
            Errc::kExists);
  EXPECT_EQ(table.add_blackhole(prefix("172.16.0.0/16")).error().code, Errc::kExists);
  ASSERT_TRUE(table.remove(prefix("172.16.0.0/16")));
  EXPECT_EQ(table.remove(prefix("172.16.0.0/16")).error().what,
            "the route to 172.16.0.0/16 is not static and cannot be removed");
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), through(0, 3));
  table.remove_kernel(prefix("172.16.0.0/16"), 1);
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), through(0, 3)) << "of another metric";
  table.remove_kernel(prefix("172.16.0.0/16"), 0);
  EXPECT_EQ(table.remove(prefix("172.16.0.0/16")).error().code, Errc::kNotFound);
}

// A static route, added while it waits, is refused only by its like.
TEST_F(RouteSources, P17_AStaticRouteThatWaitsIsNotAddedTwice) {
  ASSERT_TRUE(table.add_static(prefix("10.8.0.0/24"), {ip("10.0.0.2")}));
  ASSERT_TRUE(table.add_network(1, prefix("10.8.0.1/24")));
  EXPECT_EQ(table.add_static(prefix("10.8.0.0/24"), {ip("10.0.0.2")}).error().code, Errc::kExists);
  EXPECT_EQ(waiting("10.8.0.0/24"), 1U);
  table.remove_network(1, prefix("10.8.0.1/24"));
  EXPECT_EQ(sink.lookup("10.8.0.0/24"), through(0, 2));
}

// Make before break: the tables have the new next hop before the old gateway is forgotten.
TEST_F(RouteSources, P17_AKernelRouteIsReplacedWithoutAGap) {
  const char* to = "172.16.0.0/16";
  ASSERT_TRUE(kernel(to, 20, {{0, ip("10.0.0.3")}}));
  sink.calls.clear();
  ASSERT_TRUE(kernel(to, 20, {{1, ip("192.168.1.4")}}));
  EXPECT_EQ(sink.calls,
            (std::vector<std::string>{"use 192.168.1.4", "set 172.16.0.0/16", "forget 10.0.0.3"}));
  sink.calls.clear();
  ASSERT_TRUE(kernel(to, 20, RouteAction::kBlackhole));
  EXPECT_EQ(sink.calls, (std::vector<std::string>{"set 172.16.0.0/16", "forget 192.168.1.4"}));
  EXPECT_EQ(sink.lookup(to), only(NextHopKind::kBlackhole));
  sink.calls.clear();
  ASSERT_TRUE(kernel(to, 10, {{0, ip("10.0.0.5")}}));
  EXPECT_EQ(sink.calls, (std::vector<std::string>{"use 10.0.0.5", "set 172.16.0.0/16"}));
  sink.calls.clear();
  ASSERT_TRUE(kernel(to, 20, {{0, ip("10.0.0.6")}})) << "it waits";
  EXPECT_EQ(sink.calls, std::vector<std::string>{"use 10.0.0.6"});
  sink.calls.clear();
  table.remove_kernel(prefix(to), 10);
  EXPECT_EQ(sink.calls, (std::vector<std::string>{"set 172.16.0.0/16", "forget 10.0.0.5"}));
  EXPECT_EQ(sink.lookup(to), through(0, 6));
  sink.calls.clear();
  table.remove_kernel(prefix(to), 20);
  EXPECT_EQ(sink.calls, (std::vector<std::string>{"remove 172.16.0.0/16", "forget 10.0.0.6"}));
}

TEST_F(RouteSources, P17_RedirectsAreReplacedWithoutAGap) {
  ASSERT_TRUE(table.add_redirect(0, ip("2001:db8::9"), ip("fe80::7")));
  sink.calls.clear();
  ASSERT_TRUE(table.add_redirect(0, ip("2001:db8::9"), ip("fe80::8")));
  EXPECT_EQ(sink.calls,
            (std::vector<std::string>{"use fe80::8", "set 2001:db8::9/128", "forget fe80::7"}));
}

TEST_F(RouteSources, P17_WhatTheTablesRefuseLeavesTheOldRoute) {
  const char* to = "172.16.0.0/16";
  ASSERT_TRUE(kernel(to, 0, {{0, ip("10.0.0.3")}}));
  sink.full = true;
  EXPECT_EQ(kernel(to, 0, {{0, ip("10.0.0.4")}}).error().code, Errc::kNoResources);
  EXPECT_EQ(kernel("172.17.0.0/16", 0, {{0, ip("10.0.0.4")}, {0, ip("10.0.0.5")}}).error().code,
            Errc::kNoResources);
  EXPECT_EQ(table.add_static(prefix(to), {ip("10.0.0.4")}).error().code, Errc::kNoResources);
  EXPECT_EQ(sink.lookup(to), through(0, 3));
  EXPECT_EQ(sink.gateways.size(), 1U);
  EXPECT_EQ(table.routes().at(prefix(to)).kind, RouteKind::kKernel);
  EXPECT_EQ(waiting(to), 0U);
}

// The tables refuse each that waits: the prefix has no route then. The next one that they take lets the
// best take effect.
TEST_F(RouteSources, P17_AFailureToTakeEffectIsLoggedAndCostsNoRoute) {
  const char* to = "172.16.0.0/16";
  ASSERT_TRUE(kernel(to, 20, {{0, ip("10.0.0.6")}}));
  ASSERT_TRUE(kernel(to, 10, {{0, ip("10.0.0.5")}}));
  ASSERT_TRUE(table.add_static(prefix(to), {ip("10.0.0.4")}));
  sink.refused.insert(prefix(to));
  const auto log = logged([&] { ASSERT_TRUE(table.remove(prefix(to))); });
  EXPECT_NE(log.find("a route to 172.16.0.0/16 cannot take effect: full"), std::string::npos)
      << log;
  EXPECT_EQ(sink.lookup(to), NextHop{});
  EXPECT_FALSE(table.routes().contains(prefix(to)));
  EXPECT_EQ(waiting(to), 2U);
  EXPECT_FALSE(kernel(to, 30, RouteAction::kBlackhole));
  sink.refused.clear();
  ASSERT_TRUE(kernel(to, 30, RouteAction::kBlackhole));
  EXPECT_EQ(sink.lookup(to), through(0, 5));
  EXPECT_EQ(waiting(to), 2U);
  for (const std::uint32_t metric : {10U, 20U, 30U}) table.remove_kernel(prefix(to), metric);
  EXPECT_EQ(sink.lookup(to), NextHop{});
  EXPECT_TRUE(sink.gateways.empty());
}

TEST_F(RouteSources, P17_OneOfThoseThatWaitIsSetAgainAndTakesEffect) {
  const char* to = "172.16.0.0/16";
  ASSERT_TRUE(kernel(to, 10, {{0, ip("10.0.0.5")}}));
  ASSERT_TRUE(table.add_blackhole(prefix(to)));
  sink.refused.insert(prefix(to));
  logged([&] { ASSERT_TRUE(table.remove(prefix(to))); });
  sink.refused.clear();
  ASSERT_TRUE(kernel(to, 10, {{0, ip("10.0.0.7")}}));
  EXPECT_EQ(sink.lookup(to), through(0, 7));
  EXPECT_EQ(waiting(to), 0U);
  EXPECT_EQ(sink.gateways.size(), 1U);
}

TEST_F(RouteSources, P11_KernelGatewaysNeedNoNetwork) {
  ASSERT_TRUE(kernel("172.16.0.0/16", 0, {{0, ip("198.51.100.7")}}));
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), through(0, 7));
  ASSERT_TRUE(kernel("172.17.0.0/16", 0, {{1, ip("10.0.0.8")}}))
      << "of another interface's network";
  EXPECT_EQ(sink.lookup("172.17.0.0/16"), through(1, 8));
  EXPECT_EQ(sink.gateways.count({1, ip("10.0.0.8")}), 1U);
}

TEST_F(RouteSources, P17_Ipv6GatewaysCarryIpv4) {
  ASSERT_TRUE(kernel("172.16.0.0/16", 0, {{1, ip("fe80::7")}}));
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), through(1, 7));
  ASSERT_TRUE(kernel("172.17.0.0/16", 0, {{1, ip("fe80::7")}, {0, ip("10.0.0.8")}}));
  EXPECT_EQ(shares("172.17.0.0/16"), (std::map<table::NeighbourIndex, int>{{7, 32}, {8, 32}}));
  table.neighbour_heard(1, ip("fe80::7"), false);
  EXPECT_EQ(shares("172.17.0.0/16"), (std::map<table::NeighbourIndex, int>{{8, 64}}));
}

TEST_F(RouteSources, P11_RefusedKernelRoutesNameTheFault) {
  struct Row {
    const char* to;
    std::vector<RoutePath> paths;
    const char* error;
  };
  const std::vector<RoutePath> many(RouteTable::kMaxPaths + 1, {0, ip("10.0.0.2")});
  const auto before = sink.prefixes.size();
  for (const Row& row : {
           Row{"172.16.0.0/16",
               {},
               "route 172.16.0.0/16: invalid number of paths 0, allowed: 1-64"},
           Row{"172.16.0.0/16", many,
               "route 172.16.0.0/16: invalid number of paths 65, allowed: 1-64"},
           Row{"172.16.0.0/16",
               {{0, ip("10.0.0.2"), 0}},
               "route 172.16.0.0/16: invalid weight 0 of a path, allowed: 1-65536"},
           Row{"172.16.0.0/16",
               {{0, ip("10.0.0.2"), 65'537}},
               "route 172.16.0.0/16: invalid weight 65537 of a path, allowed: 1-65536"},
           Row{"172.16.0.0/16",
               {{table::kNoInterface, ip("10.0.0.2")}},
               "route 172.16.0.0/16: a path without an interface"},
           Row{"fd01::/64",
               {{0, ip("10.0.0.2")}},
               "route fd01::/64: gateway 10.0.0.2 is not an IPv6 address"},
           Row{"172.16.0.0/16",
               {{0, ip("10.0.0.2")}, {0, ip("10.0.0.1")}},
               "route 172.16.0.0/16: gateway 10.0.0.1 is an address of this node or a broadcast "
               "address"},
           Row{"172.16.0.0/16",
               {{1, ip("10.0.0.255")}},
               "route 172.16.0.0/16: gateway 10.0.0.255 is an address of this node or a broadcast "
               "address"},
       }) {
    const auto set = kernel(row.to, 0, row.paths);
    ASSERT_FALSE(set) << row.error;
    EXPECT_EQ(set.error().what, row.error);
    EXPECT_EQ(set.error().code, Errc::kInvalidArgument);
  }
  EXPECT_EQ(sink.prefixes.size(), before);
  EXPECT_TRUE(sink.gateways.empty());
}

TEST_F(RouteSources, P11_RoutesThatDropHaveTheirKind) {
  ASSERT_TRUE(kernel("172.16.0.0/16", 0, RouteAction::kBlackhole));
  ASSERT_TRUE(kernel("172.17.0.0/16", 0, RouteAction::kUnreachable));
  ASSERT_TRUE(kernel("172.18.5.5/16", 0, RouteAction::kProhibit));
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), only(NextHopKind::kBlackhole));
  EXPECT_EQ(sink.lookup("172.17.0.0/16"), only(NextHopKind::kUnreachable));
  EXPECT_EQ(sink.lookup("172.18.0.0/16"), only(NextHopKind::kProhibited));
  EXPECT_TRUE(table.paths(table.routes().at(prefix("172.17.0.0/16"))).empty());
  table.remove_kernel(prefix("172.18.5.5/16"), 0);
  EXPECT_EQ(sink.lookup("172.18.0.0/16"), NextHop{});
}

TEST_F(RouteSources, P17_ARouteToTheLinkHasNeighbours) {
  EXPECT_EQ(table.add_neighbour(0, ip("172.16.0.7"), 5).error().code, Errc::kNotFound);
  ASSERT_TRUE(kernel("172.16.0.0/16", 0, {{0}}));
  EXPECT_EQ(sink.lookup("172.16.0.0/16"), only(NextHopKind::kConnected, 0));
  EXPECT_EQ(sink.prefixes.at(prefix("172.16.0.0/16")), sink.prefixes.at(prefix("10.0.0.0/24")))
      << "entries of neighbours depend on one next hop";
  EXPECT_EQ(table.paths(table.routes().at(prefix("172.16.0.0/16"))), std::vector{RoutePath{0}});
  ASSERT_TRUE(table.add_neighbour(0, ip("172.16.0.7"), 5));
  EXPECT_EQ(table.add_neighbour(1, ip("172.16.0.7"), 5).error().code, Errc::kNotFound);
  ASSERT_TRUE(kernel("172.16.128.0/17", 0, {{0, ip("10.0.0.2")}}));
  EXPECT_EQ(table.add_neighbour(0, ip("172.16.200.7"), 5).error().code, Errc::kNotFound)
      << "behind the gateway";
  ASSERT_TRUE(kernel("0.0.0.0/0", 0, {{0}}));
  EXPECT_EQ(table.add_neighbour(0, ip("8.8.8.8"), 5).error().code, Errc::kNotFound);
}

TEST_F(RouteSources, P17_WeightsAreShares) {
  ASSERT_TRUE(kernel("172.16.0.0/16", 0, {{0, ip("10.0.0.2"), 3}, {1, ip("192.168.1.3"), 1}}));
  EXPECT_EQ(shares("172.16.0.0/16"), (std::map<table::NeighbourIndex, int>{{2, 48}, {3, 16}}));
  // With these proportions in another order, and one path named twice, the next hop is shared.
  ASSERT_TRUE(kernel("172.17.0.0/16", 0,
                     {{1, ip("192.168.1.3"), 5}, {0, ip("10.0.0.2"), 10}, {0, ip("10.0.0.2"), 5}}));
  EXPECT_EQ(sink.prefixes.at(prefix("172.17.0.0/16")), sink.prefixes.at(prefix("172.16.0.0/16")));
  ASSERT_TRUE(kernel("172.18.0.0/16", 0, {{0, ip("10.0.0.2"), 1}, {0, ip("10.0.0.2"), 7}}));
  EXPECT_EQ(sink.lookup("172.18.0.0/16"), through(0, 2)) << "no group of one path";
  ASSERT_TRUE(kernel(
      "172.19.0.0/16", 0,
      {{0, ip("10.0.0.2"), 65'536}, {1, ip("192.168.1.3"), 65'536}, {1, ip("192.168.1.4"), 1}}));
  EXPECT_EQ(shares("172.19.0.0/16").size(), 2U) << "less than one of 1,024 buckets";
}

TEST_F(RouteSources, P17_AGroupMayHavePathsToTheLink) {
  ASSERT_TRUE(kernel("172.16.0.0/16", 0, {{0, ip("10.0.0.2")}, {1}}));
  EXPECT_EQ(shares("172.16.0.0/16"),
            (std::map<table::NeighbourIndex, int>{{2, 32}, {table::kNoNeighbour, 32}}));
  table.interface_changed(1, false);
  EXPECT_EQ(shares("172.16.0.0/16"), (std::map<table::NeighbourIndex, int>{{2, 64}}));
  table.interface_changed(1, true);
  EXPECT_EQ(shares("172.16.0.0/16").size(), 2U);
}

// FRR withdraws one of several paths: the flows of the others stay.
TEST_F(RouteSources, P17_FlowsStayOnPathsThatAReplacedRouteKeeps) {
  const char* to = "172.16.0.0/16";
  const auto bucket = [&](table::NextHopIndex i) {
    return sink.hops.at(sink.lookup(to).neighbour + i).neighbour;
  };
  ASSERT_TRUE(kernel(to, 0, {{0, ip("10.0.0.2")}, {0, ip("10.0.0.3")}, {0, ip("10.0.0.4")}}));
  std::vector<table::NeighbourIndex> before;
  for (table::NextHopIndex i = 0; i < 64; ++i) before.push_back(bucket(i));
  ASSERT_TRUE(kernel(to, 0, {{0, ip("10.0.0.2")}, {0, ip("10.0.0.4")}}));
  for (table::NextHopIndex i = 0; i < 64; ++i)
    if (before[i] != 3) {
      EXPECT_EQ(bucket(i), before[i]) << i;
    }
  EXPECT_EQ(shares(to), (std::map<table::NeighbourIndex, int>{{2, 32}, {4, 32}}));
}

TEST_F(RouteSources, RoutesInEffectAreCountedByKind) {
  ASSERT_TRUE(table.add_static(prefix("172.16.0.0/16"), {ip("10.0.0.2")}));
  ASSERT_TRUE(kernel("172.16.0.0/16", 0, RouteAction::kBlackhole));
  ASSERT_TRUE(kernel("172.17.0.0/16", 0, RouteAction::kBlackhole));
  table.set_all_subnets(0, true);
  const auto expect_counts = [&] {
    std::array<std::size_t, kRouteKinds> counts{};
    for (const auto& [to, route] : table.routes()) ++counts[static_cast<std::size_t>(route.kind)];
    EXPECT_EQ(table.in_effect(), counts);
  };
  expect_counts();
  EXPECT_EQ(table.in_effect()[static_cast<std::size_t>(RouteKind::kNetBroadcast)], 1U);
  ASSERT_TRUE(table.remove(prefix("172.16.0.0/16")));
  expect_counts();
  table.set_all_subnets(0, false);
  table.remove_network(0, prefix("10.0.0.1/24"));
  table.remove_local(0, prefix("10.0.0.1/24"));
  expect_counts();
}

// Any sequence of changes ends in the state that the set of routes has, in any order.
TEST_F(RouteSources, P17_RandomSequencesEndAsASimpleModelSays) {
  using Rank = std::pair<RouteKind, std::uint32_t>;
  const std::vector<const char*> prefixes{"172.16.0.0/16", "10.9.0.0/24", "10.9.0.255/32",
                                          "10.9.0.7/32", "0.0.0.0/0"};
  for (unsigned seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const auto pick = [&](std::size_t n) { return random() % n; };
    const auto gateways = sink.gateways;
    std::map<std::string_view, std::map<Rank, NextHop>> model;
    const auto add_connected = [&] {
      if (!table.add_network(1, prefix("10.9.0.1/24"))) return;
      model["10.9.0.0/24"][{RouteKind::kConnected, 0}] = only(NextHopKind::kConnected, 1);
      model["10.9.0.255/32"][{RouteKind::kBroadcast, 0}] = only(NextHopKind::kBroadcast, 1);
    };
    const auto remove_connected = [&] {
      table.remove_network(1, prefix("10.9.0.1/24"));
      model["10.9.0.0/24"].erase({RouteKind::kConnected, 0});
      model["10.9.0.255/32"].erase({RouteKind::kBroadcast, 0});
    };
    for (int step = 0; step < 40; ++step) {
      const char* to = prefixes[pick(prefixes.size())];
      auto& known = model[to];
      const auto via = static_cast<std::uint32_t>(100 + pick(6));
      const wire::IpAddr gateway = wire::IpAddr::v4(0x0a00'0000 + via);
      const auto metric = static_cast<std::uint32_t>(pick(3));
      switch (pick(9)) {
        case 0: {
          const bool taken = !known.empty() && known.begin()->first.first < RouteKind::kStatic;
          const bool twice = known.contains({RouteKind::kStatic, 0});
          const auto added = table.add_static(prefix(to), {gateway});
          EXPECT_EQ(added.has_value(), !taken && !twice);
          if (added) known[{RouteKind::kStatic, 0}] = through(0, via);
          break;
        }
        case 1:
          EXPECT_EQ(table.remove(prefix(to)).has_value(),
                    known.erase({RouteKind::kStatic, 0}) != 0);
          break;
        case 2:
        case 3:
          ASSERT_TRUE(kernel(to, metric, {{0, gateway}}));
          known[{RouteKind::kKernel, metric}] = through(0, via);
          break;
        case 4:
          table.remove_kernel(prefix(to), metric);
          known.erase({RouteKind::kKernel, metric});
          break;
        case 5:
          if (prefix(to).len == 32) {
            const bool broadcast = known.contains({RouteKind::kBroadcast, 0});
            EXPECT_EQ(table.add_redirect(0, prefix(to).addr, gateway).has_value(), !broadcast);
            if (!broadcast) known[{RouteKind::kRedirect, 0}] = through(0, via);
          } else if (prefix(to).len == 0) {
            const bool twice = known.contains({RouteKind::kAdvertised, 0});
            EXPECT_EQ(table.add_advertised(0, gateway).has_value(), !twice);
            if (!twice) known[{RouteKind::kAdvertised, 0}] = through(0, via);
          }
          break;
        case 6:
          table.remove_redirects(0, gateway);
          table.remove_advertised(0, gateway);
          for (auto& [at, routes] : model)
            std::erase_if(routes, [&](const auto& route) {
              return route.first.first >= RouteKind::kRedirect && route.second == through(0, via);
            });
          break;
        case 7: add_connected(); break;
        default: remove_connected(); break;
      }
      for (const char* at : prefixes) {
        const auto& routes = model[at];
        ASSERT_EQ(sink.lookup(at), routes.empty() ? NextHop{} : routes.begin()->second)
            << at << " after step " << step;
        ASSERT_EQ(waiting(at), routes.empty() ? 0 : routes.size() - 1) << at;
      }
    }
    remove_connected();
    for (const char* to : prefixes) {
      static_cast<void>(table.remove(prefix(to)));
      for (std::uint32_t metric = 0; metric < 3; ++metric) table.remove_kernel(prefix(to), metric);
    }
    for (std::uint32_t via = 100; via < 106; ++via) {
      table.remove_redirects(0, wire::IpAddr::v4(0x0a00'0000 + via));
      table.remove_advertised(0, wire::IpAddr::v4(0x0a00'0000 + via));
    }
    ASSERT_EQ(sink.gateways, gateways);
    ASSERT_TRUE(table.waiting().empty());
  }
}

// --- Networks that interfaces share ---

struct SharedNetworks : testing::Test {
  void SetUp() override {
    table.share_networks({0, 1});
    ASSERT_TRUE(table.add_address(0, prefix("10.0.0.1/24")));
    ASSERT_TRUE(table.add_address(1, prefix("10.0.0.2/24")));
  }
  FakePrefixSink sink;
  RouteTable table{sink};
};

TEST_F(SharedNetworks, P24_TheFirstInterfaceHasTheRoute) {
  EXPECT_EQ(sink.lookup("10.0.0.0/24"), only(NextHopKind::kConnected, 0));
  EXPECT_EQ(sink.lookup("10.0.0.1/32"), only(NextHopKind::kLocal, 0));
  EXPECT_EQ(sink.lookup("10.0.0.2/32"), only(NextHopKind::kLocal, 1));
  EXPECT_FALSE(table.add_address(2, prefix("10.0.0.3/24"))) << "an interface outside of the group";
}

TEST_F(SharedNetworks, P24_HostsOfOtherInterfacesHaveRoutes) {
  ASSERT_TRUE(table.set_proxied(1, ip("10.0.0.10")));
  EXPECT_EQ(sink.lookup("10.0.0.10/32"), only(NextHopKind::kConnected, 1));
  EXPECT_EQ(table.routes().at(prefix("10.0.0.10/32")).kind, RouteKind::kProxied);
  ASSERT_TRUE(table.set_proxied(0, ip("10.0.0.10"))) << "it moves to the first interface";
  EXPECT_FALSE(table.routes().contains(prefix("10.0.0.10/32")));
  ASSERT_TRUE(table.set_proxied(1, ip("10.0.0.10")));
  ASSERT_TRUE(table.set_proxied(1, ip("10.0.0.10"))) << "twice is harmless";
  table.remove_proxied(ip("10.0.0.10"));
  EXPECT_FALSE(table.routes().contains(prefix("10.0.0.10/32")));
  table.remove_proxied(ip("10.0.0.10"));
  EXPECT_EQ(table.in_effect()[static_cast<std::size_t>(RouteKind::kProxied)], 0U);
}

TEST_F(SharedNetworks, P24_OwnAndBroadcastAddressesAreNoHosts) {
  EXPECT_FALSE(table.set_proxied(1, ip("10.0.0.1")));
  EXPECT_FALSE(table.set_proxied(1, ip("10.0.0.255")));
}

TEST_F(SharedNetworks, P24_TheOtherInterfaceTakesTheRouteOver) {
  table.remove_local(0, prefix("10.0.0.1/24"));
  table.remove_network(0, prefix("10.0.0.1/24"));
  EXPECT_EQ(sink.lookup("10.0.0.0/24"), only(NextHopKind::kConnected, 1));
  EXPECT_EQ(table.interface_of(ip("10.0.0.77")), 1);
  table.remove_local(1, prefix("10.0.0.2/24"));
  table.remove_network(1, prefix("10.0.0.2/24"));
  EXPECT_TRUE(table.routes().empty());
}

TEST_F(SharedNetworks, P24_TheLastAddressOfTheOtherInterfaceChangesNothing) {
  table.remove_local(1, prefix("10.0.0.2/24"));
  table.remove_network(1, prefix("10.0.0.2/24"));
  EXPECT_EQ(sink.lookup("10.0.0.0/24"), only(NextHopKind::kConnected, 0));
  table.remove_local(0, prefix("10.0.0.1/24"));
  table.remove_network(0, prefix("10.0.0.1/24"));
  EXPECT_TRUE(table.routes().empty());
}

TEST_F(SharedNetworks, P24_GatewaysAreOnTheInterfaceThatARouteNames) {
  ASSERT_TRUE(table.add_static(prefix("10.9.0.0/24"), {ip("10.0.0.9")}));
  EXPECT_EQ(sink.lookup("10.9.0.0/24").iface, 0);
  ASSERT_TRUE(table.add_static(prefix("10.9.1.0/24"), {ip("10.0.0.9")}, 1));
  EXPECT_EQ(sink.lookup("10.9.1.0/24").iface, 1);
}

}  // namespace
}  // namespace ipoib::route
