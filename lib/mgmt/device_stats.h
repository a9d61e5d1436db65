// SPDX-License-Identifier: BSD-3-Clause
// What an ethdev counts of itself.
#pragma once

#include <cstdint>
#include <string>

namespace ipoib::mgmt {

struct DeviceStats {
  std::uint64_t rx_missed = 0;  ///< Frames it had no room for.
  std::uint64_t rx_errors = 0;  ///< Damaged ones.
  std::uint64_t rx_nombuf = 0;  ///< Frames without a buffer.
};

/// A counter under a name as DPDK's extended statistics have it.
struct Xstat {
  std::string name;
  std::uint64_t value = 0;
};

}  // namespace ipoib::mgmt
