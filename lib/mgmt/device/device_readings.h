// SPDX-License-Identifier: BSD-3-Clause
// Readings of an ethdev: the state of its link, and its statistics.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/mgmt/device/device_stats.h"

namespace ipoib::mgmt {

class EthDevice;

struct LinkStatus {
  bool up = false;
  std::uint32_t speed_mbps = 0;  ///< 0: unknown.
};
/// Does not wait for negotiation. The link of a closed device is down.
[[nodiscard]] LinkStatus link_status(const EthDevice& device);

/// For a device without statistics, or a closed one: zeros, and an empty list.
[[nodiscard]] DeviceStats device_stats(const EthDevice& device);
[[nodiscard]] std::vector<Xstat> device_xstats(const EthDevice& device);

}  // namespace ipoib::mgmt
