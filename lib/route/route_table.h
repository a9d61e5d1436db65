// Which prefix leads where: own addresses, connected networks, static routes, and the next hops
// they share. Decides; the tables that workers read are behind RouteSink. Source: RFC 1812 §5.2.4.
#pragma once

#include <cstdint>
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

enum class RouteKind : std::uint8_t { kLocal, kBroadcast, kConnected, kStatic, kBlackhole };

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

  /// The address itself, its network and its broadcast addresses. kExists when another interface
  /// has the address or the network.
  Status add_address(table::InterfaceId iface, const wire::IpPrefix& address);

  /// Gateways must lie in a connected network and not be own addresses; at most kMaxPaths. A static
  /// route to a prefix that has one replaces nothing: kExists.
  Status add_static(const wire::IpPrefix& to, const std::vector<wire::IpAddr>& via);
  Status add_blackhole(const wire::IpPrefix& to);
  /// Static and blackhole routes only.
  Status remove(const wire::IpPrefix& to);

  [[nodiscard]] const std::map<wire::IpPrefix, Route>& routes() const { return routes_; }
  /// Interface of the connected network that holds the address.
  [[nodiscard]] table::InterfaceId interface_of(const wire::IpAddr& addr) const;

  static constexpr std::size_t kMaxPaths = 64;

 private:
  Status insert(const wire::IpPrefix& prefix, Route route);
  Result<table::NextHopIndex> allocate(std::size_t n);
  void free(table::NextHopIndex first, std::size_t n);
  /// A next hop that any number of routes share and that lives as long as the table.
  Result<table::NextHopIndex> shared(const table::NextHop& hop);
  Result<table::NextHop> gateway_hop(const wire::IpAddr& addr);
  void release_gateways(const Route& route);

  RouteSink& sink_;
  std::map<wire::IpPrefix, Route> routes_;
  std::map<std::pair<table::NextHopKind, table::InterfaceId>, table::NextHopIndex> shared_;
  std::map<std::pair<table::InterfaceId, wire::IpAddr>, unsigned> gateway_uses_;
  std::vector<bool> used_;
};

}  // namespace ipoib::route
