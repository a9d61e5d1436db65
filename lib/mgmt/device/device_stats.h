// SPDX-License-Identifier: BSD-3-Clause
// Statistics that an ethdev keeps.
#pragma once

#include <cstdint>
#include <string>

namespace ipoib::mgmt {

struct DeviceStats {
  std::uint64_t rx_missed = 0;  ///< Frames for which the device had no room.
  std::uint64_t rx_errors = 0;  ///< Damaged frames.
  std::uint64_t rx_nombuf = 0;  ///< Frames for which no mbuf was available.
};

/// A counter under its name in DPDK's extended statistics.
struct Xstat {
  std::string name;
  std::uint64_t value = 0;
};

}  // namespace ipoib::mgmt
