// SPDX-License-Identifier: BSD-3-Clause
// Routes by prefix: own addresses, connected networks, static routes. RouteSink writes the results
// to the tables that workers read. Source: RFC 1812 §5.2.4.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "lib/base/result.h"
#include "lib/route/next_hops.h"
#include "lib/route/route_sink.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

enum class RouteKind : std::uint8_t {
  kLocal,
  kBroadcast,
  kNetBroadcast,  ///< Broadcast address of a classful net: see RouteTable::set_all_subnets().
  kConnected,
  kStatic,
  kBlackhole,
  kRedirect,    ///< Host route from a router's redirect (RFC 4861 §8).
  kAdvertised,  ///< Default route of a router that advertised itself (RFC 4861 §6.3.4).
};

struct Route {
  RouteKind kind = RouteKind::kStatic;
  table::InterfaceId iface = table::kNoInterface;  ///< None for kNetBroadcast, kBlackhole.
  std::vector<wire::IpAddr> via;                   ///< Gateways; several: ECMP.
  table::NextHopIndex next_hop = table::kNextHopNone;
};

class RouteTable {
 public:
  explicit RouteTable(RouteSink& sink);
  ~RouteTable();
  RouteTable(const RouteTable&) = delete;
  RouteTable& operator=(const RouteTable&) = delete;

  /// Adds the network of an address and its broadcast addresses: all ones behind the prefix, and
  /// the obsolete form, all zeros (RFC 1812 §4.2.3.1), unless a longer connected network has the
  /// address. kExists if the network is connected to another interface.
  Status add_network(table::InterfaceId iface, const wire::IpPrefix& address);
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
  /// broadcast addresses; at most kMaxPaths. A link-local gateway is on `iface`, which it needs. A
  /// static route does not replace an existing route to the prefix: kExists.
  Status add_static(const wire::IpPrefix& to, const std::vector<wire::IpAddr>& via,
                    table::InterfaceId iface = table::kNoInterface);
  Status add_blackhole(const wire::IpPrefix& to);
  /// Routes the host `to` through `via` (`to` itself: directly). At most kMaxRedirects exist at a
  /// time: the oldest one is removed. kExists if there is a route to the host that is not a
  /// redirect.
  Status add_redirect(table::InterfaceId iface, const wire::IpAddr& to, const wire::IpAddr& via);
  /// Forgets the redirects to `via`.
  void remove_redirects(table::InterfaceId iface, const wire::IpAddr& via);
  /// Adds a default route through `router`. kExists: there is a default route already.
  Status add_advertised(table::InterfaceId iface, const wire::IpAddr& router);
  /// Removes that route; a default route of another kind or router stays.
  Status remove_advertised(table::InterfaceId iface, const wire::IpAddr& router);
  /// Removes a route, except one that belongs to an address of an interface: kRefused.
  Status remove(const wire::IpPrefix& to);

  /// Sends packets to the IPv4 address straight to the neighbour while the longest route to it is a
  /// network that is connected to `iface`. kNoResources: no room; the network's route finds it.
  /// kNotFound: the address is in no such network, or is an own or broadcast address.
  Status add_neighbour(table::InterfaceId iface, const wire::IpAddr& addr,
                       table::NeighbourIndex neighbour);
  void remove_neighbour(table::InterfaceId iface, const wire::IpAddr& addr);

  [[nodiscard]] const std::map<wire::IpPrefix, Route>& routes() const { return routes_; }
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

  /// Gateways of route.via that do not answer, or whose interface is down.
  [[nodiscard]] std::vector<wire::IpAddr> dead_gateways(const Route& route) const {
    return next_hops_.dead_gateways(route.next_hop);
  }

  static constexpr std::size_t kMaxPaths = NextHops::kMaxPaths;
  static constexpr std::size_t kMaxRedirects = 1024;

 private:
  using Routes = std::map<wire::IpPrefix, Route>;
  using Networks = std::map<wire::IpPrefix, table::InterfaceId>;
  using Interfaces = std::set<table::InterfaceId>;

  /// A classful net whose broadcast address is a route.
  struct Net {
    Interfaces interfaces{};
    table::NextHopIndex next_hop = table::kNextHopNone;
  };

  Status insert(const wire::IpPrefix& prefix, Route route);
  void erase(Routes::const_iterator it);
  Status insert_via(const wire::IpPrefix& net, RouteKind kind,
                    const std::vector<NextHops::Gateway>& gateways);
  Status set_local(table::InterfaceId iface, const wire::IpPrefix& address, table::NextHopKind hop);
  Status insert_shared(const wire::IpPrefix& prefix, RouteKind kind, table::NextHopKind hop,
                       table::InterfaceId iface);
  Status update_broadcasts(const wire::IpPrefix& network);
  Status update_broadcast(const wire::IpAddr& addr);
  [[nodiscard]] Networks::const_iterator longest_network(const wire::IpAddr& addr) const;
  [[nodiscard]] bool is_taken(const wire::IpPrefix& prefix) const;
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
  [[nodiscard]] Result<NextHops::Gateway> gateway_at(const wire::IpAddr& addr,
                                                     table::InterfaceId iface) const;

  RouteSink& sink_;
  NextHops next_hops_;
  Routes routes_;
  Networks connected_;                    ///< A few.
  Interfaces all_subnets_;                ///< Set by set_all_subnets().
  std::map<wire::IpPrefix, Net> nets_;    ///< The key is the net; a few.
  std::deque<wire::IpPrefix> redirects_;  ///< Oldest first.
};

}  // namespace ipoib::route
