// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/removal_watch.h"

#include <rte_pause.h>

#include <cerrno>
#include <cstring>

#include "lib/base/contract.h"
#include "lib/base/log.h"

namespace ipoib::mgmt {

RemovalWatch::RemovalWatch(std::uint16_t port) : port_{port} {
  expects_management();
  if (const int r = rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_RMV, &hear, this);
      r != 0)
    log(LogArea::kFabric, LogLevel::kWarning, "cannot watch port {} for removal: {}", port,
        std::strerror(-r));
}

RemovalWatch::~RemovalWatch() {
  expects_management();
  // The call fails with -EAGAIN while the interrupt thread is in hear(), which never blocks.
  while (rte_eth_dev_callback_unregister(port_, RTE_ETH_EVENT_INTR_RMV, &hear, this) == -EAGAIN)
    rte_pause();
}

int RemovalWatch::hear(std::uint16_t, rte_eth_event_type, void* watch, void*) {
  static_cast<RemovalWatch*>(watch)->removed_.store(true, std::memory_order_relaxed);
  return 0;
}

}  // namespace ipoib::mgmt
