// SPDX-License-Identifier: BSD-3-Clause
// Passes commands on to the parts of a node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/link/interface.h"
#include "lib/mgmt/node_control.h"

namespace ipoib::mgmt {

class Capture;
class LinuxPlane;
struct NodeParts;
class PortDevices;

class NodeControlImpl final : public NodeControl {
 public:
  NodeControlImpl(NodeParts& parts, PortDevices& devices, Capture& capture, LinuxPlane& linux_plane)
      : parts_{parts}, devices_{devices}, capture_{capture}, linux_plane_{linux_plane} {}

  void set_forwarding(bool on) override;
  Status set_draining(bool on) override;
  Status set_interface_up(std::string_view name, bool up) override;
  Status set_port_started(std::string_view name, bool on) override;
  Status set_mtu(std::string_view name, std::uint16_t mtu) override;
  Status set_source_check(std::string_view name, fwd::SourceCheck check) override;
  Status set_directed_broadcast(std::string_view name, fwd::DirectedBroadcast which) override;
  Status set_queues(std::string_view link, unsigned n) override;
  Status set_promiscuous(std::string_view port, bool on) override;
  Status change_hca(std::string_view name, const fabric::PortChange& change) override;
  Status add_address(std::string_view iface, const wire::IpPrefix& address) override;
  Status remove_address(std::string_view iface, const wire::IpPrefix& address) override;
  Status add_neighbour(const NeighbourEntryConfig& entry) override;
  Status remove_neighbour(std::string_view iface, const wire::IpAddr& addr) override;
  Status flush_neighbours(std::string_view iface) override;
  Status join_group(std::string_view iface, const wire::IpAddr& group) override;
  Status leave_group(std::string_view iface, const wire::IpAddr& group) override;
  Status close_connection(std::string_view link, cm::Handle connection) override;
  Status add_route(const RouteConfig& route) override;
  Status remove_route(const wire::IpPrefix& to) override;
  Status add_multicast_route(const MulticastRouteConfig& route) override;
  Status remove_multicast_route(const MulticastRouteConfig& route) override;
  Status add_filter(const FilterConfig& filter, std::optional<std::size_t> number) override;
  Status remove_filter(std::size_t number) override;
  Status capture_start(const CaptureRequest& request) override;
  Result<CaptureInfo> capture_stop() override;

  /// Starts an interface and adds its configured neighbours.
  void bring_up(link::Interface& control);

 private:
  NodeParts& parts_;
  PortDevices& devices_;
  Capture& capture_;
  LinuxPlane& linux_plane_;
};

}  // namespace ipoib::mgmt
