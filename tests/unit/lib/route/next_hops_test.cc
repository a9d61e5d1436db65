// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/next_hops.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace ipoib::route {
namespace {

using table::NextHop;
using table::NextHopIndex;
using table::NextHopKind;

RoutePath gateway(table::InterfaceId iface, const char* addr, std::uint32_t weight = 1) {
  return {iface, *wire::parse_ip(addr), weight};
}

NextHops::Gateway key(const RoutePath& path) {
  return {path.iface, *path.via};
}

/// The next hops as workers see them, and a clock that the test advances.
class FakeNextHopSink : public RouteSink {
 public:
  Status set_prefix(const wire::IpPrefix&, NextHopIndex) override { return {}; }
  void remove_prefix(const wire::IpPrefix&) override {}
  Status add_neighbour(const wire::IpAddr&, NextHopIndex, table::NeighbourIndex) override {
    return {};
  }
  void remove_neighbour(const wire::IpAddr&, NextHopIndex) override {}
  void set_next_hop(NextHopIndex index, const NextHop& hop) override {
    ++writes;
    hops.set(index, hop);
  }
  Result<table::NeighbourIndex> use_gateway(table::InterfaceId iface,
                                            const wire::IpAddr& addr) override {
    if (neighbours.size() == room) return fail(Errc::kNoResources, "no room");
    const auto index = static_cast<table::NeighbourIndex>(100 + used++);
    neighbours.emplace(NextHops::Gateway{iface, addr}, index);
    return index;
  }
  void forget_gateway(table::InterfaceId iface, const wire::IpAddr& addr) override {
    EXPECT_EQ(neighbours.erase(NextHops::Gateway{iface, addr}), 1U);
  }
  bool has_failed(table::InterfaceId iface, const wire::IpAddr& addr) const override {
    return failed.contains(NextHops::Gateway{iface, addr});
  }
  std::uint64_t mark_time() override { return moment; }
  bool is_past(std::uint64_t when, bool wait) override {
    if (wait && moment <= when) {
      ++waits;
      moment = when + 1;
    }
    return moment > when;
  }

  table::NextHopTable hops;
  std::map<NextHops::Gateway, table::NeighbourIndex> neighbours;
  std::set<NextHops::Gateway> failed;
  std::size_t room = 1'000'000;
  std::size_t used = 0, writes = 0, waits = 0;
  std::uint64_t moment = 0;
};

class NextHopsTest : public testing::Test {
 protected:
  /// Returns the neighbours of many flows.
  std::vector<table::NeighbourIndex> flows(NextHopIndex group) {
    std::vector<table::NeighbourIndex> found;
    const NextHop hop = sink.hops.get(group);
    EXPECT_EQ(hop.kind, NextHopKind::kGroup);
    for (std::uint32_t i = 0; i < 4096; ++i) {
      const NextHop path = sink.hops.member(hop, i << 20);
      EXPECT_EQ(path.kind, NextHopKind::kGateway);
      found.push_back(path.neighbour);
    }
    return found;
  }
  std::set<table::NeighbourIndex> used_by(NextHopIndex group) {
    const auto all = flows(group);
    return {all.begin(), all.end()};
  }
  table::NeighbourIndex of(const RoutePath& path) { return sink.neighbours.at(key(path)); }

  FakeNextHopSink sink;
  std::optional<NextHops> next_hops{std::in_place, sink};
  const RoutePath a = gateway(0, "10.0.0.2"), b = gateway(1, "10.1.0.2"),
                  c = gateway(1, "10.1.0.3");
  const RoutePath a6 = gateway(0, "fd00::2"), b6 = gateway(1, "fd00:1::2");
};

TEST_F(NextHopsTest, OneGatewayAndOneSetOfGatewaysHaveOneNumberEach) {
  const auto one = next_hops->use({a}), again = next_hops->use({a});
  EXPECT_EQ(*one, *again);
  const auto group = next_hops->use({a, b}), same = next_hops->use({a, b});
  EXPECT_EQ(*group, *same);
  EXPECT_NE(*group, *next_hops->use({b, a})) << "another order is another group";
  EXPECT_EQ(sink.neighbours.size(), 2U);
}

TEST_F(NextHopsTest, FlowsLeaveADeadGatewayAndNoOthersMove) {
  for (const auto& [x, y] : {std::pair{a, b}, std::pair{a6, b6}}) {
    const auto group = *next_hops->use({x, y});
    const auto before = flows(group);
    next_hops->neighbour_heard(key(x), false);
    EXPECT_EQ(used_by(group), std::set{of(y)});
    const auto after = flows(group);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == of(y)) {
        EXPECT_EQ(after[i], of(y));
      }
    }
    next_hops->neighbour_heard(key(x), true);
    EXPECT_EQ(flows(group), before) << "and come back with it";
  }
}

/// Packets of a gateway that does not answer may still arrive: the check of sources needs to know its
/// interface.
TEST_F(NextHopsTest, P05_InterfacesOfDeadGatewaysStayBehindTheBuckets) {
  const auto interfaces_of = [this](NextHopIndex group) {
    const NextHop hop = sink.hops.get(group);
    std::vector<table::InterfaceId> found;
    NextHopIndex at = hop.neighbour + (1U << hop.bucket_bits);
    for (; sink.hops.get(at).kind == NextHopKind::kConnected; ++at)
      found.push_back(sink.hops.get(at).iface);
    EXPECT_EQ(sink.hops.get(at), NextHop{});
    return found;
  };
  const auto group = *next_hops->use({b, a, c}), one_link = *next_hops->use({b, c});
  EXPECT_EQ(interfaces_of(group), (std::vector<table::InterfaceId>{0, 1}));
  EXPECT_EQ(interfaces_of(one_link), std::vector<table::InterfaceId>{1});
  next_hops->neighbour_heard(key(a), false);
  next_hops->interface_changed(0, false);
  EXPECT_EQ(interfaces_of(group), (std::vector<table::InterfaceId>{0, 1}));
}

TEST_F(NextHopsTest, AGatewayThatFailsLeavesEveryGroupItIsIn) {
  const auto ab = *next_hops->use({a, b}), abc = *next_hops->use({a, b, c}),
             bc = *next_hops->use({b, c});
  next_hops->neighbour_heard(key(b), false);
  EXPECT_EQ(used_by(ab), std::set{of(a)});
  EXPECT_EQ(used_by(abc), (std::set{of(a), of(c)}));
  EXPECT_EQ(used_by(bc), std::set{of(c)});
  EXPECT_EQ(used_by(*next_hops->use({c, b})), std::set{of(c)}) << "a group made meanwhile, too";
}

// The neighbour was no gateway when it failed, so its failure was not reported.
TEST_F(NextHopsTest, AGatewayThatHasFailedBeforeIsNotUsedUntilItAnswers) {
  sink.failed = {key(b)};
  const auto ab = *next_hops->use({a, b}), only = *next_hops->use({b});
  EXPECT_EQ(used_by(ab), std::set{of(a)});
  EXPECT_EQ(next_hops->dead_gateways(ab), std::vector{*b.via});
  EXPECT_EQ(next_hops->dead_gateways(only), std::vector{*b.via});
  sink.failed.clear();
  next_hops->neighbour_heard(key(b), true);
  EXPECT_EQ(used_by(ab), (std::set{of(a), of(b)}));
  EXPECT_TRUE(next_hops->dead_gateways(only).empty());
}

TEST_F(NextHopsTest, AnInterfaceThatGoesDownTakesItsGatewaysAlong) {
  const auto group = *next_hops->use({a, b, c});
  next_hops->interface_changed(1, false);
  EXPECT_EQ(used_by(group), std::set{of(a)});
  next_hops->neighbour_heard(key(b), false);
  next_hops->interface_changed(1, true);
  EXPECT_EQ(used_by(group), (std::set{of(a), of(c)})) << "b does not answer yet";
  next_hops->neighbour_heard(key(b), true);
  EXPECT_EQ(used_by(group).size(), 3U);
}

TEST_F(NextHopsTest, TheLastGatewayThatDiesIsStillTried) {
  const auto group = *next_hops->use({a, b});
  next_hops->neighbour_heard(key(a), false);
  next_hops->neighbour_heard(key(b), false);
  EXPECT_EQ(used_by(group), std::set{of(b)});
  next_hops->neighbour_heard(key(a), true);
  EXPECT_EQ(used_by(group), std::set{of(a)});
}

TEST_F(NextHopsTest, NothingIsWrittenWhereNothingChanges) {
  static_cast<void>(*next_hops->use({a, b}));
  static_cast<void>(*next_hops->use({c}));
  const std::size_t before = sink.writes;
  next_hops->neighbour_heard(key(a), true);
  next_hops->neighbour_heard(key(gateway(0, "10.0.0.77")), false);
  next_hops->interface_changed(1, true);
  next_hops->interface_changed(5, false);
  EXPECT_EQ(sink.writes, before);
}

TEST_F(NextHopsTest, RoutersOnTheSameLinksAgreeOnTheWayBack) {
  const auto ab = *next_hops->use({a, b}), ba = *next_hops->use({b, a});
  EXPECT_EQ(sink.hops.get(ab).iface, 1) << "10.1.0.2 is higher than 10.0.0.2";
  EXPECT_EQ(sink.hops.get(ba).iface, 1);
  next_hops->neighbour_heard(key(b), false);
  EXPECT_EQ(sink.hops.get(ab).iface, 0);
  EXPECT_EQ(sink.hops.get(ba).iface, 0);
}

TEST_F(NextHopsTest, TheNumberOfAGatewayNamesItsNeighbour) {
  const auto one = *next_hops->use({a});
  EXPECT_EQ(one, table::adjacency_of(of(a), true));
  EXPECT_EQ(sink.hops.get(one), (NextHop{NextHopKind::kGateway, 0, a.iface, of(a)}));
  const auto group = *next_hops->use({a, b});
  EXPECT_FALSE(table::is_adjacency(group));
  next_hops->release(one);
  EXPECT_EQ(sink.neighbours.size(), 2U) << "the group still uses it";
  next_hops->release(group);
  EXPECT_TRUE(sink.neighbours.empty());
}

TEST_F(NextHopsTest, ANumberIsNotUsedAgainWhileAWorkerMayNameIt) {
  const auto group = *next_hops->use({a, b});
  const NextHop was = sink.hops.get(group);
  next_hops->release(group);
  EXPECT_TRUE(sink.neighbours.empty());
  EXPECT_EQ(sink.hops.get(group), was) << "a packet under way still finds its way";
  EXPECT_NE(*next_hops->use({c, b}), group);
  sink.moment = 1;
  EXPECT_EQ(*next_hops->use({c, a}), group);
}

TEST_F(NextHopsTest, WhereAllNumbersAreRetiredItWaitsForTheWorkers) {
  std::vector<NextHopIndex> groups;
  for (std::uint32_t i = 0;; ++i) {
    const auto group = next_hops->use({a, {0, wire::IpAddr::v4(0x0a00'0100 + i)}});
    if (!group) break;
    groups.push_back(*group);
  }
  EXPECT_GT(groups.size(), 3900U);
  for (const NextHopIndex group : groups) next_hops->release(group);
  EXPECT_EQ(sink.waits, 0U);
  EXPECT_TRUE(next_hops->use({a, b}));
  EXPECT_GE(sink.waits, 1U);
}

TEST_F(NextHopsTest, WhatCannotBeMadeLeavesNothingBehind) {
  sink.room = 1;
  EXPECT_FALSE(next_hops->use({a, b}));
  EXPECT_TRUE(sink.neighbours.empty());
  sink.room = 2;
  EXPECT_TRUE(next_hops->use({a, b}));
  next_hops.reset();
  EXPECT_TRUE(sink.neighbours.empty());
}

}  // namespace
}  // namespace ipoib::route
