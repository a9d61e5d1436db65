// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/device_readings.h"

#include <rte_ethdev.h>

#include "lib/mgmt/device/eth_device.h"

namespace ipoib::mgmt {

LinkStatus link_status(const EthDevice& device) {
  rte_eth_link link{};
  if (device.closed() || rte_eth_link_get_nowait(device.port(), &link) != 0) return {};
  const bool known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return {link.link_status == RTE_ETH_LINK_UP, known ? link.link_speed : 0};
}

DeviceStats device_stats(const EthDevice& device) {
  rte_eth_stats stats{};
  if (device.closed() || rte_eth_stats_get(device.port(), &stats) != 0) return {};
  return {stats.imissed, stats.ierrors, stats.rx_nombuf};
}

std::vector<Xstat> device_xstats(const EthDevice& device) {
  // Without an array this returns the number of statistics.
  const int n = device.closed() ? 0 : rte_eth_xstats_get(device.port(), nullptr, 0);
  if (n <= 0) return {};
  std::vector<rte_eth_xstat> values(static_cast<std::size_t>(n));
  std::vector<rte_eth_xstat_name> names(values.size());
  const auto size = static_cast<unsigned>(n);
  if (rte_eth_xstats_get(device.port(), values.data(), size) != n ||
      rte_eth_xstats_get_names(device.port(), names.data(), size) != n)
    return {};
  std::vector<Xstat> rows;
  for (const rte_eth_xstat& v : values) rows.push_back({names[v.id].name, v.value});
  return rows;
}

}  // namespace ipoib::mgmt
