// SPDX-License-Identifier: BSD-3-Clause
// Checks that an ethdev carries frames of the size that a link needs. The software drivers of DPDK
// 22.11 report an MTU of 1500 and refuse any other, independent of the frame size that they really
// carry; this file determines the real size.
#pragma once

#include <cstdint>

#include "lib/base/result.h"

namespace ipoib::fabric {

/// Ensures that `port_id` sends and receives frames of `mtu` octets behind the Ethernet header.
/// Raises its MTU if necessary and never lowers it. The port must be stopped; it may be configured
/// or not. Errors: kNotFound; kUnavailable, which names the device and both numbers.
[[nodiscard]] Status require_ethdev_mtu(std::uint16_t port_id, std::uint16_t mtu);

}  // namespace ipoib::fabric
