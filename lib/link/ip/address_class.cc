// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/address_class.h"

#include <algorithm>

namespace ipoib::link {
bool is_own(const std::vector<wire::IpPrefix>& addresses, const wire::IpAddr& addr) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const auto& own) { return own.addr == addr; });
}

bool is_on_link(const std::vector<wire::IpPrefix>& addresses, const wire::IpAddr& addr) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const auto& own) { return wire::contains(own, addr); });
}

bool is_broadcast(const std::vector<wire::IpPrefix>& addresses, const wire::IpAddr& addr) {
  if (addr == wire::IpAddr::v4(0xffff'ffff)) return true;
  const wire::IpPrefix* longest = nullptr;
  for (const wire::IpPrefix& own : addresses)
    if (wire::contains(own, addr) && (longest == nullptr || own.len > longest->len)) longest = &own;
  if (longest != nullptr) return wire::directed_broadcast(*longest) == addr;
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const auto& own) { return wire::net_broadcast(own) == addr; });
}

bool is_neighbour_address(const std::vector<wire::IpPrefix>& addresses, const wire::IpAddr& addr) {
  if (!addr.is_v4())
    return !wire::is_multicast(addr) && !wire::is_reserved6(addr) && !is_own(addresses, addr);
  const auto first = addr.v4_host() >> 24;
  return first != 0 && first != 127 && first < 224 && !is_broadcast(addresses, addr) &&
         !is_own(addresses, addr);
}

std::optional<Drop> why_no_neighbour(const std::vector<wire::IpPrefix>& addresses,
                                     const wire::IpAddr& addr) {
  if (is_own(addresses, addr)) return Drop::kLocalUnsupported;
  if (is_broadcast(addresses, addr) || is_neighbour_address(addresses, addr)) return std::nullopt;
  return wire::is_multicast(addr) ? Drop::kIpMulticast : Drop::kIpMartianDestination;
}

}  // namespace ipoib::link
