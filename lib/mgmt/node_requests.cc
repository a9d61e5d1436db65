// SPDX-License-Identifier: BSD-3-Clause
// Requests of the CLI and other clients to a running node.
#include <algorithm>

#include "lib/mgmt/node_impl.h"

namespace ipoib::mgmt {

tl::unexpected<Error> no_interface(std::string_view name) {
  return fail(Errc::kNotFound, "no link or port {}", name);
}

void NodeImpl::set_forwarding(bool on) {
  expects_own_lcore();
  settings_.forwarding.store(on, std::memory_order_relaxed);
}
bool NodeImpl::forwarding() const {
  expects_own_lcore();
  return settings_.forwarding.load(std::memory_order_relaxed);
}
ForwardMode NodeImpl::forward_mode() const {
  expects_own_lcore();
  return settings_.mode.load(std::memory_order_relaxed);
}

Status NodeImpl::add_neighbour(const NeighbourEntryConfig& entry) {
  expects_own_lcore();
  const InterfaceSlot* slot = interfaces_.find(entry.iface);
  if (slot == nullptr) return no_interface(entry.iface);
  return slot->control->add_static(entry.addr, entry.lladdr, entry.lid, entry.sl, now());
}

Status NodeImpl::remove_neighbour(std::string_view iface, const wire::IpAddr& addr) {
  expects_own_lcore();
  const InterfaceSlot* slot = interfaces_.find(iface);
  if (slot == nullptr) return no_interface(iface);
  return slot->control->remove_neighbour(addr);
}

Status NodeImpl::flush_neighbours(std::string_view iface) {
  expects_own_lcore();
  if (!iface.empty() && interfaces_.find(iface) == nullptr) return no_interface(iface);
  for (const auto& slot : interfaces_)
    if (iface.empty() || slot->control->name() == iface) slot->control->flush(now());
  return {};
}

Status NodeImpl::add_route(const RouteConfig& route) {
  expects_own_lcore();
  return route.blackhole ? routes_->add_blackhole(route.to)
                         : routes_->add_static(route.to, route.via);
}

Status NodeImpl::remove_route(const wire::IpPrefix& to) {
  expects_own_lcore();
  return routes_->remove(to);
}

Status NodeImpl::join_group(std::string_view iface, const wire::IpAddr& group) {
  expects_own_lcore();
  const InterfaceSlot* slot = interfaces_.find(iface);
  if (slot == nullptr) return no_interface(iface);
  return slot->control->join_group(group, now());
}

Status NodeImpl::leave_group(std::string_view iface, const wire::IpAddr& group) {
  expects_own_lcore();
  const InterfaceSlot* slot = interfaces_.find(iface);
  if (slot == nullptr) return no_interface(iface);
  return slot->control->leave_group(group, now());
}

Status NodeImpl::close_connection(std::string_view link, cm::Handle connection) {
  expects_own_lcore();
  for (const auto& l : links_) {
    if (l->config().name != link) continue;
    if (link::Connections* c = l->control().connections()) return c->close(connection, now());
    return fail(Errc::kRefused, "{} does not support connected mode", link);
  }
  return no_interface(link);
}

Status NodeImpl::add_multicast_route(const MulticastRouteConfig& route) {
  expects_own_lcore();
  return multicast_->add_route(route, now());
}

Status NodeImpl::remove_multicast_route(const MulticastRouteConfig& route) {
  expects_own_lcore();
  return multicast_->remove_route(route, now());
}

Status NodeImpl::set_interface_up(std::string_view name, bool up) {
  expects_own_lcore();
  InterfaceSlot* slot = interfaces_.find(name);
  if (slot == nullptr) return no_interface(name);
  if (const PortInstance* port = port_named(name);
      up && port != nullptr && !port->device().started())
    return fail(Errc::kUnavailable, "{} is stopped; start it with: port start {}", name, name);
  const link::State state = slot->control->state();
  const bool stopping = state == link::State::kStopping;
  slot->up_again = up && stopping;
  if (stopping || up == (state != link::State::kStopped)) return {};
  if (up)
    bring_up(*slot->control);
  else
    slot->control->stop(now());
  return {};
}

Status NodeImpl::change_hca(std::string_view name, const fabric::PortChange& change) {
  expects_own_lcore();
  const auto found = std::find_if(hcas_.begin(), hcas_.end(),
                                  [name](const auto& h) { return h->config.name == name; });
  if (found == hcas_.end()) return fail(Errc::kNotFound, "no hca {}", name);
  HcaInstance& instance = **found;
  if (instance.administrator && (change.lid || change.gid_prefix))
    return fail(Errc::kRefused, "{} runs the subnet administrator, whose LID and GID cannot change",
                name);
  fabric::PortSetter* const setter = instance.hca->port_setter();
  if (setter == nullptr)
    return fail(Errc::kRefused, "{} is configured by its subnet manager", name);
  return setter->change_port(change);
}

Status NodeImpl::capture_start(const std::string& path, std::uint64_t limit) {
  expects_own_lcore();
  std::vector<fabric::Hca*> hcas;
  for (const auto& h : hcas_) hcas.push_back(h->hca.get());
  return capture_.start(path, limit, hcas);
}

Result<std::uint64_t> NodeImpl::capture_stop() {
  expects_own_lcore();
  return capture_.stop();
}

}  // namespace ipoib::mgmt
