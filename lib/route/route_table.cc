#include "lib/route/route_table.h"

#include <algorithm>

namespace ipoib::route {

using table::NextHop;
using table::NextHopIndex;
using table::NextHopKind;
using wire::IpAddr;
using wire::IpPrefix;

namespace {

std::uint8_t host_len(const IpAddr& addr) {
  return addr.is_v4() ? 32 : 128;
}
IpPrefix host_prefix(const IpAddr& addr) {
  return {addr, host_len(addr)};
}

/// Addresses by which packets reach this node because it has `address`.
std::vector<IpPrefix> locals_of(const IpPrefix& address) {
  std::vector<IpPrefix> locals{host_prefix(address.addr)};
  // Networks of two have no room for an address of any router (RFC 6164).
  if (!address.addr.is_v4() && address.len < 127 && wire::network(address) != address.addr)
    locals.push_back(host_prefix(wire::network(address)));
  return locals;
}

}  // namespace

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

Status RouteTable::insert_shared(const IpPrefix& prefix, RouteKind kind, NextHopKind hop,
                                 table::InterfaceId iface) {
  const auto index = shared(NextHop{hop, 0, iface, table::kNoNeighbour});
  if (!index) return tl::make_unexpected(index.error());
  return insert(prefix, Route{kind, iface, {}, *index});
}

Status RouteTable::add_network(table::InterfaceId iface, const IpPrefix& address) {
  if (address.len >= host_len(address.addr)) return {};
  const IpPrefix net{wire::network(address), address.len};
  if (const auto it = routes_.find(net);
      it != routes_.end() && it->second.kind == RouteKind::kConnected && it->second.iface != iface)
    return fail(Errc::kExists, "network {} is connected to two interfaces", wire::to_string(net));

  if (auto s = insert_shared(net, RouteKind::kConnected, NextHopKind::kConnected, iface); !s)
    return s;
  const auto broadcast = wire::directed_broadcast(address);
  if (!broadcast) return {};
  for (const IpAddr& addr : {*broadcast, net.addr})
    if (auto s =
            insert_shared(host_prefix(addr), RouteKind::kBroadcast, NextHopKind::kBroadcast, iface);
        !s)
      return s;
  return {};
}

Status RouteTable::add_local(table::InterfaceId iface, const IpPrefix& address) {
  const auto locals = locals_of(address);
  if (const auto it = routes_.find(locals.front());
      it != routes_.end() && it->second.kind == RouteKind::kLocal && it->second.iface != iface)
    return fail(Errc::kExists, "address {} is in use twice", wire::to_string(address.addr));
  for (const IpPrefix& host : locals)
    if (auto s = insert_shared(host, RouteKind::kLocal, NextHopKind::kLocal, iface); !s) return s;
  return {};
}

void RouteTable::remove_local(table::InterfaceId iface, const IpPrefix& address) {
  for (const IpPrefix& host : locals_of(address)) {
    const auto it = routes_.find(host);
    if (it == routes_.end() || it->second.kind != RouteKind::kLocal || it->second.iface != iface)
      continue;
    sink_.remove_prefix(host);
    routes_.erase(it);
  }
}

Status RouteTable::add_address(table::InterfaceId iface, const IpPrefix& address) {
  if (const auto it = routes_.find(host_prefix(address.addr));
      it != routes_.end() && it->second.kind == RouteKind::kLocal)
    return fail(Errc::kExists, "address {} is in use twice", wire::to_string(address.addr));
  if (auto s = add_network(iface, address); !s) return s;
  return add_local(iface, address);
}

table::InterfaceId RouteTable::interface_of(const IpAddr& addr) const {
  for (int len = host_len(addr); len >= 0; --len) {
    const IpPrefix longest{addr, static_cast<std::uint8_t>(len)};
    const auto it = routes_.find({wire::network(longest), longest.len});
    if (it != routes_.end() && it->second.kind == RouteKind::kConnected) return it->second.iface;
  }
  return table::kNoInterface;
}

Result<NextHop> RouteTable::gateway_hop(const IpAddr& addr) {
  const auto iface = interface_of(addr);
  if (iface == table::kNoInterface)
    return fail(Errc::kInvalidArgument, "gateway {} is in no connected network",
                wire::to_string(addr));
  if (const auto it = routes_.find(host_prefix(addr));
      it != routes_.end() &&
      (it->second.kind == RouteKind::kLocal || it->second.kind == RouteKind::kBroadcast))
    return fail(Errc::kInvalidArgument, "gateway {} is an own or a broadcast address",
                wire::to_string(addr));
  return gateway_hop_on(iface, addr);
}

Result<NextHop> RouteTable::gateway_hop_on(table::InterfaceId iface, const IpAddr& addr) {
  const auto neighbour = sink_.use_gateway(iface, addr);
  if (!neighbour) return tl::make_unexpected(neighbour.error());
  ++gateway_uses_[{iface, addr}];
  return NextHop{NextHopKind::kGateway, 0, iface, *neighbour};
}

void RouteTable::release_gateways(const Route& route) {
  for (const IpAddr& addr : route.via) {
    // A link-local gateway is in no connected network; of a redirect, the route tells where.
    const auto connected = interface_of(addr);
    const auto it =
        gateway_uses_.find({connected != table::kNoInterface ? connected : route.iface, addr});
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

Status RouteTable::add_learned(RouteKind kind, const IpPrefix& to, table::InterfaceId iface,
                               const IpAddr& via) {
  const auto hop = gateway_hop_on(iface, via);
  if (!hop) return tl::make_unexpected(hop.error());
  Route route{kind, iface, {via}, table::kNextHopNone};
  const auto index = allocate(1);
  if (!index) {
    release_gateways(route);
    return tl::make_unexpected(index.error());
  }
  route.next_hop = *index;
  sink_.set_next_hop(*index, *hop);
  auto inserted = insert(to, route);
  if (!inserted) {
    free(*index, 1);
    release_gateways(route);
  }
  return inserted;
}

Status RouteTable::add_redirect(table::InterfaceId iface, const IpAddr& to, const IpAddr& via) {
  const IpPrefix host = host_prefix(to);
  if (const auto it = routes_.find(host); it != routes_.end()) {
    if (it->second.kind != RouteKind::kRedirect)
      return fail(Errc::kExists, "there is a route to {} already", wire::to_string(host));
    if (auto s = remove(host); !s) return s;
  }
  while (redirects_.size() >= kMaxRedirects)
    if (auto s = remove(redirects_.front()); !s) return s;
  auto added = add_learned(RouteKind::kRedirect, host, iface, via);
  if (added) redirects_.push_back(host);
  return added;
}

void RouteTable::remove_redirects(table::InterfaceId iface, const IpAddr& via) {
  const auto all = redirects_;
  for (const IpPrefix& host : all) {
    const auto it = routes_.find(host);
    if (it == routes_.end() || it->second.kind != RouteKind::kRedirect) continue;
    if (it->second.iface == iface && it->second.via.front() == via) static_cast<void>(remove(host));
  }
}

Status RouteTable::add_advertised(table::InterfaceId iface, const IpAddr& router) {
  const IpPrefix all{wire::network({router, 0}), 0};
  if (routes_.contains(all)) return fail(Errc::kExists, "there is a default route already");
  return add_learned(RouteKind::kAdvertised, all, iface, router);
}

Status RouteTable::remove_advertised(table::InterfaceId iface, const IpAddr& router) {
  const IpPrefix all{wire::network({router, 0}), 0};
  const auto it = routes_.find(all);
  if (it == routes_.end() || it->second.kind != RouteKind::kAdvertised ||
      it->second.iface != iface || it->second.via.front() != router)
    return {};
  return remove(all);
}

Status RouteTable::remove(const IpPrefix& to) {
  const IpPrefix net{wire::network(to), to.len};
  const auto it = routes_.find(net);
  if (it == routes_.end()) return fail(Errc::kNotFound, "no route to {}", wire::to_string(net));
  const Route route = it->second;
  if (route.kind == RouteKind::kLocal || route.kind == RouteKind::kBroadcast ||
      route.kind == RouteKind::kConnected)
    return fail(Errc::kRefused, "the route to {} belongs to an address of an interface",
                wire::to_string(net));
  sink_.remove_prefix(net);
  routes_.erase(it);
  std::erase(redirects_, net);
  if (!route.via.empty()) {
    free(route.next_hop, route.via.size() == 1 ? 1 : route.via.size() + 1);
    release_gateways(route);
  }
  return {};
}

}  // namespace ipoib::route
