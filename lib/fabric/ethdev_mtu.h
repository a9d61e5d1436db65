// SPDX-License-Identifier: BSD-3-Clause
// Whether an ethdev carries frames of the size a link needs. The software drivers of DPDK 22.11
// report an MTU of 1500 and refuse another, whatever they carry; this knows what they carry.
#pragma once

#include <cstdint>

#include "lib/base/result.h"

namespace ipoib::fabric {

/// Sees to it that `port_id` sends and receives frames of `mtu` octets behind the Ethernet header,
/// by raising its MTU where that is what it takes; never lowers it. The port is configured or not
/// yet, and stopped. Error: kUnavailable, names the device and both numbers.
[[nodiscard]] Status require_ethdev_mtu(std::uint16_t port_id, std::uint16_t mtu);

}  // namespace ipoib::fabric
