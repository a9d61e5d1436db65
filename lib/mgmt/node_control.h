// SPDX-License-Identifier: BSD-3-Clause
// The commands to a node: interfaces, devices, neighbours, groups, routes, captures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/cm/cm_info.h"
#include "lib/fabric/fabric_types.h"
#include "lib/fwd/modes.h"
#include "lib/mgmt/capture_info.h"
#include "lib/wire/ip.h"

namespace ipoib::mgmt {

struct FilterConfig;
struct MulticastRouteConfig;
struct NeighbourEntryConfig;
struct RouteConfig;

/// Management lcore only. Implemented by NodeControlImpl, and by a fake in the tests of app/.
class NodeControl {
 public:
  virtual ~NodeControl() = default;

  virtual void set_forwarding(bool on) = 0;
  /// Takes the node out of service without a loss: daemons on the mirrors and IPv6 hosts learn that
  /// it is no way any more, and it goes on to forward what still arrives, by the routes that it has.
  /// `on` = false returns it into service. kRefused: it has no mirrors and advertises no router.
  virtual Status set_draining(bool on) = 0;
  /// Brings an interface up, or takes it down in order. An interface that is still going down comes
  /// up again afterwards. kNotFound; kUnavailable: its device is stopped.
  virtual Status set_interface_up(std::string_view name, bool up) = 0;
  /// Takes a port down and stops its device, or starts the device and brings the port up. Packets
  /// that the device had received and no worker had taken are dropped: Drop::kLinkDown. A link has
  /// no device of its own: this acts like set_interface_up().
  virtual Status set_port_started(std::string_view name, bool on) = 0;
  /// Sets the largest IP packet of a link or port, octets; NodeView::config() has the value of a
  /// port. kInvalidArgument and kUnavailable say what is allowed.
  virtual Status set_mtu(std::string_view name, std::uint16_t mtu) = 0;
  /// Sets the check of the sources of packets that arrive. kNotFound.
  virtual Status set_source_check(std::string_view name, fwd::SourceCheck check) = 0;
  /// Sets which directed broadcasts leave by the interface. kNotFound.
  virtual Status set_directed_broadcast(std::string_view name, fwd::DirectedBroadcast which) = 0;
  /// Spreads the neighbours and groups of a link over its first `n` UD queue pairs. kNotFound;
  /// kInvalidArgument: the link has fewer.
  virtual Status set_queues(std::string_view link, unsigned n) = 0;
  /// Ports only. kNotFound; kRefused: the device does not support it.
  virtual Status set_promiscuous(std::string_view port, bool on) = 0;
  /// Changes the port `name` like a subnet manager would. kNotFound; kRefused: the port has a
  /// subnet manager of its own, or runs the subnet administrator, which peers know by these
  /// addresses.
  virtual Status change_hca(std::string_view name, const fabric::PortChange& change) = 0;

  /// Gives an interface an address, or takes one away; NodeView::config() follows. An IPv6 address is
  /// used after duplicate address detection. kNotFound; those of link::Interface::add_address() and
  /// remove_address().
  virtual Status add_address(std::string_view iface, const wire::IpPrefix& address) = 0;
  virtual Status remove_address(std::string_view iface, const wire::IpPrefix& address) = 0;
  virtual Status add_neighbour(const NeighbourEntryConfig& entry) = 0;
  virtual Status remove_neighbour(std::string_view iface, const wire::IpAddr& addr) = 0;
  /// Forgets neighbours that are not static; `iface` empty: of all interfaces.
  virtual Status flush_neighbours(std::string_view iface) = 0;
  /// Listens to the group on the interface. Each join needs its leave.
  virtual Status join_group(std::string_view iface, const wire::IpAddr& group) = 0;
  virtual Status leave_group(std::string_view iface, const wire::IpAddr& group) = 0;
  /// kNotFound: no such link or connection; kRefused: the link has no connected mode.
  virtual Status close_connection(std::string_view link, cm::Handle connection) = 0;

  virtual Status add_route(const RouteConfig& route) = 0;
  virtual Status remove_route(const wire::IpPrefix& to) = 0;
  virtual Status add_multicast_route(const MulticastRouteConfig& route) = 0;
  /// Groups, source and `in` identify the route.
  virtual Status remove_multicast_route(const MulticastRouteConfig& route) = 0;

  /// Inserts a filter rule as number `number`, from 1; none: at the end. It is in effect when its
  /// row says so. Errors: those of FilterList::add().
  virtual Status add_filter(const FilterConfig& filter, std::optional<std::size_t> number) = 0;
  /// kNotFound: there is no such rule.
  virtual Status remove_filter(std::size_t number) = 0;

  /// Writes every frame on every HCA's wire to a file (pcap of ERF records) until capture_stop() or
  /// until a limit. Frames are captured when NodeView::capture() says that it is running.
  virtual Status capture_start(const CaptureRequest& request) = 0;
  /// Returns the state so far. The file is completed in the background.
  virtual Result<CaptureInfo> capture_stop() = 0;
};

}  // namespace ipoib::mgmt
