// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/route_table.h"

#include <algorithm>
#include <numeric>
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

NextHopKind kind_of(RouteAction action) {
  switch (action) {
    case RouteAction::kBlackhole: return NextHopKind::kBlackhole;
    case RouteAction::kUnreachable: return NextHopKind::kUnreachable;
    case RouteAction::kProhibit: return NextHopKind::kProhibited;
    case RouteAction::kForward: break;
  }
  return NextHopKind::kNone;
}

/// The paths in order, each once, with the smallest weights of the same proportions, so that routes
/// by the same paths share one next hop.
std::vector<RoutePath> merged(std::vector<RoutePath> paths) {
  std::ranges::sort(paths);
  std::vector<RoutePath> once;
  for (const RoutePath& path : paths)
    if (!once.empty() && once.back().iface == path.iface && once.back().via == path.via)
      once.back().weight += path.weight;
    else
      once.push_back(path);
  std::uint32_t divisor = 0;
  for (const RoutePath& path : once) divisor = std::gcd(divisor, path.weight);
  for (RoutePath& path : once) path.weight /= divisor;
  return once;
}

}  // namespace

RouteTable::RouteTable(RouteSink& sink) : sink_{sink}, next_hops_{sink} {}

RouteTable::~RouteTable() {
  // Gateways that are forgotten may be neighbours of this table.
  next_hops_.clear();
  for (const auto& [prefix, route] : routes_) sink_.remove_prefix(prefix);
}

// --- Routes to one prefix ---

/// The sink learns a new next hop before the old one is released, so that no packet is without one.
Status RouteTable::insert(const IpPrefix& prefix, const Route& route) {
  const auto it = routes_.find(prefix);
  if (it != routes_.end() && rank_of(it->second) < rank_of(route)) {
    add_waiting(prefix, route);
    return {};
  }
  if (auto s = sink_.set_prefix(prefix, route.next_hop); !s) return s;
  if (it == routes_.end()) {
    set_in_effect(routes_[prefix], route);
    retry_waiting(prefix);
  } else {
    const Route old = it->second;
    set_in_effect(it->second, route);
    // Routes of addresses are made again when the better one goes.
    if (rank_of(old) != rank_of(route) && old.kind >= RouteKind::kStatic &&
        old.kind != RouteKind::kNetBroadcast)
      add_waiting(prefix, old);
    else
      release(prefix, old);
  }
  update_net_broadcasts(prefix);
  return {};
}

/// Lets a better route take effect that the tables had no room for.
void RouteTable::retry_waiting(const IpPrefix& prefix) {
  const auto it = routes_.find(prefix);
  const Route route = it->second;
  remove_waiting(prefix, rank_of(route));
  const auto waiting = waiting_.find(prefix);
  if (waiting == waiting_.end() || rank_of(route) < rank_of(waiting->second.front())) return;
  if (promote(it)) add_waiting(prefix, route);
}

/// Counts a route that is written to its place among those in effect. A new place has no next hop.
void RouteTable::set_in_effect(Route& slot, const Route& route) {
  if (slot.next_hop != table::kNextHopNone) --in_effect_[static_cast<std::size_t>(slot.kind)];
  ++in_effect_[static_cast<std::size_t>(route.kind)];
  slot = route;
}

/// Removes the route in effect. The best one that waits takes its place.
void RouteTable::withdraw(Routes::iterator it) {
  const auto [prefix, gone] = *it;
  if (!promote(it)) {
    sink_.remove_prefix(prefix);
    --in_effect_[static_cast<std::size_t>(gone.kind)];
    routes_.erase(it);
  }
  release(prefix, gone);
  update_net_broadcasts(prefix);
}

/// False: no route waits, or the tables take none of those.
bool RouteTable::promote(Routes::iterator it) {
  const auto waiting = waiting_.find(it->first);
  if (waiting == waiting_.end()) return false;
  for (auto next = waiting->second.begin(); next != waiting->second.end(); ++next) {
    if (auto s = sink_.set_prefix(it->first, next->next_hop); !s) {
      log(LogArea::kRoute, LogLevel::kErr, "a route to {} cannot take effect: {}",
          wire::to_string(it->first), s.error().what);
      continue;
    }
    set_in_effect(it->second, *next);
    waiting->second.erase(next);
    if (waiting->second.empty()) waiting_.erase(waiting);
    return true;
  }
  return false;
}

void RouteTable::add_waiting(const IpPrefix& prefix, const Route& route) {
  remove_waiting(prefix, rank_of(route));
  auto& routes = waiting_[prefix];
  routes.insert(std::ranges::upper_bound(routes, rank_of(route), {}, rank_of), route);
}

bool RouteTable::remove_waiting(const IpPrefix& prefix, Rank rank) {
  const auto waiting = waiting_.find(prefix);
  if (waiting == waiting_.end()) return false;
  const auto it = std::ranges::find(waiting->second, rank, rank_of);
  if (it == waiting->second.end()) return false;
  release(prefix, *it);
  waiting->second.erase(it);
  if (waiting->second.empty()) waiting_.erase(waiting);
  return true;
}

bool RouteTable::remove_route(const IpPrefix& prefix, Rank rank) {
  const auto it = routes_.find(prefix);
  if (it == routes_.end() || rank_of(it->second) != rank) return remove_waiting(prefix, rank);
  withdraw(it);
  return true;
}

/// The route is in effect no more, and does not wait.
void RouteTable::release(const IpPrefix& prefix, const Route& route) {
  next_hops_.release(route.next_hop);
  if (route.kind == RouteKind::kRedirect) std::erase(redirects_, prefix);
}

const Route* RouteTable::find(const IpPrefix& prefix, Rank rank) const {
  const auto it = routes_.find(prefix);
  if (it != routes_.end() && rank_of(it->second) == rank) return &it->second;
  const auto waiting = waiting_.find(prefix);
  if (waiting == waiting_.end()) return nullptr;
  const auto found = std::ranges::find(waiting->second, rank, rank_of);
  return found != waiting->second.end() ? &*found : nullptr;
}

std::vector<RoutePath> RouteTable::paths(const Route& route) const {
  auto paths = next_hops_.paths_of(route.next_hop);
  const bool is_link = route.kind == RouteKind::kKernel && route.action == RouteAction::kForward;
  if (paths.empty() && is_link) paths.push_back({route.iface});
  return paths;
}

/// True for a route with this gateway only. `route`: null, or a route.
bool RouteTable::leads_to(const Route* route, table::InterfaceId iface, const IpAddr& via) const {
  return route != nullptr && paths(*route) == std::vector{RoutePath{iface, via}};
}

// --- Addresses ---

Status RouteTable::insert_shared(const IpPrefix& prefix, RouteKind kind, NextHopKind hop,
                                 table::InterfaceId iface) {
  const auto index = next_hops_.fixed(NextHop{hop, 0, iface, table::kNoNeighbour});
  if (!index) return tl::make_unexpected(index.error());
  return insert(prefix, Route{kind, RouteAction::kForward, iface, *index});
}

Status RouteTable::add_network(table::InterfaceId iface, const IpPrefix& address) {
  if (address.len >= wire::host_len(address.addr)) return {};
  const IpPrefix net{wire::network(address), address.len};
  if (const auto it = routes_.find(net); it != routes_.end() &&
                                         it->second.kind == RouteKind::kConnected &&
                                         it->second.iface != iface) {
    if (!share(iface, it->second.iface))
      return fail(Errc::kExists, "network {} is connected to two interfaces", wire::to_string(net));
    also_connected_[net].insert(iface);
    return {};
  }

  if (auto s = insert_shared(net, RouteKind::kConnected, NextHopKind::kConnected, iface); !s)
    return s;
  connected_[net] = iface;
  update_net_broadcasts(net);
  if (const auto whole = wire::subnetted_net(net)) update_net_broadcast(*whole);
  return update_broadcasts(net);
}

void RouteTable::remove_network(table::InterfaceId iface, const IpPrefix& address) {
  const IpPrefix net{wire::network(address), address.len};
  const auto others = also_connected_.find(net);
  table::InterfaceId heir = table::kNoInterface;
  if (others != also_connected_.end()) {
    others->second.erase(iface);
    if (!others->second.empty()) heir = *others->second.begin();
  }
  const auto network = connected_.find(net);
  if (network == connected_.end() || network->second != iface) return;
  if (heir != table::kNoInterface) {
    if (auto s = insert_shared(net, RouteKind::kConnected, NextHopKind::kConnected, heir); s) {
      others->second.erase(heir);
      network->second = heir;
      if (auto b = update_broadcasts(net); !b)
        log(LogArea::kRoute, LogLevel::kErr, "a broadcast address is not known: {}",
            b.error().what);
      return;
    }
  }
  connected_.erase(network);
  withdraw(routes_.find(net));
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
    if (it != routes_.end() && it->second.kind == RouteKind::kBroadcast) withdraw(it);
    return {};
  }
  const table::InterfaceId out = addr == *ones ? network->second : table::kNoInterface;
  const auto index =
      next_hops_.fixed(NextHop{NextHopKind::kBroadcast, 0, out, table::kNoNeighbour});
  if (!index) return tl::make_unexpected(index.error());
  return insert(host_prefix(addr),
                Route{RouteKind::kBroadcast, RouteAction::kForward, network->second, *index});
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
  set_in_effect(routes_[host], Route{RouteKind::kNetBroadcast, RouteAction::kForward,
                                     table::kNoInterface, *next_hop});
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
  --in_effect_[static_cast<std::size_t>(RouteKind::kNetBroadcast)];
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
    withdraw(it);
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
  if (is_named && holder != iface && share(holder, iface)) return iface;
  if (is_named && holder != iface)
    return fail(Errc::kInvalidArgument, "gateway {} is not in a network of the route's interface",
                wire::to_string(gateway));
  return holder;
}

bool RouteTable::is_own_or_broadcast(const IpAddr& addr) const {
  const auto it = routes_.find(host_prefix(addr));
  return (it != routes_.end() && it->second.kind == RouteKind::kLocal) || is_broadcast(addr);
}

Result<RoutePath> RouteTable::gateway_at(const IpAddr& addr, table::InterfaceId iface) const {
  const auto towards = interface_towards(addr, iface);
  if (!towards) return tl::make_unexpected(towards.error());
  if (is_own_or_broadcast(addr))
    return fail(Errc::kInvalidArgument,
                "gateway {} is an address of this node or a broadcast address",
                wire::to_string(addr));
  return RoutePath{*towards, addr};
}

// --- Static routes ---

Status RouteTable::check_static(const IpPrefix& net) const {
  const auto it = routes_.find(net);
  const bool is_better = it != routes_.end() && it->second.kind < RouteKind::kStatic;
  if (is_better || find(net, {RouteKind::kStatic, 0}) != nullptr)
    return fail(Errc::kExists, "a route to {} already exists", wire::to_string(net));
  return {};
}

Status RouteTable::add_static(const IpPrefix& to, const std::vector<IpAddr>& via,
                              table::InterfaceId iface) {
  const IpPrefix net{wire::network(to), to.len};
  if (via.empty() || via.size() > kMaxPaths)
    return fail(Errc::kInvalidArgument, "route {}: invalid number of gateways {}, allowed: 1-{}",
                wire::to_string(net), via.size(), kMaxPaths);
  if (auto s = check_static(net); !s) return s;

  std::vector<RoutePath> paths;
  for (const IpAddr& addr : via) {
    const auto gateway = gateway_at(addr, iface);
    if (!gateway) return tl::make_unexpected(gateway.error());
    paths.push_back(*gateway);
  }
  return insert_paths(net, Route{}, paths);
}

Status RouteTable::add_blackhole(const IpPrefix& to) {
  const IpPrefix net{wire::network(to), to.len};
  if (auto s = check_static(net); !s) return s;
  return insert_drop(net, Route{.action = RouteAction::kBlackhole});
}

Status RouteTable::insert_paths(const IpPrefix& net, Route route,
                                const std::vector<RoutePath>& paths) {
  const Route* const old = find(net, rank_of(route));
  const auto next_hop = next_hops_.use(paths, old != nullptr ? old->next_hop : table::kNextHopNone);
  if (!next_hop) return tl::make_unexpected(next_hop.error());
  route.iface = paths.back().iface;
  route.next_hop = *next_hop;
  auto inserted = insert(net, route);
  if (!inserted) next_hops_.release(*next_hop);
  return inserted;
}

/// Inserts a route whose action is not kForward.
Status RouteTable::insert_drop(const IpPrefix& net, Route route) {
  const auto index =
      next_hops_.fixed(NextHop{kind_of(route.action), 0, table::kNoInterface, table::kNoNeighbour});
  if (!index) return tl::make_unexpected(index.error());
  route.next_hop = *index;
  return insert(net, route);
}

Status RouteTable::remove(const IpPrefix& to) {
  const IpPrefix net{wire::network(to), to.len};
  if (remove_route(net, {RouteKind::kStatic, 0})) return {};
  if (routes_.contains(net))
    return fail(Errc::kRefused, "the route to {} is not static and cannot be removed",
                wire::to_string(net));
  return fail(Errc::kNotFound, "no route to {}", wire::to_string(net));
}

// --- Routes of Linux ---

Status RouteTable::check_kernel(const IpPrefix& net, const std::vector<RoutePath>& paths) const {
  if (paths.empty() || paths.size() > kMaxPaths)
    return fail(Errc::kInvalidArgument, "route {}: invalid number of paths {}, allowed: 1-{}",
                wire::to_string(net), paths.size(), kMaxPaths);
  for (const RoutePath& path : paths) {
    if (path.weight == 0 || path.weight > kMaxWeight)
      return fail(Errc::kInvalidArgument, "route {}: invalid weight {} of a path, allowed: 1-{}",
                  wire::to_string(net), path.weight, kMaxWeight);
    if (path.iface == table::kNoInterface)
      return fail(Errc::kInvalidArgument, "route {}: a path without an interface",
                  wire::to_string(net));
    if (!path.via) continue;
    if (path.via->is_v4() && !net.addr.is_v4())
      return fail(Errc::kInvalidArgument, "route {}: gateway {} is not an IPv6 address",
                  wire::to_string(net), wire::to_string(*path.via));
    if (is_own_or_broadcast(*path.via))
      return fail(Errc::kInvalidArgument,
                  "route {}: gateway {} is an address of this node or a broadcast address",
                  wire::to_string(net), wire::to_string(*path.via));
  }
  return {};
}

Status RouteTable::set_kernel(const KernelRoute& kernel) {
  const IpPrefix net{wire::network(kernel.to), kernel.to.len};
  const Route route{.kind = RouteKind::kKernel, .action = kernel.action, .metric = kernel.metric};
  if (kernel.action != RouteAction::kForward) return insert_drop(net, route);
  if (auto s = check_kernel(net, kernel.paths); !s) return s;
  return insert_paths(net, route, merged(kernel.paths));
}

void RouteTable::remove_kernel(const IpPrefix& to, std::uint32_t metric) {
  remove_route({wire::network(to), to.len}, {RouteKind::kKernel, metric});
}

// --- Networks that interfaces share ---

bool RouteTable::share(table::InterfaceId a, table::InterfaceId b) const {
  return std::ranges::any_of(
      sharing_, [&](const Interfaces& all) { return all.contains(a) && all.contains(b); });
}

Status RouteTable::set_proxied(table::InterfaceId iface, const IpAddr& addr) {
  if (is_own_or_broadcast(addr))
    return fail(Errc::kExists, "{} is an address of this node or a broadcast address",
                wire::to_string(addr));
  if (interface_of(addr) == iface) {
    remove_proxied(addr);
    return {};
  }
  const auto index = connected_to(iface);
  if (!index) return tl::make_unexpected(index.error());
  return insert(host_prefix(addr),
                Route{RouteKind::kProxied, RouteAction::kForward, iface, *index});
}

void RouteTable::remove_proxied(const IpAddr& addr) {
  remove_route(host_prefix(addr), {RouteKind::kProxied, 0});
}

// --- Routes of other routers ---

Status RouteTable::add_redirect(table::InterfaceId iface, const IpAddr& to, const IpAddr& via) {
  const IpPrefix host = host_prefix(to);
  if (is_own_or_broadcast(to))
    return fail(Errc::kExists, "a route to {} already exists", wire::to_string(host));
  auto added = insert_paths(host, Route{.kind = RouteKind::kRedirect}, {{iface, via}});
  if (!added) return added;
  redirects_.push_back(host);
  if (redirects_.size() > kMaxRedirects)
    remove_route(IpPrefix{redirects_.front()}, {RouteKind::kRedirect, 0});
  return {};
}

void RouteTable::remove_redirects(table::InterfaceId iface, const IpAddr& via) {
  const auto all = redirects_;
  const Rank rank{RouteKind::kRedirect, 0};
  for (const IpPrefix& host : all)
    if (leads_to(find(host, rank), iface, via)) remove_route(host, rank);
}

Status RouteTable::add_advertised(table::InterfaceId iface, const IpAddr& router) {
  const IpPrefix all{wire::network({router, 0}), 0};
  const Route route{.kind = RouteKind::kAdvertised};
  if (find(all, rank_of(route)) != nullptr)
    return fail(Errc::kExists, "a default route already exists");
  return insert_paths(all, route, {{iface, router}});
}

void RouteTable::remove_advertised(table::InterfaceId iface, const IpAddr& router) {
  const IpPrefix all{wire::network({router, 0}), 0};
  const Rank rank{RouteKind::kAdvertised, 0};
  if (leads_to(find(all, rank), iface, router)) remove_route(all, rank);
}

// --- Neighbours ---

Result<table::NextHopIndex> RouteTable::connected_to(table::InterfaceId iface) {
  return next_hops_.fixed(NextHop{NextHopKind::kConnected, 0, iface, table::kNoNeighbour});
}

Status RouteTable::add_neighbour(table::InterfaceId iface, const IpAddr& addr,
                                 table::NeighbourIndex neighbour) {
  const auto via = connected_to(iface);
  if (!via) return tl::make_unexpected(via.error());
  if (is_own_or_broadcast(addr) || (interface_of(addr) != iface && !is_on_link(addr, *via)))
    return fail(Errc::kNotFound, "{} is no host of a network of the interface",
                wire::to_string(addr));
  return sink_.add_neighbour(addr, *via, neighbour);
}

/// True if the longest route to the address has this next hop.
bool RouteTable::is_on_link(const IpAddr& addr, table::NextHopIndex connected) const {
  for (auto len = wire::host_len(addr); len > 0; --len)
    if (const auto it = routes_.find({wire::network({addr, len}), len}); it != routes_.end())
      return it->second.next_hop == connected;
  return false;
}

void RouteTable::remove_neighbour(table::InterfaceId iface, const IpAddr& addr) {
  if (const auto via = connected_to(iface)) sink_.remove_neighbour(addr, *via);
}

}  // namespace ipoib::route
