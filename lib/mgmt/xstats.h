// SPDX-License-Identifier: BSD-3-Clause
// Counters of an interface or hca as a flat list, under the names that DPDK's extended statistics
// have for them: rx_good_packets, rx_q0_packets, and rx_drop_REASON or tx_drop_REASON of our own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/drop.h"
#include "lib/mgmt/device_stats.h"
#include "lib/mgmt/node_info.h"

namespace ipoib::mgmt {

/// Where packets are lost.
enum class Place : std::uint8_t { kLink, kPort, kHca, kNode };

/// Lost behind the point where the way out was known; all others are of the way in.
[[nodiscard]] bool is_transmit(Drop reason);

/// Every reason that can be counted there, or was, in the order of Drop.
[[nodiscard]] std::vector<std::pair<Drop, std::uint64_t>> drops_at(
    Place place, const std::array<std::uint64_t, kDropCount>& drops);

/// Names are the same at every call. `device`: what the ethdev behind a port counts of itself; its
/// names come last, without those that are ours already.
[[nodiscard]] std::vector<Xstat> interface_xstats(Place place, const TrafficInfo& traffic,
                                                  const DeviceStats& errors,
                                                  std::span<const Xstat> device);
/// `cable`: what the ethdev counts that an hca sends by: frames.
[[nodiscard]] std::vector<Xstat> hca_xstats(const std::array<std::uint64_t, kDropCount>& drops,
                                            std::span<const Xstat> cable);

/// What was counted since `from`; a counter that its device has set back counts from there.
[[nodiscard]] std::vector<Xstat> since(std::vector<Xstat> now, std::span<const Xstat> from);
[[nodiscard]] DeviceStats since(const DeviceStats& now, const DeviceStats& from);

}  // namespace ipoib::mgmt
