// SPDX-License-Identifier: BSD-3-Clause
// Next hops of routes: one object for each gateway and one for each set of paths, shared by all
// routes by them. They know which gateways live. A gateway's number names its neighbour; a set
// of paths, the group, has slots of the next-hop table.
//
// A gateway is dead while its neighbour does not answer or its interface is down; a path without one
// while its interface is down. A group moves the flows of a dead path to those that live
// (buckets.h); a route with one path keeps it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/route/buckets.h"
#include "lib/route/number_ranges.h"
#include "lib/route/route_sink.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// A way to the hosts of a prefix.
struct RoutePath {
  table::InterfaceId iface = table::kNoInterface;
  std::optional<wire::IpAddr> via{};  ///< The gateway; none: the hosts are on the link of `iface`.
  std::uint32_t weight = 1;           ///< Share of the flows, beside other paths.

  friend auto operator<=>(const RoutePath&, const RoutePath&) = default;
};

/// Management lcore only.
class NextHops {
 public:
  using Gateway = std::pair<table::InterfaceId, wire::IpAddr>;
  using Paths = std::vector<RoutePath>;

  /// `sink` outlives it.
  explicit NextHops(RouteSink& sink);
  ~NextHops();
  /// Forgets all gateways. Nothing may be used or released afterwards.
  void clear();
  NextHops(const NextHops&) = delete;
  NextHops& operator=(const NextHops&) = delete;

  /// The number of a next hop without a gateway; lives as long as this object.
  Result<table::NextHopIndex> fixed(const table::NextHop& hop);
  /// The number of the next hop for broadcasts to all of the interfaces: see
  /// NextHopKind::kBroadcast. It needs its release_broadcast() with the number of interfaces, once no
  /// prefix names it any more.
  Result<table::NextHopIndex> use_broadcast(const std::set<table::InterfaceId>& interfaces);
  void release_broadcast(table::NextHopIndex index, std::size_t interfaces);
  /// The number of the next hop by one path, or of the group of several, in their order. Each use()
  /// needs its release(), once no prefix names the number any more. A gateway that has failed already
  /// is dead from the start. Errors: kNoResources, and those of RouteSink::use_gateway.
  /// Shape: 1 <= paths.size() <= kMaxPaths.
  ///
  /// `old`: the number that prefixes leave for this one. A new group keeps the flows of an old one
  /// on the paths that both have.
  Result<table::NextHopIndex> use(const Paths& paths,
                                  table::NextHopIndex old = table::kNextHopNone);
  /// Ignores numbers of fixed() and use_broadcast().
  void release(table::NextHopIndex index);

  /// The neighbour answers, or did not answer a request.
  void neighbour_heard(const Gateway& neighbour, bool answers);
  void interface_changed(table::InterfaceId iface, bool up);
  /// Paths of a number from use(), as they were there, except the weight of a single one. Empty for
  /// other numbers, and for the number of one path without a gateway.
  [[nodiscard]] Paths paths_of(table::NextHopIndex index) const;
  /// Gateways of these paths that are dead.
  [[nodiscard]] std::vector<wire::IpAddr> dead_gateways(table::NextHopIndex index) const;

  /// Gateways and groups in use.
  [[nodiscard]] std::size_t size() const { return gateways_.size() + groups_.size(); }

  static constexpr std::size_t kMaxPaths = 64;

 private:
  struct GatewayState {
    table::NextHopIndex index = table::kNextHopNone;  ///< The adjacency of its neighbour.
    std::size_t uses = 0;                             ///< Number of routes and groups that use it.
    bool answers = true;                              ///< False while the neighbour has failed.
    std::set<table::NextHopIndex> groups{};
  };
  struct Group {
    Paths paths;
    std::size_t uses = 0;
    table::InterfaceId iface = table::kNoInterface;  ///< Last result of reverse_interface().
    Buckets buckets;
  };
  using Gateways = std::map<Gateway, GatewayState>;

  Result<Gateways::iterator> use_gateway(const Gateway& gateway);
  void release_gateway(const Gateway& gateway);
  Result<table::NextHopIndex> use_group(const Paths& paths, table::NextHopIndex old);
  void take_over(Group& group, table::NextHopIndex old) const;
  void release_group(table::NextHopIndex index);
  Status use_gateways(const Paths& paths);
  void release_gateways(std::span<const RoutePath> paths);
  void refresh(table::NextHopIndex index);
  [[nodiscard]] bool is_alive(const RoutePath& path) const;
  [[nodiscard]] std::vector<bool> alive(const Group& group) const;
  [[nodiscard]] table::InterfaceId reverse_interface(const Group& group) const;
  [[nodiscard]] table::NextHop hop_of(const Gateway& gateway) const;
  [[nodiscard]] table::NextHop hop_of(const RoutePath& path) const;
  void write_group(table::NextHopIndex index, const Group& group);
  void write_buckets(table::NextHopIndex index, const Group& group);
  void write_interfaces(table::NextHopIndex index, const Group& group);

  Result<table::NextHopIndex> allocate(std::size_t n);
  void retire(table::NextHopIndex first, std::size_t n);
  void reclaim(bool wait);

  RouteSink& sink_;
  std::map<std::pair<table::NextHopKind, table::InterfaceId>, table::NextHopIndex> fixed_;
  Gateways gateways_;
  std::map<table::NextHopIndex, Gateway> by_index_;
  std::map<table::NextHopIndex, Group> groups_;
  std::map<Paths, table::NextHopIndex> group_index_;
  std::set<table::InterfaceId> down_;
  NumberRanges free_;
  /// Numbers that a worker may still have looked up, oldest first.
  struct Retired {
    std::uint64_t moment;
    table::NextHopIndex first;
    std::size_t n;
  };
  std::deque<Retired> retired_;
};

}  // namespace ipoib::route
