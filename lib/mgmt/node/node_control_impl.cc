// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/node_control_impl.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/mgmt/capture/capture.h"
#include "lib/mgmt/device/port_devices.h"
#include "lib/mgmt/linux/linux_plane.h"
#include "lib/mgmt/node/node_parts.h"

namespace ipoib::mgmt {
namespace {

tl::unexpected<Error> no_interface(std::string_view name) {
  return fail(Errc::kNotFound, "no link or port {}", name);
}

/// Calls `use` with the configuration of the interface `name`, which is of the node.
template <class Use>
auto& with_entry(NodeConfig& config, std::string_view name, const Use& use) {
  const auto is_it = [name](const auto& entry) { return entry.name == name; };
  const auto port = std::find_if(config.ports.begin(), config.ports.end(), is_it);
  if (port != config.ports.end()) return use(*port);
  const auto link = std::find_if(config.links.begin(), config.links.end(), is_it);
  expects(link != config.links.end(), "an interface is a port or a link");
  return use(*link);
}

IpConfig& ip_config_of(NodeConfig& config, std::string_view name) {
  return with_entry(
      config, name, [](auto& entry) -> auto& { return entry.ip; });
}

std::vector<wire::IpPrefix>& addresses_of(NodeConfig& config, std::string_view name) {
  return with_entry(
      config, name, [](auto& entry) -> auto& { return entry.addresses; });
}

}  // namespace

void NodeControlImpl::set_forwarding(bool on) {
  parts_.loop->expects_own_lcore();
  parts_.tables.settings.forwarding.store(on, std::memory_order_relaxed);
}

Status NodeControlImpl::set_draining(bool on) {
  parts_.loop->expects_own_lcore();
  const auto advertises = [](const auto& slot) { return slot->control->advertises_router(); };
  const auto shares = [](const auto& link) { return link->control().shares_addresses(); };
  const bool has_hosts =
      std::any_of(parts_.interfaces.begin(), parts_.interfaces.end(), advertises) ||
      std::any_of(parts_.links.begin(), parts_.links.end(), shares);
  if (on && !has_hosts && !linux_plane_.has_mirrors())
    return fail(Errc::kRefused,
                "a drain would tell no neighbour: no interface is mirrored in Linux, and none has "
                "router-advertisement or shared-address");
  linux_plane_.set_draining(on, parts_.now());
  for (const auto& slot : parts_.interfaces) slot->control->set_default_router(!on, parts_.now());
  for (const auto& link : parts_.links) link->control().set_serving(!on, parts_.now());
  return {};
}

Status NodeControlImpl::add_address(std::string_view iface, const wire::IpPrefix& address) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(iface);
  if (slot == nullptr) return no_interface(iface);
  auto added = slot->control->add_address(address, {}, parts_.now());
  if (added) addresses_of(parts_.config, iface).push_back(address);
  return added;
}

Status NodeControlImpl::remove_address(std::string_view iface, const wire::IpPrefix& address) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(iface);
  if (slot == nullptr) return no_interface(iface);
  auto removed = slot->control->remove_address(address, parts_.now());
  if (removed) std::erase(addresses_of(parts_.config, iface), address);
  return removed;
}

Status NodeControlImpl::add_neighbour(const NeighbourEntryConfig& entry) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(entry.iface);
  if (slot == nullptr) return no_interface(entry.iface);
  return slot->control->add_static(entry.addr, entry.lladdr, entry.lid, entry.sl, parts_.now());
}

Status NodeControlImpl::remove_neighbour(std::string_view iface, const wire::IpAddr& addr) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(iface);
  if (slot == nullptr) return no_interface(iface);
  return slot->control->remove_neighbour(addr);
}

Status NodeControlImpl::flush_neighbours(std::string_view iface) {
  parts_.loop->expects_own_lcore();
  if (!iface.empty() && parts_.interfaces.find(iface) == nullptr) return no_interface(iface);
  for (const auto& slot : parts_.interfaces)
    if (iface.empty() || slot->control->name() == iface) slot->control->flush();
  return {};
}

Status NodeControlImpl::add_route(const RouteConfig& route) {
  parts_.loop->expects_own_lcore();
  if (route.blackhole) return parts_.routes->add_blackhole(route.to);
  if (!route.iface) return parts_.routes->add_static(route.to, route.via);
  const InterfaceSlot* slot = parts_.interfaces.find(*route.iface);
  if (slot == nullptr) return no_interface(*route.iface);
  return parts_.routes->add_static(route.to, route.via, slot->control->id());
}

Status NodeControlImpl::remove_route(const wire::IpPrefix& to) {
  parts_.loop->expects_own_lcore();
  return parts_.routes->remove(to);
}

Status NodeControlImpl::join_group(std::string_view iface, const wire::IpAddr& group) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(iface);
  if (slot == nullptr) return no_interface(iface);
  return slot->control->join_group(group, parts_.now());
}

Status NodeControlImpl::leave_group(std::string_view iface, const wire::IpAddr& group) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(iface);
  if (slot == nullptr) return no_interface(iface);
  return slot->control->leave_group(group, parts_.now());
}

Status NodeControlImpl::set_queues(std::string_view link, unsigned n) {
  parts_.loop->expects_own_lcore();
  for (const auto& l : parts_.links)
    if (l->config().name == link) return l->control().set_queues(n, parts_.now());
  return no_interface(link);
}

Status NodeControlImpl::set_source_check(std::string_view name, fwd::SourceCheck check) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(name);
  if (slot == nullptr) return no_interface(name);
  parts_.tables.entries[slot->control->id()].source_check.store(check, std::memory_order_relaxed);
  ip_config_of(parts_.config, name).source_check = check;
  return {};
}

Status NodeControlImpl::set_directed_broadcast(std::string_view name,
                                               fwd::DirectedBroadcast which) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(name);
  if (slot == nullptr) return no_interface(name);
  const table::InterfaceId id = slot->control->id();
  parts_.tables.entries[id].directed_broadcast.store(which, std::memory_order_relaxed);
  parts_.routes->set_all_subnets(id, which == fwd::DirectedBroadcast::kAllSubnets);
  ip_config_of(parts_.config, name).directed_broadcast = which;
  return {};
}

Status NodeControlImpl::add_filter(const FilterConfig& filter, std::optional<std::size_t> number) {
  parts_.loop->expects_own_lcore();
  if (auto added = parts_.filters->add(filter, number); !added) return added;
  auto& rules = parts_.config.filters;
  const std::size_t place = number.value_or(rules.size() + 1) - 1;
  rules.insert(rules.begin() + static_cast<std::ptrdiff_t>(place), filter);
  return {};
}

Status NodeControlImpl::remove_filter(std::size_t number) {
  parts_.loop->expects_own_lcore();
  if (auto removed = parts_.filters->remove(number); !removed) return removed;
  auto& rules = parts_.config.filters;
  rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(number - 1));
  return {};
}

Status NodeControlImpl::close_connection(std::string_view link, cm::Handle connection) {
  parts_.loop->expects_own_lcore();
  for (const auto& l : parts_.links) {
    if (l->config().name != link) continue;
    if (link::Connections* c = l->control().connections())
      return c->close(connection, parts_.now());
    return fail(Errc::kRefused, "{} does not support connected mode", link);
  }
  return no_interface(link);
}

Status NodeControlImpl::add_multicast_route(const MulticastRouteConfig& route) {
  parts_.loop->expects_own_lcore();
  return parts_.multicast->add_route(route, parts_.now());
}

Status NodeControlImpl::remove_multicast_route(const MulticastRouteConfig& route) {
  parts_.loop->expects_own_lcore();
  return parts_.multicast->remove_route(route, parts_.now());
}

Status NodeControlImpl::set_interface_up(std::string_view name, bool up) {
  parts_.loop->expects_own_lcore();
  InterfaceSlot* slot = parts_.interfaces.find(name);
  if (slot == nullptr) return no_interface(name);
  if (const PortInstance* port = parts_.port_named(name);
      up && port != nullptr && !port->device().started())
    return fail(Errc::kUnavailable, "{} is stopped; start it with: port start {}", name, name);
  const link::State state = slot->control->state();
  const bool stopping = state == link::State::kStopping;
  slot->up_again = up && stopping;
  if (stopping || up == (state != link::State::kStopped)) return {};
  if (up)
    bring_up(*slot->control);
  else
    slot->control->stop(parts_.now());
  return {};
}

Status NodeControlImpl::change_hca(std::string_view name, const fabric::PortChange& change) {
  parts_.loop->expects_own_lcore();
  const auto found = std::find_if(parts_.hcas.begin(), parts_.hcas.end(),
                                  [name](const auto& h) { return h->config.name == name; });
  if (found == parts_.hcas.end()) return fail(Errc::kNotFound, "no hca {}", name);
  HcaInstance& instance = **found;
  if (instance.administrator && (change.lid || change.gid_prefix))
    return fail(Errc::kRefused, "{} runs the subnet administrator, whose LID and GID cannot change",
                name);
  fabric::PortSetter* const setter = instance.hca->port_setter();
  if (setter == nullptr)
    return fail(Errc::kRefused,
                "cannot set {}: its subnet manager or its device configures the port", name);
  return setter->change_port(change);
}

Status NodeControlImpl::capture_start(const CaptureRequest& request) {
  parts_.loop->expects_own_lcore();
  if (parts_.hcas.empty())
    return fail(Errc::kRefused, "no hca to capture: the node has only Ethernet ports");
  std::vector<fabric::WireCapture*> wires;
  std::string without;
  for (const auto& h : parts_.hcas) {
    if (fabric::WireCapture* const wire = h->hca->wire_capture(); wire != nullptr)
      wires.push_back(wire);
    else
      without += (without.empty() ? "" : ", ") + h->config.name;
  }
  if (wires.empty()) return fail(Errc::kRefused, "no device supports packet capture: {}", without);
  auto started = capture_.start(request, std::move(wires));
  if (started && !without.empty())
    log(LogArea::kMgmt, LogLevel::kWarning,
        "the capture to {} has no frames of devices that do not support it: {}", request.file,
        without);
  return started;
}

Result<CaptureInfo> NodeControlImpl::capture_stop() {
  parts_.loop->expects_own_lcore();
  return capture_.stop();
}

Status NodeControlImpl::set_port_started(std::string_view name, bool on) {
  parts_.loop->expects_own_lcore();
  PortInstance* port = parts_.port_named(name);
  if (port != nullptr && on)
    if (auto started = devices_.start(*port); !started) return started;
  if (auto changed = set_interface_up(name, on); !changed) return changed;
  if (port != nullptr && !on) return devices_.stop(*port);
  return {};
}

Status NodeControlImpl::set_mtu(std::string_view name, std::uint16_t mtu) {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(name);
  if (slot == nullptr) return no_interface(name);
  PortInstance* port = parts_.port_named(name);
  if (port != nullptr && mtu > port->device().mtu())
    if (auto raised = devices_.raise_mtu(*port, mtu); !raised) return raised;
  if (auto set = slot->control->set_mtu(mtu, parts_.now()); !set) return set;
  for (PortConfig& p : parts_.config.ports)
    if (p.name == name) p.mtu = mtu;
  return {};
}

Status NodeControlImpl::set_promiscuous(std::string_view name, bool on) {
  parts_.loop->expects_own_lcore();
  PortInstance* port = parts_.port_named(name);
  if (port == nullptr) return fail(Errc::kNotFound, "no port {}", name);
  return port->device().set_promiscuous(on);
}

void NodeControlImpl::bring_up(link::Interface& control) {
  control.start(parts_.now());
  for (const NeighbourEntryConfig& entry : parts_.config.neighbours) {
    if (entry.iface != control.name()) continue;
    if (auto s = add_neighbour(entry); !s)
      log(LogArea::kMgmt, LogLevel::kErr, "cannot add neighbour {} on {}: {}",
          wire::to_string(entry.addr), entry.iface, s.error().what);
  }
}

}  // namespace ipoib::mgmt
