// SPDX-License-Identifier: BSD-3-Clause
// Counters of an interface or hca as a flat list, under their names in DPDK's extended statistics
// (rx_good_packets, rx_q0_packets), and own drop reasons as rx_drop_REASON or tx_drop_REASON.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/drop.h"
#include "lib/mgmt/device/device_stats.h"
#include "lib/mgmt/node_info.h"

namespace ipoib::mgmt {

/// Place where packets are lost.
enum class Place : std::uint8_t { kLink, kPort, kHca, kNode };

/// True for reasons that apply after the egress is known; all others are ingress drops.
[[nodiscard]] bool is_transmit(Drop reason);

/// Every reason that can be counted there, or was, in the order of Drop.
[[nodiscard]] std::vector<std::pair<Drop, std::uint64_t>> drops_at(
    Place place, const std::array<std::uint64_t, kDropCount>& drops);

/// Names are the same at every call. `device`: statistics of the ethdev of a port; its names come
/// last, without those that are in the list already.
[[nodiscard]] std::vector<Xstat> interface_xstats(Place place, const TrafficInfo& traffic,
                                                  const DeviceStats& errors,
                                                  std::span<const Xstat> device);
/// `ethdev`: statistics of the ethdev that an hca sends through: frames.
[[nodiscard]] std::vector<Xstat> hca_xstats(const std::array<std::uint64_t, kDropCount>& drops,
                                            std::span<const Xstat> ethdev);

/// Counts since `from`. A counter that its device has reset counts from the reset.
[[nodiscard]] std::vector<Xstat> since(std::vector<Xstat> now, std::span<const Xstat> from);
[[nodiscard]] DeviceStats since(const DeviceStats& now, const DeviceStats& from);

}  // namespace ipoib::mgmt
