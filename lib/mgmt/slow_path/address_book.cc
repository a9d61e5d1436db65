// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/slow_path/address_book.h"

#include <algorithm>
#include <vector>

#include "lib/base/contract.h"

namespace ipoib::mgmt {

/// No other host may send from the address from here on. An IPv6 address is in use only after duplicate
/// address detection. Link-local addresses are valid on their link only: they are listened to, not
/// routed.
Status AddressBook::address_assigned(table::InterfaceId iface, const wire::IpPrefix& address) {
  expects_management();
  if (wire::is_link_local6(address.addr)) return {};
  auto added = address.addr.is_v4() ? routes_.add_address(iface, address)
                                    : routes_.add_network(iface, address).and_then([&] {
                                        return routes_.suspend_local(iface, address);
                                      });
  if (added) return added;
  if (added.error().code != Errc::kExists) forget_local(iface, address);
  forget_network(iface, address);
  return added;
}

void AddressBook::address_released(table::InterfaceId iface, const wire::IpPrefix& address) {
  expects_management();
  if (wire::is_link_local6(address.addr)) return;
  forget_local(iface, address);
  forget_network(iface, address);
}

/// Addresses of one network share the address of any router on it, so those in use are added again.
void AddressBook::forget_local(table::InterfaceId iface, const wire::IpPrefix& address) {
  routes_.remove_local(iface, address);
  for (const wire::IpPrefix& own : interfaces_.find(iface)->usable)
    if (!own.addr.is_v4() && !wire::is_link_local6(own.addr))
      report(iface, routes_.add_local(iface, own));
}

/// The network stays while the interface has another address in it.
void AddressBook::forget_network(table::InterfaceId iface, const wire::IpPrefix& address) {
  const auto& own = interfaces_.find(iface)->control->addresses();
  const bool kept = std::any_of(own.begin(), own.end(), [&](const wire::IpPrefix& other) {
    return other != address && other.len == address.len &&
           wire::network(other) == wire::network(address);
  });
  if (!kept) routes_.remove_network(iface, address);
}

void AddressBook::address_ready(table::InterfaceId iface, const wire::IpPrefix& address) {
  expects_management();
  InterfaceSlot& slot = *interfaces_.find(iface);
  // Queries and reports from an address of several routers would confuse their election.
  if (!slot.control->is_shared(address.addr)) multicast_.address_ready(iface, address.addr, now_);
  auto& usable = slot.usable;
  if (std::find(usable.begin(), usable.end(), address) == usable.end()) usable.push_back(address);
  multicast_.set_networks(iface, usable);
  if (!wire::is_link_local6(address.addr)) report(iface, routes_.add_local(iface, address));
}

void AddressBook::address_removed(table::InterfaceId iface, const wire::IpPrefix& address) {
  expects_management();
  multicast_.address_removed(iface, address.addr, now_);
  std::erase(interfaces_.find(iface)->usable, address);
  multicast_.set_networks(iface, interfaces_.find(iface)->usable);
  // An IPv4 address stays this node's while its interface is down (RFC 1122 §3.3.4.2, weak model).
  // An IPv6 address is not in use then. No other host may send from either (RFC 1812 §5.3.7).
  if (address.addr.is_v4() || wire::is_link_local6(address.addr)) return;
  report(iface, routes_.suspend_local(iface, address));
}

/// The other host may send from the address.
void AddressBook::address_duplicate(table::InterfaceId iface, const wire::IpPrefix& address) {
  expects_management();
  forget_local(iface, address);
}

void AddressBook::default_router(table::InterfaceId iface, const wire::IpAddr& router,
                                 bool usable) {
  expects_management();
  const std::pair entry{iface, router};
  const auto it = std::find(routers_.begin(), routers_.end(), entry);
  if (usable == (it != routers_.end())) return;
  if (!usable) {
    const bool in_use = it == routers_.begin();
    routers_.erase(it);
    if (!in_use) return;
    routes_.remove_advertised(iface, router);
  } else {
    routers_.push_back(entry);
    if (routers_.size() > 1) return;
  }
  if (!routers_.empty())
    report_unapplied(routers_.front().first,
                     routes_.add_advertised(routers_.front().first, routers_.front().second));
}

std::string AddressBook::name_of(table::InterfaceId iface) const {
  const InterfaceSlot* slot = interfaces_.find(iface);
  return slot != nullptr ? slot->control->name() : fmt::format("interface {}", iface);
}

void AddressBook::report_unapplied(table::InterfaceId iface, const Status& status) {
  if (status) return;
  if (const auto suppressed = log_limit_.allow(now_))
    log(LogArea::kMgmt, LogLevel::kWarning,
        "{}: router advertisement or redirect not applied: {} ({} messages suppressed)",
        name_of(iface), status.error().what, *suppressed);
}

/// Strangers can claim many addresses.
bool AddressBook::host_located(table::InterfaceId iface, const wire::IpAddr& addr) {
  expects_management();
  const auto set = routes_.set_proxied(iface, addr);
  if (set) return true;
  if (const auto suppressed = host_log_limit_.allow(now_))
    log(LogArea::kMgmt, LogLevel::kWarning, "{}: no route to host {}: {} ({} messages suppressed)",
        name_of(iface), wire::to_string(addr), set.error().what, *suppressed);
  return false;
}

void AddressBook::host_lost(table::InterfaceId /*iface*/, const wire::IpAddr& addr) {
  expects_management();
  routes_.remove_proxied(addr);
}

/// RFC 4861 §6.3.6, §8.3: the next of several routers takes over, and redirects end.
void AddressBook::neighbour_failed(table::InterfaceId iface, const wire::IpAddr& addr) {
  expects_management();
  routes_.remove_redirects(iface, addr);
  if (routers_.size() < 2 || routers_.front() != std::pair{iface, addr}) return;
  default_router(iface, addr, false);
  default_router(iface, addr, true);
}

}  // namespace ipoib::mgmt
