// SPDX-License-Identifier: BSD-3-Clause
// DPDK's ethdev functions with the behaviour of devices that the tests do not have: NICs that
// refuse a mode, send only short chains, or are removed. They are linked before the library's own
// functions, which they call unless a test asks for something else.
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
  std::size_t max_groups = 0;  ///< Group addresses that the filter can hold; 0: no filter.
  /// Changes the rte_eth_dev_info of a device.
  std::function<void(rte_eth_dev_info&)> says{};
  bool secondary = false;      ///< This is a secondary process.
  bool powers_of_two = false;  ///< The device takes no other number of receive queues.

  // Requests to devices:
  std::vector<wire::MacAddr> groups{};  ///< Argument of the last call.
  /// Arguments of the last rte_eth_dev_configure():
  bool removal_interrupt = false;
  std::uint16_t rx_queues = 0, tx_queues = 0;
  std::uint64_t rss_hf = 0;  ///< 0: RSS is off.
  rte_eth_rss_conf rss{};    ///< With the pointer to the key that drivers keep.
  /// The key at the last rte_eth_dev_start(), where drivers read it.
  std::vector<std::uint8_t> rss_key{};

  /// Notifies the registered listeners, on any thread, that the port was removed.
  static void remove(std::uint16_t port);
  [[nodiscard]] static std::size_t listeners();

  static DeviceFaults& get();
  static void reset() { get() = {}; }
};

}  // namespace ipoib::mgmt
