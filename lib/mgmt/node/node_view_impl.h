// SPDX-License-Identifier: BSD-3-Clause
// Makes the rows of NodeView from the parts of a node.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/mgmt/node_view.h"

namespace ipoib::route {
struct Route;
}

namespace ipoib::mgmt {

class Capture;
class LinkInstance;
class LinuxPlane;
class NodeStatsImpl;
struct NodeParts;
class TestTrafficImpl;

class NodeViewImpl final : public NodeView {
 public:
  /// `stats`: counters in the rows are those that it shows.
  NodeViewImpl(const NodeParts& parts, const NodeStatsImpl& stats, const TestTrafficImpl& traffic,
               const Capture& capture, const LinuxPlane& linux_plane)
      : parts_{parts},
        stats_{stats},
        traffic_{traffic},
        capture_{capture},
        linux_plane_{linux_plane} {}

  const NodeConfig& config() const override;
  ForwardInfo forward_info() const override;
  std::vector<LinkInfo> links() const override;
  std::vector<EthernetPortInfo> ports() const override;
  std::vector<HcaInfo> hcas() const override;
  std::vector<NeighbourKey> neighbour_keys(std::string_view iface) const override;
  std::optional<link::NeighbourInfo> neighbour(const NeighbourKey& key) const override;
  std::vector<RouteInfo> routes(const std::optional<wire::IpPrefix>& after,
                                std::size_t max_rows) const override;
  std::vector<link::ConnectionInfo> connections(std::string_view link) const override;
  std::vector<link::GroupInfo> groups(std::string_view iface) const override;
  std::vector<link::SharedGroupInfo> shared_groups(std::string_view link) const override;
  std::vector<QuerierInfo> queriers(std::string_view iface) const override;
  std::vector<MulticastRouteInfo> multicast_routes() const override;
  std::vector<FilterInfo> filters() const override;
  std::vector<SaInfo> subnet_administration() const override;
  LinuxInfo linux_plane() const override;
  std::vector<ProxyInfo> proxies() const override;
  CaptureInfo capture() const override;

 private:
  /// Null: the interface is no IPoIB link.
  [[nodiscard]] const LinkInstance* find_link(table::InterfaceId iface) const;
  [[nodiscard]] RouteInfo route_row(const wire::IpPrefix& to, const route::Route& route,
                                    bool active) const;

  const NodeParts& parts_;
  const NodeStatsImpl& stats_;
  const TestTrafficImpl& traffic_;
  const Capture& capture_;
  const LinuxPlane& linux_plane_;
};

}  // namespace ipoib::mgmt
