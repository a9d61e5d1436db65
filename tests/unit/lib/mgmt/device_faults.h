// SPDX-License-Identifier: BSD-3-Clause
// DPDK's ethdev functions as devices answer them that there are none of here: NICs that refuse a
// mode, send short chains only or are pulled out. Linked before the library's own, which they call
// unless a test wants something else.
#pragma once

#include <rte_eal.h>
#include <rte_ethdev.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/wire/ipoib.h"

namespace ipoib::mgmt {

struct DeviceFaults {
  bool no_all_multicast = false;
  bool no_promiscuous = false;
  std::size_t most_groups = 0;  ///< Addresses of groups that the filter takes; 0: there is none.
  /// Changes what a device says of itself.
  std::function<void(rte_eth_dev_info&)> says{};
  bool secondary = false;  ///< This is a secondary process.

  // What was asked of devices.
  std::vector<wire::MacAddr> groups{};  ///< The last list.
  bool removal_interrupt = false;       ///< At the last rte_eth_dev_configure().

  /// Tells whoever listens that the port was pulled out; from any thread.
  static void remove(std::uint16_t port);
  [[nodiscard]] static std::size_t listeners();

  static DeviceFaults& get();
  static void reset() { get() = {}; }
};

}  // namespace ipoib::mgmt
