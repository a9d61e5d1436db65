// SPDX-License-Identifier: BSD-3-Clause
// The state of a node: configuration, devices, interfaces, neighbours, routes, groups.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/mgmt/capture_info.h"
#include "lib/mgmt/node_info.h"

namespace ipoib::link {
struct SharedGroupInfo;
}

namespace ipoib::mgmt {

struct FilterInfo;
struct NodeConfig;

/// Management lcore only. Implemented by NodeViewImpl, and by a fake in the tests of app/.
class NodeView {
 public:
  virtual ~NodeView() = default;

  /// The configuration, with the changes that commands have made since the start.
  [[nodiscard]] virtual const NodeConfig& config() const = 0;
  [[nodiscard]] virtual ForwardInfo forward_info() const = 0;
  [[nodiscard]] virtual std::vector<LinkInfo> links() const = 0;
  [[nodiscard]] virtual std::vector<EthernetPortInfo> ports() const = 0;
  [[nodiscard]] virtual std::vector<HcaInfo> hcas() const = 0;
  /// Neighbours in order of interface and address; `iface` empty: of all interfaces. There may be
  /// many thousands, so readers ask for the rows one by one with neighbour(), over as many turns of
  /// the loop as that takes.
  [[nodiscard]] virtual std::vector<NeighbourKey> neighbour_keys(std::string_view iface) const = 0;
  /// None: the neighbour is gone.
  [[nodiscard]] virtual std::optional<link::NeighbourInfo> neighbour(
      const NeighbourKey& key) const = 0;
  /// Routes in order of their prefixes: the first `max_rows` after `after`, or of all. The row of the
  /// route in effect comes first, then those of others to the prefix, even beyond `max_rows`.
  [[nodiscard]] virtual std::vector<RouteInfo> routes(const std::optional<wire::IpPrefix>& after,
                                                      std::size_t max_rows) const = 0;
  /// Connections of connected mode; `link` empty: of all links.
  [[nodiscard]] virtual std::vector<link::ConnectionInfo> connections(
      std::string_view link) const = 0;
  /// Multicast groups; `iface` empty: of all interfaces.
  [[nodiscard]] virtual std::vector<link::GroupInfo> groups(std::string_view iface) const = 0;
  [[nodiscard]] virtual std::vector<MulticastRouteInfo> multicast_routes() const = 0;
  /// Filter rules in order.
  [[nodiscard]] virtual std::vector<FilterInfo> filters() const = 0;
  [[nodiscard]] virtual std::vector<SaInfo> subnet_administration() const = 0;
  [[nodiscard]] virtual LinuxInfo linux_plane() const = 0;
  /// Interfaces that share their subnets, by group.
  [[nodiscard]] virtual std::vector<ProxyInfo> proxies() const = 0;
  [[nodiscard]] virtual CaptureInfo capture() const = 0;
  /// Groups of nodes that share addresses; `link` empty: those of all links.
  [[nodiscard]] virtual std::vector<link::SharedGroupInfo> shared_groups(
      std::string_view link) const = 0;
  /// Interfaces of multicast routers only; `iface` empty: all.
  [[nodiscard]] virtual std::vector<QuerierInfo> queriers(std::string_view iface) const = 0;
};

}  // namespace ipoib::mgmt
