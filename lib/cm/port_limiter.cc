// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cm/port_limiter.h"

#include <algorithm>

namespace ipoib::cm {

bool PortLimiter::allow(const PortName& port, TimePoint now) {
  // The limit of all is asked first without taking from it: a port beyond its share takes nothing.
  if (now < all_.next()) return false;
  if (ports_.size() >= forget_at_) forget_idle(now);
  Port& p = port_of(port);
  if (p.connections >= limits_.port_max || !p.rate.allow(now)) return false;
  ++p.connections;
  return all_.allow(now);
}

void PortLimiter::end(const PortName& port) {
  const auto it = ports_.find(port);
  if (it != ports_.end() && it->second.connections > 0) --it->second.connections;
}

std::size_t PortLimiter::connections(const PortName& port) const {
  const auto it = ports_.find(port);
  return it == ports_.end() ? 0 : it->second.connections;
}

PortLimiter::Port& PortLimiter::port_of(const PortName& name) {
  return ports_.try_emplace(name, Port{{limits_.port_interval, limits_.port_burst}}).first->second;
}

/// A port without connections whose share is whole again is as good as unknown. The limit of all
/// bounds the number of the others, and this the time for each new port.
void PortLimiter::forget_idle(TimePoint now) {
  const Duration whole = limits_.port_interval * limits_.port_burst;
  std::erase_if(ports_, [&](const auto& entry) {
    const auto& [name, p] = entry;
    return p.connections == 0 && now - (p.rate.next() - limits_.port_interval) >= whole;
  });
  forget_at_ = std::max<std::size_t>(64, 2 * ports_.size());
}

}  // namespace ipoib::cm
