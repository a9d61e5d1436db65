// Which prefix leads where: own addresses, connected networks, static routes, and the next hops
// they share. Decides; the tables that workers read are behind RouteSink. Source: RFC 1812 §5.2.4.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/table/next_hop.h"
#include "lib/wire/ip.h"

namespace ipoib::route {

/// Where routes take effect. Implemented by lib/mgmt over rte_lpm, and by tests.
class RouteSink {
 public:
  virtual ~RouteSink() = default;
  virtual Status set_prefix(const wire::IpPrefix& prefix, table::NextHopIndex next_hop) = 0;
  virtual void remove_prefix(const wire::IpPrefix& prefix) = 0;
  virtual void set_next_hop(table::NextHopIndex index, const table::NextHop& next_hop) = 0;
  /// The neighbour that stands for a gateway; held until forget_gateway.
  virtual Result<table::NeighbourIndex> use_gateway(table::InterfaceId iface,
                                                    const wire::IpAddr& addr) = 0;
  virtual void forget_gateway(table::InterfaceId iface, const wire::IpAddr& addr) = 0;
};

enum class RouteKind : std::uint8_t {
  kLocal,
  kBroadcast,
  kConnected,
  kStatic,
  kBlackhole,
  kRedirect,    ///< Host route that a router told of (RFC 4861 §8).
  kAdvertised,  ///< Default route of a router that advertised itself (RFC 4861 §6.3.4).
};

struct Route {
  RouteKind kind = RouteKind::kStatic;
  table::InterfaceId iface = table::kNoInterface;  ///< Not of kBlackhole.
  std::vector<wire::IpAddr> via;                   ///< kStatic: one, or several (ECMP).
  table::NextHopIndex next_hop = table::kNextHopNone;
};

class RouteTable {
 public:
  explicit RouteTable(RouteSink& sink);
  ~RouteTable();
  RouteTable(const RouteTable&) = delete;
  RouteTable& operator=(const RouteTable&) = delete;

  /// The network of an address and its broadcast addresses. kExists when another interface has it.
  Status add_network(table::InterfaceId iface, const wire::IpPrefix& address);
  /// An address of this node; of an IPv6 network also that of any router on it (RFC 4291 §2.6.1).
  /// Repeating it is harmless. kExists when another interface has the address.
  Status add_local(table::InterfaceId iface, const wire::IpPrefix& address);
  void remove_local(table::InterfaceId iface, const wire::IpPrefix& address);
  /// Network and address.
  Status add_address(table::InterfaceId iface, const wire::IpPrefix& address);

  /// Gateways must lie in a connected network and not be own addresses; at most kMaxPaths. A static
  /// route to a prefix that has one replaces nothing: kExists.
  Status add_static(const wire::IpPrefix& to, const std::vector<wire::IpAddr>& via);
  Status add_blackhole(const wire::IpPrefix& to);
  /// The host `to` is reached through `via` (`to` itself: directly) from now on. At most
  /// kMaxRedirects at a time: the oldest goes. kExists when there is a host route to it that
  /// somebody configured.
  Status add_redirect(table::InterfaceId iface, const wire::IpAddr& to, const wire::IpAddr& via);
  /// Forgets the redirects to `via`.
  void remove_redirects(table::InterfaceId iface, const wire::IpAddr& via);
  /// What no other route leads to goes through `router` from now on. kExists: there is a default
  /// route already.
  Status add_advertised(table::InterfaceId iface, const wire::IpAddr& router);
  /// Where that is so; a default route of another kind or router stays.
  Status remove_advertised(table::InterfaceId iface, const wire::IpAddr& router);
  /// All but those that belong to an address of an interface.
  Status remove(const wire::IpPrefix& to);

  [[nodiscard]] const std::map<wire::IpPrefix, Route>& routes() const { return routes_; }
  /// Interface of the connected network that holds the address.
  [[nodiscard]] table::InterfaceId interface_of(const wire::IpAddr& addr) const;

  static constexpr std::size_t kMaxPaths = 64;
  static constexpr std::size_t kMaxRedirects = 1024;

 private:
  Status insert(const wire::IpPrefix& prefix, Route route);
  Status add_learned(RouteKind kind, const wire::IpPrefix& to, table::InterfaceId iface,
                     const wire::IpAddr& via);
  Status insert_shared(const wire::IpPrefix& prefix, RouteKind kind, table::NextHopKind hop,
                       table::InterfaceId iface);
  Result<table::NextHopIndex> allocate(std::size_t n);
  void free(table::NextHopIndex first, std::size_t n);
  /// A next hop that any number of routes share and that lives as long as the table.
  Result<table::NextHopIndex> shared(const table::NextHop& hop);
  Result<table::NextHop> gateway_hop(const wire::IpAddr& addr);
  Result<table::NextHop> gateway_hop_on(table::InterfaceId iface, const wire::IpAddr& addr);
  void release_gateways(const Route& route);

  RouteSink& sink_;
  std::map<wire::IpPrefix, Route> routes_;
  std::map<std::pair<table::NextHopKind, table::InterfaceId>, table::NextHopIndex> shared_;
  std::map<std::pair<table::InterfaceId, wire::IpAddr>, unsigned> gateway_uses_;
  std::vector<bool> used_;
  std::deque<wire::IpPrefix> redirects_;  ///< Oldest first.
};

}  // namespace ipoib::route
