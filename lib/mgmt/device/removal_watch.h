// SPDX-License-Identifier: BSD-3-Clause
// Learns from DPDK that an ethdev was taken away.
#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <cstdint>

namespace ipoib::mgmt {

/// Created and destroyed by the management lcore, before the ethdev is closed. EAL's interrupt
/// thread notifies it.
class RemovalWatch {
 public:
  explicit RemovalWatch(std::uint16_t port);
  RemovalWatch(const RemovalWatch&) = delete;
  RemovalWatch& operator=(const RemovalWatch&) = delete;
  ~RemovalWatch();

  [[nodiscard]] bool removed() const { return removed_.load(std::memory_order_relaxed); }

 private:
  static int hear(std::uint16_t port, rte_eth_event_type event, void* watch, void* detail);

  std::uint16_t port_;
  std::atomic<bool> removed_{false};
};

}  // namespace ipoib::mgmt
