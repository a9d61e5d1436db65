// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/route_table.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/wire/ip_prefix.h"
#include "lib/wire/subnet_anycast.h"

namespace ipoib::route {

using table::NextHop;
using table::NextHopKind;
using wire::host_prefix;
using wire::IpAddr;
using wire::IpPrefix;

namespace {

/// Addresses whose packets this node accepts because it has `address`.
std::vector<IpPrefix> locals_of(const IpPrefix& address) {
  std::vector<IpPrefix> locals{host_prefix(address.addr)};
  if (const auto anycast = wire::subnet_router_anycast(address))
    locals.push_back(host_prefix(*anycast));
  return locals;
}

}  // namespace

RouteTable::RouteTable(RouteSink& sink) : sink_{sink}, next_hops_{sink} {}

RouteTable::~RouteTable() {
  // Gateways that are forgotten may be neighbours of this table.
  next_hops_.clear();
  for (const auto& [prefix, route] : routes_) sink_.remove_prefix(prefix);
}

Status RouteTable::insert(const IpPrefix& prefix, Route route) {
  if (auto s = sink_.set_prefix(prefix, route.next_hop); !s) return s;
  const auto [it, is_new] = routes_.try_emplace(prefix);
  if (!is_new) {
    next_hops_.release(it->second.next_hop);
    if (it->second.kind == RouteKind::kRedirect) std::erase(redirects_, prefix);
  }
  it->second = std::move(route);
  update_net_broadcasts(prefix);
  return {};
}

void RouteTable::erase(Routes::const_iterator it) {
  const IpPrefix prefix = it->first;
  sink_.remove_prefix(prefix);
  routes_.erase(it);
  update_net_broadcasts(prefix);
}

Status RouteTable::insert_shared(const IpPrefix& prefix, RouteKind kind, NextHopKind hop,
                                 table::InterfaceId iface) {
  const auto index = next_hops_.fixed(NextHop{hop, 0, iface, table::kNoNeighbour});
  if (!index) return tl::make_unexpected(index.error());
  return insert(prefix, Route{kind, iface, {}, *index});
}

Status RouteTable::add_network(table::InterfaceId iface, const IpPrefix& address) {
  if (address.len >= wire::host_len(address.addr)) return {};
  const IpPrefix net{wire::network(address), address.len};
  if (const auto it = routes_.find(net);
      it != routes_.end() && it->second.kind == RouteKind::kConnected && it->second.iface != iface)
    return fail(Errc::kExists, "network {} is connected to two interfaces", wire::to_string(net));

  if (auto s = insert_shared(net, RouteKind::kConnected, NextHopKind::kConnected, iface); !s)
    return s;
  connected_[net] = iface;
  update_net_broadcasts(net);
  if (const auto whole = wire::subnetted_net(net)) update_net_broadcast(*whole);
  return update_broadcasts(net);
}

void RouteTable::remove_network(table::InterfaceId iface, const IpPrefix& address) {
  const IpPrefix net{wire::network(address), address.len};
  const auto network = connected_.find(net);
  if (network == connected_.end() || network->second != iface) return;
  connected_.erase(network);
  erase(routes_.find(net));
  if (auto s = update_broadcasts(net); !s)
    log(LogArea::kRoute, LogLevel::kErr, "a broadcast address is not known: {}", s.error().what);
  if (const auto whole = wire::subnetted_net(net)) update_net_broadcast(*whole);
}

/// The two addresses of the network that may be broadcast addresses: its own, or those of larger
/// networks. No other address in it is one of a larger network.
Status RouteTable::update_broadcasts(const IpPrefix& network) {
  if (!network.addr.is_v4()) return {};
  const std::uint32_t hosts = network.len < 32 ? ~std::uint32_t{0} >> network.len : 0;
  auto s = update_broadcast(IpAddr::v4(network.addr.v4_host() | hosts));
  return s ? update_broadcast(network.addr) : s;
}

/// An own address, and then the longest connected network, decide about an address. Directed
/// broadcasts leave for all ones behind the prefix only.
Status RouteTable::update_broadcast(const IpAddr& addr) {
  const auto it = routes_.find(host_prefix(addr));
  if (it != routes_.end() && it->second.kind == RouteKind::kLocal) return {};
  const auto network = longest_network(addr);
  const auto ones =
      network != connected_.end() ? wire::directed_broadcast(network->first) : std::nullopt;
  if (!ones || (addr != *ones && addr != network->first.addr)) {
    if (it != routes_.end() && it->second.kind == RouteKind::kBroadcast) erase(it);
    return {};
  }
  const table::InterfaceId out = addr == *ones ? network->second : table::kNoInterface;
  const auto index =
      next_hops_.fixed(NextHop{NextHopKind::kBroadcast, 0, out, table::kNoNeighbour});
  if (!index) return tl::make_unexpected(index.error());
  return insert(host_prefix(addr), Route{RouteKind::kBroadcast, network->second, {}, *index});
}

/// True if a connected network, or a route to a part of the net, has the net's broadcast address:
/// there it may be a host's, or mean other hosts.
bool RouteTable::is_of_a_part(const IpAddr& broadcast, const IpPrefix& net) const {
  if (interface_of(broadcast) != table::kNoInterface) return true;
  for (auto len = wire::host_len(broadcast); len > net.len; --len) {
    const auto it = routes_.find({wire::network({broadcast, len}), len});
    if (it != routes_.end() && it->second.kind != RouteKind::kNetBroadcast) return true;
  }
  return false;
}

/// The interfaces that broadcasts to all subnets of the net may leave by.
RouteTable::Interfaces RouteTable::broadcast_interfaces(const IpPrefix& net) const {
  Interfaces found;
  if (is_of_a_part(*wire::directed_broadcast(net), net)) return found;
  for (const auto& [network, iface] : connected_)
    if (all_subnets_.contains(iface) && wire::subnetted_net(network) == net) found.insert(iface);
  return found;
}

/// Adds the route to the broadcast address of the net, or replaces that route.
Result<table::NextHopIndex> RouteTable::set_net_broadcast(const IpPrefix& host,
                                                          const Interfaces& interfaces) {
  auto next_hop = next_hops_.use_broadcast(interfaces);
  if (!next_hop) return next_hop;
  if (auto s = sink_.set_prefix(host, *next_hop); !s) {
    next_hops_.release_broadcast(*next_hop, interfaces.size());
    return tl::make_unexpected(s.error());
  }
  routes_.insert_or_assign(host,
                           Route{RouteKind::kNetBroadcast, table::kNoInterface, {}, *next_hop});
  return next_hop;
}

/// Adds, changes or removes the broadcast address of the net. Without room for it, its packets follow
/// the other routes.
void RouteTable::update_net_broadcast(const IpPrefix& net) {
  const auto it = nets_.find(net);
  const Net old = it != nets_.end() ? it->second : Net{};
  Interfaces interfaces = broadcast_interfaces(net);
  if (interfaces == old.interfaces) return;
  const IpPrefix host = host_prefix(*wire::directed_broadcast(net));
  Result<table::NextHopIndex> next_hop = table::kNextHopNone;
  if (!interfaces.empty()) next_hop = set_net_broadcast(host, interfaces);
  if (!next_hop)
    log(LogArea::kRoute, LogLevel::kErr, "broadcasts to all subnets of {} are not known: {}",
        wire::to_string(net), next_hop.error().what);
  if (next_hop && !interfaces.empty())
    nets_[net] = Net{std::move(interfaces), *next_hop};
  else
    remove_net_broadcast(net, host);
  if (!old.interfaces.empty()) next_hops_.release_broadcast(old.next_hop, old.interfaces.size());
}

/// A configured route may have replaced that to the broadcast address.
void RouteTable::remove_net_broadcast(const IpPrefix& net, const IpPrefix& host) {
  nets_.erase(net);
  const auto it = routes_.find(host);
  if (it == routes_.end() || it->second.kind != RouteKind::kNetBroadcast) return;
  sink_.remove_prefix(host);
  routes_.erase(it);
}

/// A route to the prefix was added or removed.
void RouteTable::update_net_broadcasts(const IpPrefix& changed) {
  if (all_subnets_.empty() && nets_.empty()) return;
  std::set<IpPrefix> nets;
  for (const auto& [network, iface] : connected_)
    if (const auto net = wire::subnetted_net(network);
        net && wire::contains(changed, *wire::directed_broadcast(*net)))
      nets.insert(*net);
  for (const IpPrefix& net : nets) update_net_broadcast(net);
}

void RouteTable::set_all_subnets(table::InterfaceId iface, bool on) {
  if (on ? all_subnets_.insert(iface).second : all_subnets_.erase(iface) != 0)
    update_net_broadcasts({IpAddr::v4(0), 0});
}

bool RouteTable::is_broadcast(const IpAddr& addr) const {
  const auto it = routes_.find(host_prefix(addr));
  return it != routes_.end() &&
         (it->second.kind == RouteKind::kBroadcast || it->second.kind == RouteKind::kNetBroadcast);
}

Status RouteTable::add_local(table::InterfaceId iface, const IpPrefix& address) {
  return set_local(iface, address, NextHopKind::kLocal);
}

Status RouteTable::suspend_local(table::InterfaceId iface, const IpPrefix& address) {
  return set_local(iface, address, NextHopKind::kLocalDown);
}

Status RouteTable::set_local(table::InterfaceId iface, const IpPrefix& address, NextHopKind hop) {
  const auto locals = locals_of(address);
  if (const auto it = routes_.find(locals.front());
      it != routes_.end() && it->second.kind == RouteKind::kLocal && it->second.iface != iface)
    return fail(Errc::kExists, "address {} is in use twice", wire::to_string(address.addr));
  for (const IpPrefix& host : locals) {
    // The address of any router on a network may be that of another interface, too.
    const auto it = routes_.find(host);
    const bool shared =
        it != routes_.end() && it->second.kind == RouteKind::kLocal && it->second.iface != iface;
    if (shared) continue;
    if (auto s = insert_shared(host, RouteKind::kLocal, hop, iface); !s) return s;
  }
  return {};
}

void RouteTable::remove_local(table::InterfaceId iface, const IpPrefix& address) {
  for (const IpPrefix& host : locals_of(address)) {
    const auto it = routes_.find(host);
    if (it == routes_.end() || it->second.kind != RouteKind::kLocal || it->second.iface != iface)
      continue;
    erase(it);
    if (auto s = update_broadcasts(host); !s)
      log(LogArea::kRoute, LogLevel::kErr, "a broadcast address is not known: {}", s.error().what);
  }
}

Status RouteTable::add_address(table::InterfaceId iface, const IpPrefix& address) {
  if (const auto it = routes_.find(host_prefix(address.addr));
      it != routes_.end() && it->second.kind == RouteKind::kLocal)
    return fail(Errc::kExists, "address {} is in use twice", wire::to_string(address.addr));
  if (auto s = add_network(iface, address); !s) return s;
  return add_local(iface, address);
}

RouteTable::Networks::const_iterator RouteTable::longest_network(const IpAddr& addr) const {
  auto longest = connected_.end();
  for (auto it = connected_.begin(); it != connected_.end(); ++it)
    if (wire::contains(it->first, addr) &&
        (longest == connected_.end() || it->first.len > longest->first.len))
      longest = it;
  return longest;
}

table::InterfaceId RouteTable::interface_of(const IpAddr& addr) const {
  const auto longest = longest_network(addr);
  return longest != connected_.end() ? longest->second : table::kNoInterface;
}

/// `iface`: the one that the route names, or kNoInterface.
Result<table::InterfaceId> RouteTable::interface_towards(const IpAddr& gateway,
                                                         table::InterfaceId iface) const {
  const bool is_named = iface != table::kNoInterface;
  if (wire::is_link_local6(gateway)) {
    if (is_named) return iface;
    return fail(Errc::kInvalidArgument,
                "gateway {} is link-local: the route must name its interface",
                wire::to_string(gateway));
  }
  const auto holder = interface_of(gateway);
  if (holder == table::kNoInterface)
    return fail(Errc::kInvalidArgument, "gateway {} is not in a connected network",
                wire::to_string(gateway));
  if (is_named && holder != iface)
    return fail(Errc::kInvalidArgument, "gateway {} is not in a network of the route's interface",
                wire::to_string(gateway));
  return holder;
}

Result<NextHops::Gateway> RouteTable::gateway_at(const IpAddr& addr,
                                                 table::InterfaceId iface) const {
  const auto towards = interface_towards(addr, iface);
  if (!towards) return tl::make_unexpected(towards.error());
  if (const auto it = routes_.find(host_prefix(addr));
      it != routes_.end() &&
      (it->second.kind == RouteKind::kLocal || it->second.kind == RouteKind::kBroadcast))
    return fail(Errc::kInvalidArgument,
                "gateway {} is an address of this node or a broadcast address",
                wire::to_string(addr));
  return NextHops::Gateway{*towards, addr};
}

/// True if a route to the prefix keeps a configured one out.
bool RouteTable::is_taken(const IpPrefix& prefix) const {
  const auto it = routes_.find(prefix);
  return it != routes_.end() && it->second.kind != RouteKind::kNetBroadcast;
}

Status RouteTable::add_static(const IpPrefix& to, const std::vector<IpAddr>& via,
                              table::InterfaceId iface) {
  const IpPrefix net{wire::network(to), to.len};
  if (via.empty() || via.size() > kMaxPaths)
    return fail(Errc::kInvalidArgument, "route {}: invalid number of gateways {}, allowed: 1-{}",
                wire::to_string(net), via.size(), kMaxPaths);
  if (is_taken(net))
    return fail(Errc::kExists, "a route to {} already exists", wire::to_string(net));

  std::vector<NextHops::Gateway> gateways;
  for (const IpAddr& addr : via) {
    const auto gateway = gateway_at(addr, iface);
    if (!gateway) return tl::make_unexpected(gateway.error());
    gateways.push_back(*gateway);
  }
  return insert_via(net, RouteKind::kStatic, gateways);
}

Status RouteTable::insert_via(const IpPrefix& net, RouteKind kind,
                              const std::vector<NextHops::Gateway>& gateways) {
  NextHops::Paths paths;
  for (const auto& gateway : gateways) paths.push_back({gateway.first, gateway.second});
  const auto next_hop = next_hops_.use(paths);
  if (!next_hop) return tl::make_unexpected(next_hop.error());
  Route route{kind, gateways.back().first, {}, *next_hop};
  for (const auto& gateway : gateways) route.via.push_back(gateway.second);
  auto inserted = insert(net, std::move(route));
  if (!inserted) next_hops_.release(*next_hop);
  return inserted;
}

Status RouteTable::add_blackhole(const IpPrefix& to) {
  const IpPrefix net{wire::network(to), to.len};
  if (is_taken(net))
    return fail(Errc::kExists, "a route to {} already exists", wire::to_string(net));
  const auto index = next_hops_.fixed(
      NextHop{NextHopKind::kBlackhole, 0, table::kNoInterface, table::kNoNeighbour});
  if (!index) return tl::make_unexpected(index.error());
  return insert(net, Route{RouteKind::kBlackhole, table::kNoInterface, {}, *index});
}

Status RouteTable::add_redirect(table::InterfaceId iface, const IpAddr& to, const IpAddr& via) {
  const IpPrefix host = host_prefix(to);
  if (const auto it = routes_.find(host); it != routes_.end()) {
    if (it->second.kind != RouteKind::kRedirect)
      return fail(Errc::kExists, "a route to {} already exists", wire::to_string(host));
    if (auto s = remove(host); !s) return s;
  }
  while (redirects_.size() >= kMaxRedirects)
    if (auto s = remove(redirects_.front()); !s) return s;
  auto added = insert_via(host, RouteKind::kRedirect, {{iface, via}});
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
  if (routes_.contains(all)) return fail(Errc::kExists, "a default route already exists");
  return insert_via(all, RouteKind::kAdvertised, {{iface, router}});
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
      route.kind == RouteKind::kNetBroadcast || route.kind == RouteKind::kConnected)
    return fail(Errc::kRefused, "the route to {} is a connected route and cannot be removed",
                wire::to_string(net));
  erase(it);
  if (route.kind == RouteKind::kRedirect) std::erase(redirects_, net);
  next_hops_.release(route.next_hop);
  return {};
}

Result<table::NextHopIndex> RouteTable::connected_to(table::InterfaceId iface) {
  return next_hops_.fixed(NextHop{NextHopKind::kConnected, 0, iface, table::kNoNeighbour});
}

Status RouteTable::add_neighbour(table::InterfaceId iface, const IpAddr& addr,
                                 table::NeighbourIndex neighbour) {
  const auto host = routes_.find(host_prefix(addr));
  const bool is_host = host == routes_.end() || (host->second.kind != RouteKind::kLocal &&
                                                 host->second.kind != RouteKind::kBroadcast);
  if (!is_host || interface_of(addr) != iface)
    return fail(Errc::kNotFound, "{} is no host of a network of the interface",
                wire::to_string(addr));
  return connected_to(iface).and_then(
      [&](table::NextHopIndex via) { return sink_.add_neighbour(addr, via, neighbour); });
}

void RouteTable::remove_neighbour(table::InterfaceId iface, const IpAddr& addr) {
  if (const auto via = connected_to(iface)) sink_.remove_neighbour(addr, *via);
}

}  // namespace ipoib::route
