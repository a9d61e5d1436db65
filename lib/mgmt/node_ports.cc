// SPDX-License-Identifier: BSD-3-Clause
// Changes of ports and their devices while workers run.
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/mgmt/node_impl.h"

namespace ipoib::mgmt {

PortInstance* NodeImpl::port_named(std::string_view name) {
  const auto found = std::find_if(ports_.begin(), ports_.end(),
                                  [name](const auto& p) { return p->config().name == name; });
  return found == ports_.end() ? nullptr : found->get();
}

/// Returns when no worker uses the device any more: workers check the entry before each use.
void NodeImpl::leave_device_alone(PortInstance& port) {
  entries_[port.config().id].device_stopped.store(true, std::memory_order_relaxed);
  rte_rcu_qsbr_check(rcu_.get(), rte_rcu_qsbr_start(rcu_.get()), true);
}

Status NodeImpl::stop_device(PortInstance& port) {
  if (!port.device().started()) return {};
  leave_device_alone(port);
  auto stopped = port.device().stop(interfaces_.find(port.config().id)->drops);
  if (!stopped) entries_[port.config().id].device_stopped.store(false, std::memory_order_release);
  return stopped;
}

void NodeImpl::check_removals() {
  for (const auto& p : ports_) {
    if (!p->device().removed()) continue;
    leave_device_alone(*p);
    p->device().close_removed();
    log(LogArea::kMgmt, LogLevel::kErr,
        "port {}: device {} was removed; the port stays down until the node is restarted",
        p->config().name, p->device().name());
  }
  for (const auto& h : hcas_) {
    if (!h->ethdev || !h->ethdev->removed()) continue;
    h->hca->on_ethdev_removed();
    h->ethdev->close_removed();
    log(LogArea::kMgmt, LogLevel::kErr,
        "hca {}: cable {} was removed; the port stays down until the node is restarted",
        h->config.name, h->config.wire);
  }
}

Status NodeImpl::start_device(PortInstance& port) {
  if (port.device().started()) return {};
  if (auto started = port.device().start(interfaces_.find(port.config().id)->drops); !started)
    return started;
  entries_[port.config().id].device_stopped.store(false, std::memory_order_release);
  return {};
}

Status NodeImpl::set_port_started(std::string_view name, bool on) {
  expects_own_lcore();
  PortInstance* port = port_named(name);
  if (port != nullptr && on)
    if (auto started = start_device(*port); !started) return started;
  if (auto changed = set_interface_up(name, on); !changed) return changed;
  if (port != nullptr && !on) return stop_device(*port);
  return {};
}

/// The device of a port must be stopped for this change.
Status NodeImpl::raise_port_mtu(PortInstance& port, std::uint16_t mtu) {
  const unsigned room = buffers_.data_room() - RTE_PKTMBUF_HEADROOM;
  if (mtu + kEthernetHeader > room)
    return fail(Errc::kInvalidArgument,
                "invalid MTU {} of {}, allowed: {}-{}, limited by the mbuf size chosen at start "
                "(--mbuf-size)",
                mtu, port.config().name, link::kMinMtu, room - kEthernetHeader);
  const bool started = port.device().started();
  if (auto stopped = stop_device(port); !stopped) return stopped;
  auto set = port.device().set_mtu(mtu);
  if (started)
    if (auto again = start_device(port); !again) return again;
  return set;
}

Status NodeImpl::set_mtu(std::string_view name, std::uint16_t mtu) {
  expects_own_lcore();
  const InterfaceSlot* slot = interfaces_.find(name);
  if (slot == nullptr) return no_interface(name);
  PortInstance* port = port_named(name);
  if (port != nullptr && mtu > port->device().mtu())
    if (auto raised = raise_port_mtu(*port, mtu); !raised) return raised;
  if (auto set = slot->control->set_mtu(mtu, now()); !set) return set;
  for (PortConfig& p : config_.ports)
    if (p.name == name) p.mtu = mtu;
  return {};
}

Status NodeImpl::set_promiscuous(std::string_view name, bool on) {
  expects_own_lcore();
  PortInstance* port = port_named(name);
  if (port == nullptr) return fail(Errc::kNotFound, "no port {}", name);
  return port->device().set_promiscuous(on);
}

}  // namespace ipoib::mgmt
