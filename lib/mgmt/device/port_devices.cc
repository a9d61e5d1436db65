// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/port_devices.h"

#include <rte_mbuf.h>

#include <algorithm>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/fabric/grace.h"
#include "lib/mgmt/node/node_parts.h"

namespace ipoib::mgmt {

/// Returns when no worker uses the device any more: workers check the entry before each use.
void PortDevices::leave_alone(PortInstance& port) {
  parts_.tables.entries[port.config().id].device_stopped.store(true, std::memory_order_relaxed);
  fabric::Grace{parts_.tables.rcu.get()}.wait();
}

Status PortDevices::stop(PortInstance& port) {
  expects_management();
  if (!port.device().started()) return {};
  leave_alone(port);
  auto stopped = port.device().stop(parts_.interfaces.find(port.config().id)->drops);
  if (!stopped)
    parts_.tables.entries[port.config().id].device_stopped.store(false, std::memory_order_release);
  return stopped;
}

void PortDevices::check_removals() {
  expects_management();
  for (const auto& p : parts_.ports) {
    if (!p->device().removed()) continue;
    leave_alone(*p);
    p->device().close();
    log(LogArea::kMgmt, LogLevel::kErr,
        "port {}: device {} was removed; the port stays down until the node is restarted",
        p->config().name, p->device().name());
  }
  for (const auto& h : parts_.hcas) {
    if (!h->ethdev || !h->ethdev->removed()) continue;
    if (auto* const wire = h->hca->ethdev_wire()) wire->on_ethdev_removed();
    h->ethdev->close();
    log(LogArea::kMgmt, LogLevel::kErr,
        "hca {}: cable {} was removed; the port stays down until the node is restarted",
        h->config.name, h->config.wire);
  }
}

Status PortDevices::start(PortInstance& port) {
  expects_management();
  if (port.device().started()) return {};
  if (auto started = port.device().start(parts_.interfaces.find(port.config().id)->drops); !started)
    return started;
  parts_.tables.entries[port.config().id].device_stopped.store(false, std::memory_order_release);
  return {};
}

/// The device of a port must be stopped for this change.
Status PortDevices::raise_mtu(PortInstance& port, std::uint16_t mtu) {
  expects_management();
  const unsigned room = parts_.buffers.data_room() - RTE_PKTMBUF_HEADROOM;
  if (mtu + kEthernetHeader > room)
    return fail(Errc::kInvalidArgument,
                "invalid MTU {} of {}, allowed: {}-{}, limited by the mbuf size chosen at start "
                "(--mbuf-size)",
                mtu, port.config().name, link::kMinMtu, room - kEthernetHeader);
  const bool started = port.device().started();
  if (auto stopped = stop(port); !stopped) return stopped;
  auto set = port.device().set_mtu(mtu);
  if (started)
    if (auto again = start(port); !again) return again;
  return set;
}

}  // namespace ipoib::mgmt
