// SPDX-License-Identifier: BSD-3-Clause
// The receiver of the kernel's routing state, as far as it concerns the node.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/mgmt/linux/kernel_codec.h"

namespace ipoib::mgmt {

/// A route that the kernel uses, unless its links or next-hop objects are unusable.
struct KernelRouteEntry {
  wire::IpPrefix to;  ///< Host bits are 0.
  std::uint32_t metric = 0;
  std::uint8_t protocol = 0;  ///< RTPROT_…: the origin.
  KernelRouteType type = KernelRouteType::kUnicast;
  std::vector<KernelPath> paths;  ///< Different ones, in ascending order. Unicast: at least one.

  friend bool operator==(const KernelRouteEntry&, const KernelRouteEntry&) = default;
};

/// Called synchronously, on the management lcore. An implementation must not call KernelState.
class KernelStateSink {
 public:
  virtual ~KernelStateSink() = default;
  /// `link`: null if it is gone. Its addresses went before.
  virtual void link_changed(std::int32_t ifindex, const KernelLink* link) = 0;
  virtual void address_added(std::int32_t ifindex, const KernelAddress& address) = 0;
  virtual void address_removed(std::int32_t ifindex, const KernelAddress& address) = 0;
  /// Adds the route, or replaces the one with this prefix and metric.
  virtual void route_set(const KernelRouteEntry& route) = 0;
  virtual void route_removed(const wire::IpPrefix& to, std::uint32_t metric) = 0;
  /// Adds the entry of the kernel's multicast router, or replaces the one with this group and source.
  virtual void multicast_route_set(const KernelMulticastRoute& /*route*/) {}
  virtual void multicast_route_removed(const wire::IpAddr& /*group*/,
                                       const wire::IpAddr& /*source*/) {}
  /// All that the kernel had at a snapshot is reported, and what it did not have is removed.
  virtual void in_step() = 0;
};

}  // namespace ipoib::mgmt
