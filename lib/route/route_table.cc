#include "lib/route/route_table.h"

#include <algorithm>

namespace ipoib::route {

using table::NextHop;
using table::NextHopIndex;
using table::NextHopKind;
using wire::IpAddr;
using wire::IpPrefix;

RouteTable::RouteTable(RouteSink& sink) : sink_{sink}, used_(table::kMaxNextHops, false) {
  used_[table::kNextHopNone] = true;
}

RouteTable::~RouteTable() {
  for (const auto& [prefix, route] : routes_) {
    sink_.remove_prefix(prefix);
    release_gateways(route);
  }
}

Result<NextHopIndex> RouteTable::allocate(std::size_t n) {
  const auto it = std::search_n(used_.begin(), used_.end(), static_cast<std::ptrdiff_t>(n), false);
  if (it == used_.end())
    return fail(Errc::kNoResources, "all {} next hops are in use", used_.size());
  std::fill_n(it, n, true);
  return static_cast<NextHopIndex>(it - used_.begin());
}

void RouteTable::free(NextHopIndex first, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    sink_.set_next_hop(first + static_cast<NextHopIndex>(i), NextHop{});
    used_[first + i] = false;
  }
}

Result<NextHopIndex> RouteTable::shared(const NextHop& hop) {
  const auto key = std::pair{hop.kind, hop.iface};
  if (const auto it = shared_.find(key); it != shared_.end()) return it->second;
  const auto index = allocate(1);
  if (!index) return index;
  sink_.set_next_hop(*index, hop);
  shared_.emplace(key, *index);
  return *index;
}

Status RouteTable::insert(const IpPrefix& prefix, Route route) {
  if (auto s = sink_.set_prefix(prefix, route.next_hop); !s) return s;
  routes_.insert_or_assign(prefix, std::move(route));
  return {};
}

Status RouteTable::add_address(table::InterfaceId iface, const IpPrefix& address) {
  const std::uint8_t host_len = address.addr.is_v4() ? 32 : 128;
  const IpPrefix host{address.addr, host_len};
  const IpPrefix net{wire::network(address), address.len};
  if (const auto it = routes_.find(host);
      it != routes_.end() && it->second.kind == RouteKind::kLocal)
    return fail(Errc::kExists, "address {} is in use twice", wire::to_string(address.addr));
  if (const auto it = routes_.find(net);
      it != routes_.end() && it->second.kind == RouteKind::kConnected && it->second.iface != iface)
    return fail(Errc::kExists, "network {} is connected to two interfaces", wire::to_string(net));

  struct Entry {
    IpPrefix prefix;
    RouteKind kind;
    NextHopKind hop;
  };
  std::vector<Entry> entries;
  if (address.len < host_len)
    entries.push_back({net, RouteKind::kConnected, NextHopKind::kConnected});
  if (const auto broadcast = wire::directed_broadcast(address)) {
    entries.push_back({{*broadcast, host_len}, RouteKind::kBroadcast, NextHopKind::kBroadcast});
    entries.push_back({{net.addr, host_len}, RouteKind::kBroadcast, NextHopKind::kBroadcast});
  }
  entries.push_back({host, RouteKind::kLocal, NextHopKind::kLocal});
  for (const Entry& e : entries) {
    const auto index = shared(NextHop{e.hop, 0, iface, table::kNoNeighbour});
    if (!index) return tl::make_unexpected(index.error());
    if (auto s = insert(e.prefix, Route{e.kind, iface, {}, *index}); !s) return s;
  }
  return {};
}

table::InterfaceId RouteTable::interface_of(const IpAddr& addr) const {
  table::InterfaceId found = table::kNoInterface;
  int longest = -1;
  for (const auto& [prefix, route] : routes_) {
    if (route.kind != RouteKind::kConnected || int{prefix.len} <= longest) continue;
    if (!wire::contains(prefix, addr)) continue;
    found = route.iface;
    longest = prefix.len;
  }
  return found;
}

Result<NextHop> RouteTable::gateway_hop(const IpAddr& addr) {
  const auto iface = interface_of(addr);
  if (iface == table::kNoInterface)
    return fail(Errc::kInvalidArgument, "gateway {} is in no connected network",
                wire::to_string(addr));
  const IpPrefix host{addr, static_cast<std::uint8_t>(addr.is_v4() ? 32 : 128)};
  if (const auto it = routes_.find(host); it != routes_.end() &&
                                          it->second.kind != RouteKind::kStatic &&
                                          it->second.kind != RouteKind::kBlackhole)
    return fail(Errc::kInvalidArgument, "gateway {} is an own or a broadcast address",
                wire::to_string(addr));
  const auto neighbour = sink_.use_gateway(iface, addr);
  if (!neighbour) return tl::make_unexpected(neighbour.error());
  ++gateway_uses_[{iface, addr}];
  return NextHop{NextHopKind::kGateway, 0, iface, *neighbour};
}

void RouteTable::release_gateways(const Route& route) {
  for (const IpAddr& addr : route.via) {
    const auto it = gateway_uses_.find({interface_of(addr), addr});
    if (it == gateway_uses_.end() || --it->second != 0) continue;
    sink_.forget_gateway(it->first.first, addr);
    gateway_uses_.erase(it);
  }
}

Status RouteTable::add_static(const IpPrefix& to, const std::vector<IpAddr>& via) {
  const IpPrefix net{wire::network(to), to.len};
  if (via.empty() || via.size() > kMaxPaths)
    return fail(Errc::kInvalidArgument, "route {}: {} gateways, 1 to {} are allowed",
                wire::to_string(net), via.size(), kMaxPaths);
  if (routes_.contains(net))
    return fail(Errc::kExists, "there is a route to {} already", wire::to_string(net));

  // Slots: one for a single path; for several, a group that names the run of paths behind it.
  const std::size_t slots = via.size() == 1 ? 1 : via.size() + 1;
  const auto first = allocate(slots);
  if (!first) return tl::make_unexpected(first.error());
  Route route{RouteKind::kStatic, table::kNoInterface, {}, *first};
  const auto undo = [&](const Error& e) -> Status {
    release_gateways(route);
    free(*first, slots);
    return tl::make_unexpected(e);
  };
  for (const IpAddr& addr : via) {
    const auto hop = gateway_hop(addr);
    if (!hop) return undo(hop.error());
    route.via.push_back(addr);
    route.iface = hop->iface;
    sink_.set_next_hop(*first + static_cast<NextHopIndex>(via.size() == 1 ? 0 : route.via.size()),
                       *hop);
  }
  if (via.size() > 1)
    sink_.set_next_hop(*first, NextHop{NextHopKind::kGroup, static_cast<std::uint8_t>(via.size()),
                                       table::kNoInterface, *first + 1});
  if (auto s = insert(net, route); !s) return undo(s.error());
  return {};
}

Status RouteTable::add_blackhole(const IpPrefix& to) {
  const IpPrefix net{wire::network(to), to.len};
  if (routes_.contains(net))
    return fail(Errc::kExists, "there is a route to {} already", wire::to_string(net));
  const auto index =
      shared(NextHop{NextHopKind::kBlackhole, 0, table::kNoInterface, table::kNoNeighbour});
  if (!index) return tl::make_unexpected(index.error());
  return insert(net, Route{RouteKind::kBlackhole, table::kNoInterface, {}, *index});
}

Status RouteTable::remove(const IpPrefix& to) {
  const IpPrefix net{wire::network(to), to.len};
  const auto it = routes_.find(net);
  if (it == routes_.end()) return fail(Errc::kNotFound, "no route to {}", wire::to_string(net));
  const Route route = it->second;
  if (route.kind != RouteKind::kStatic && route.kind != RouteKind::kBlackhole)
    return fail(Errc::kRefused, "the route to {} belongs to an address of an interface",
                wire::to_string(net));
  sink_.remove_prefix(net);
  routes_.erase(it);
  if (route.kind == RouteKind::kStatic) {
    free(route.next_hop, route.via.size() == 1 ? 1 : route.via.size() + 1);
    release_gateways(route);
  }
  return {};
}

}  // namespace ipoib::route
