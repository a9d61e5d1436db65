// SPDX-License-Identifier: BSD-3-Clause
// Routes by prefix: own addresses, connected networks, static routes, those of Linux, of redirects
// and of routers that advertise themselves. The best to a prefix is in effect; the others hold their
// next hops and take its place, in order, when it goes. RouteSink writes the results to the tables
// that workers read. Source: RFC 1812 §5.2.4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/route/next_hops.h"
#include "lib/route/route_sink.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// The source of a route. The best route to a prefix is in effect: the first kind has preference,
/// and of kernel routes the one with the lowest metric.
enum class RouteKind : std::uint8_t {
  kLocal,
  kBroadcast,
  kConnected,
  kStatic,
  kKernel,        ///< See RouteTable::set_kernel().
  kProxied,       ///< Host of a network that interfaces share: see RouteTable::share_networks().
  kRedirect,      ///< Host route from a router's redirect (RFC 4861 §8).
  kAdvertised,    ///< Default route of a router that advertised itself (RFC 4861 §6.3.4).
  kNetBroadcast,  ///< Broadcast address of a classful net: see RouteTable::set_all_subnets().
};
inline constexpr std::size_t kRouteKinds = 9;

/// Fate of packets that have the route.
enum class RouteAction : std::uint8_t {
  kForward,
  kBlackhole,    ///< Dropped silently.
  kUnreachable,  ///< Dropped; their sender gets an ICMP error.
  kProhibit,     ///< Dropped; the ICMP error says that an administrator wants it.
};

/// A route of Linux's, or of a daemon that writes its routes there.
struct KernelRoute {
  wire::IpPrefix to;
  std::uint32_t metric = 0;
  RouteAction action = RouteAction::kForward;
  std::vector<RoutePath> paths{};  ///< kForward.
};

struct Route {
  RouteKind kind = RouteKind::kStatic;
  RouteAction action = RouteAction::kForward;
  /// That of the address, or of the last path. None: kNetBroadcast, and routes that drop.
  table::InterfaceId iface = table::kNoInterface;
  table::NextHopIndex next_hop = table::kNextHopNone;
  std::uint32_t metric = 0;  ///< kKernel.
};

class RouteTable {
 public:
  explicit RouteTable(RouteSink& sink);
  ~RouteTable();
  RouteTable(const RouteTable&) = delete;
  RouteTable& operator=(const RouteTable&) = delete;

  /// Adds the network of an address and its broadcast addresses: all ones behind the prefix, and
  /// the obsolete form, all zeros (RFC 1812 §4.2.3.1), unless a longer connected network has the
  /// address. kExists if the network is connected to another interface, with which this one does not
  /// share its networks.
  Status add_network(table::InterfaceId iface, const wire::IpPrefix& address);
  /// Lets the interfaces be connected to the same networks. The first one that adds a network has its
  /// route, and leaves it to another one. Hosts of the others need routes of their own: set_proxied().
  void share_networks(const std::vector<table::InterfaceId>& interfaces) {
    sharing_.emplace_back(interfaces.begin(), interfaces.end());
  }
  /// Says on which of such interfaces a host is. kExists: the address is an own or a broadcast
  /// address; kNoResources.
  Status set_proxied(table::InterfaceId iface, const wire::IpAddr& addr);
  /// Harmless if there is no such route.
  void remove_proxied(const wire::IpAddr& addr);
  /// Removes the network of the last address that the interface had in it, with its broadcast
  /// addresses; those of other networks that it hid are known again. Harmless if the interface has no
  /// such network. remove_local() removes the address.
  ///
  /// Routes through gateways in the network stay, as Linux keeps them: they lead to the gateway as
  /// long as it answers the interface, and a remove() ends them. New ones are refused. An entry of
  /// add_neighbour() has no effect any more; its owner removes it, with the neighbour.
  void remove_network(table::InterfaceId iface, const wire::IpPrefix& address);
  /// Adds an address of this node, and for an IPv6 network also the one of any router on it
  /// (RFC 4291 §2.6.1). Repeating it is harmless. kExists if another interface has the address.
  Status add_local(table::InterfaceId iface, const wire::IpPrefix& address);
  /// Keeps an address of this node as kLocalDown until add_local(); adds it if it is not there.
  /// Errors as add_local().
  Status suspend_local(table::InterfaceId iface, const wire::IpPrefix& address);
  void remove_local(table::InterfaceId iface, const wire::IpPrefix& address);
  /// Adds network and address.
  Status add_address(table::InterfaceId iface, const wire::IpPrefix& address);

  /// Lets broadcasts to all subnets of a classful net leave by the interface if it has a subnet of the
  /// net, or no more. The broadcast address of a net with such interfaces is a route, unless this node
  /// knows better (a connected network or a route to a part of the net has the address) or has no room
  /// for it, which is logged. Without that route, packets to the address follow the others.
  void set_all_subnets(table::InterfaceId iface, bool on);
  /// True if packets to the address are for all hosts of a connected network, or of all subnets of a
  /// net.
  [[nodiscard]] bool is_broadcast(const wire::IpAddr& addr) const;

  /// Gateways must lie in a connected network, of `iface` if that is given, and not be own or
  /// broadcast addresses; at most kMaxPaths. A link-local gateway is on `iface`, which it needs.
  /// kExists if there is a static route to the prefix, or a better one. Others wait until it is gone.
  Status add_static(const wire::IpPrefix& to, const std::vector<wire::IpAddr>& via,
                    table::InterfaceId iface = table::kNoInterface);
  Status add_blackhole(const wire::IpPrefix& to);
  /// Removes the static route to the prefix. kRefused: there are only others.
  Status remove(const wire::IpPrefix& to);

  /// Adds a route, or replaces that to the same prefix with the same metric; no packet is without a
  /// route meanwhile. Flows stay on paths that both have. On an error the old one stays.
  ///
  /// Linux has checked the gateways: they are on the interfaces that the paths name, which must exist,
  /// and need not lie in a connected network. An IPv4 prefix may have IPv6 gateways (RFC 8950). The
  /// hosts of a path without a gateway are on the link. Paths that differ only in their weight are one.
  ///
  /// kInvalidArgument: no path or more than kMaxPaths, a path without an interface, a weight of 0 or
  /// beyond kMaxWeight, an IPv4 gateway of an IPv6 prefix, or a gateway that is an own or a broadcast
  /// address or can be no neighbour; kNoResources.
  Status set_kernel(const KernelRoute& route);
  /// Harmless if there is no such route.
  void remove_kernel(const wire::IpPrefix& to, std::uint32_t metric);

  /// Routes the host `to` through `via` (`to` itself: directly). At most kMaxRedirects exist at a
  /// time: the oldest one is removed. kExists if the address is an own or a broadcast address.
  Status add_redirect(table::InterfaceId iface, const wire::IpAddr& to, const wire::IpAddr& via);
  /// Forgets the redirects to `via`.
  void remove_redirects(table::InterfaceId iface, const wire::IpAddr& via);
  /// Adds a default route through `router`. kExists: there is one of another router.
  Status add_advertised(table::InterfaceId iface, const wire::IpAddr& router);
  /// Removes that route; that of another router stays.
  void remove_advertised(table::InterfaceId iface, const wire::IpAddr& router);

  /// Sends packets to the IPv4 address straight to the neighbour while the longest route to it, other
  /// than a default route, says that it is on the link of `iface`. kNoResources: no room; that route
  /// finds it. kNotFound: there is no such route, or it is an own or broadcast address.
  Status add_neighbour(table::InterfaceId iface, const wire::IpAddr& addr,
                       table::NeighbourIndex neighbour);
  void remove_neighbour(table::InterfaceId iface, const wire::IpAddr& addr);

  /// Routes in effect.
  [[nodiscard]] const std::map<wire::IpPrefix, Route>& routes() const { return routes_; }
  /// Routes that better ones to their prefixes keep out of effect, best first.
  [[nodiscard]] const std::map<wire::IpPrefix, std::vector<Route>>& waiting() const {
    return waiting_;
  }
  /// Number of routes in effect, by RouteKind.
  [[nodiscard]] const std::array<std::size_t, kRouteKinds>& in_effect() const { return in_effect_; }
  /// Empty for routes that are not followed to a gateway or, kKernel, to the link.
  [[nodiscard]] std::vector<RoutePath> paths(const Route& route) const;
  /// Gateways and groups of them that routes use.
  [[nodiscard]] std::size_t next_hops() const { return next_hops_.size(); }
  /// Interface of the connected network that holds the address.
  [[nodiscard]] table::InterfaceId interface_of(const wire::IpAddr& addr) const;

  /// State of neighbours and interfaces. Dead gateways are not used while a route has others.
  void neighbour_heard(table::InterfaceId iface, const wire::IpAddr& addr, bool answers) {
    next_hops_.neighbour_heard({iface, addr}, answers);
  }
  void interface_changed(table::InterfaceId iface, bool up) {
    next_hops_.interface_changed(iface, up);
  }

  /// Gateways of the route that do not answer, or whose interface is down.
  [[nodiscard]] std::vector<wire::IpAddr> dead_gateways(const Route& route) const {
    return next_hops_.dead_gateways(route.next_hop);
  }

  static constexpr std::size_t kMaxPaths = NextHops::kMaxPaths;
  static constexpr std::size_t kMaxRedirects = 1024;
  static constexpr std::uint32_t kMaxWeight = 1U << 16;

 private:
  using Routes = std::map<wire::IpPrefix, Route>;
  using Networks = std::map<wire::IpPrefix, table::InterfaceId>;
  using Interfaces = std::set<table::InterfaceId>;

  [[nodiscard]] bool share(table::InterfaceId a, table::InterfaceId b) const;

  /// A classful net whose broadcast address is a route.
  struct Net {
    Interfaces interfaces{};
    table::NextHopIndex next_hop = table::kNextHopNone;
  };

  /// There is at most one route of each rank to a prefix; the lowest rank is in effect.
  using Rank = std::pair<RouteKind, std::uint32_t>;
  static Rank rank_of(const Route& route) { return {route.kind, route.metric}; }

  Status insert(const wire::IpPrefix& prefix, const Route& route);
  void withdraw(Routes::iterator it);
  bool promote(Routes::iterator it);
  void retry_waiting(const wire::IpPrefix& prefix);
  void set_in_effect(Route& slot, const Route& route);
  void add_waiting(const wire::IpPrefix& prefix, const Route& route);
  bool remove_waiting(const wire::IpPrefix& prefix, Rank rank);
  bool remove_route(const wire::IpPrefix& prefix, Rank rank);
  void release(const wire::IpPrefix& prefix, const Route& route);
  [[nodiscard]] const Route* find(const wire::IpPrefix& prefix, Rank rank) const;
  [[nodiscard]] bool leads_to(const Route* route, table::InterfaceId iface,
                              const wire::IpAddr& via) const;
  Status insert_paths(const wire::IpPrefix& net, Route route, const std::vector<RoutePath>& paths);
  Status insert_drop(const wire::IpPrefix& net, Route route);
  [[nodiscard]] Status check_kernel(const wire::IpPrefix& net,
                                    const std::vector<RoutePath>& paths) const;
  Status set_local(table::InterfaceId iface, const wire::IpPrefix& address, table::NextHopKind hop);
  Status insert_shared(const wire::IpPrefix& prefix, RouteKind kind, table::NextHopKind hop,
                       table::InterfaceId iface);
  Status update_broadcasts(const wire::IpPrefix& network);
  Status update_broadcast(const wire::IpAddr& addr);
  [[nodiscard]] Networks::const_iterator longest_network(const wire::IpAddr& addr) const;
  [[nodiscard]] Status check_static(const wire::IpPrefix& net) const;
  [[nodiscard]] bool is_own_or_broadcast(const wire::IpAddr& addr) const;
  [[nodiscard]] bool is_on_link(const wire::IpAddr& addr, table::NextHopIndex connected) const;
  [[nodiscard]] bool is_of_a_part(const wire::IpAddr& broadcast, const wire::IpPrefix& net) const;
  [[nodiscard]] Interfaces broadcast_interfaces(const wire::IpPrefix& net) const;
  Result<table::NextHopIndex> set_net_broadcast(const wire::IpPrefix& host,
                                                const Interfaces& interfaces);
  void remove_net_broadcast(const wire::IpPrefix& net, const wire::IpPrefix& host);
  void update_net_broadcast(const wire::IpPrefix& net);
  void update_net_broadcasts(const wire::IpPrefix& changed);
  Result<table::NextHopIndex> connected_to(table::InterfaceId iface);
  [[nodiscard]] Result<table::InterfaceId> interface_towards(const wire::IpAddr& gateway,
                                                             table::InterfaceId iface) const;
  [[nodiscard]] Result<RoutePath> gateway_at(const wire::IpAddr& addr,
                                             table::InterfaceId iface) const;

  RouteSink& sink_;
  NextHops next_hops_;
  Routes routes_;
  std::map<wire::IpPrefix, std::vector<Route>> waiting_;
  std::array<std::size_t, kRouteKinds> in_effect_{};
  Networks connected_;                                   ///< A few.
  std::vector<Interfaces> sharing_;                      ///< Groups that share their networks.
  std::map<wire::IpPrefix, Interfaces> also_connected_;  ///< Others with a network of `connected_`.
  Interfaces all_subnets_;                               ///< Set by set_all_subnets().
  std::map<wire::IpPrefix, Net> nets_;                   ///< The key is the net; a few.
  std::deque<wire::IpPrefix> redirects_;                 ///< Oldest first.
};

}  // namespace ipoib::route
