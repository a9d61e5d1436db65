// SPDX-License-Identifier: BSD-3-Clause
// The tables that workers read, as the route table writes them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/route/route_sink.h"
#include "tests/support/addresses.h"

namespace ipoib::route {

/// The tables as a worker sees them.
struct FakePrefixSink : RouteSink {
  Status set_prefix(const wire::IpPrefix& prefix, table::NextHopIndex next_hop) override {
    if (full || refused.contains(prefix)) return fail(Errc::kNoResources, "full");
    prefixes[prefix] = next_hop;
    calls.push_back("set " + wire::to_string(prefix));
    return {};
  }
  void remove_prefix(const wire::IpPrefix& prefix) override {
    EXPECT_EQ(prefixes.erase(prefix), 1U);
    calls.push_back("remove " + wire::to_string(prefix));
    removed.insert(prefix);
  }
  Status add_neighbour(const wire::IpAddr& addr, table::NextHopIndex via,
                       table::NeighbourIndex neighbour) override {
    if (full) return fail(Errc::kNoResources, "full");
    neighbours[{addr, via}] = neighbour;
    return {};
  }
  void remove_neighbour(const wire::IpAddr& addr, table::NextHopIndex via) override {
    EXPECT_EQ(neighbours.erase({addr, via}), 1U);
  }
  void set_next_hop(table::NextHopIndex index, const table::NextHop& hop) override {
    hops[index] = hop;
  }
  Result<table::NeighbourIndex> use_gateway(table::InterfaceId iface,
                                            const wire::IpAddr& a) override {
    gateways.insert({iface, a});
    calls.push_back("use " + wire::to_string(a));
    return static_cast<table::NeighbourIndex>(a.v4_host() & 0xff);
  }
  void forget_gateway(table::InterfaceId iface, const wire::IpAddr& a) override {
    EXPECT_EQ(gateways.erase({iface, a}), 1U);
    calls.push_back("forget " + wire::to_string(a));
  }
  bool has_failed(table::InterfaceId, const wire::IpAddr&) const override { return false; }
  std::uint64_t mark_time() override { return moment; }
  bool is_past(std::uint64_t when, bool wait) override {
    if (wait) moment = std::max(moment, when + 1);
    return moment > when;
  }

  table::NextHop lookup(std::string_view to) const {
    const auto it = prefixes.find(ipoib::test::prefix(to));
    return it == prefixes.end() ? table::NextHop{} : hops.at(it->second);
  }

  std::map<wire::IpPrefix, table::NextHopIndex> prefixes;
  std::map<std::pair<wire::IpAddr, table::NextHopIndex>, table::NeighbourIndex> neighbours;
  std::map<table::NextHopIndex, table::NextHop> hops;
  std::set<std::pair<table::InterfaceId, wire::IpAddr>> gateways;
  bool full = false;
  std::set<wire::IpPrefix> refused;  ///< There is no room for them.
  std::uint64_t moment = 0;
  std::vector<std::string> calls;    ///< Changes of prefixes and gateways, in order.
  std::set<wire::IpPrefix> removed;  ///< Arguments of remove_prefix().
};

}  // namespace ipoib::route
