// SPDX-License-Identifier: BSD-3-Clause
// Prefixes that hold one address only, and prefixes of groups, in both families.
#pragma once

#include <cstdint>

#include "lib/wire/ip.h"

namespace ipoib::wire {

/// Length of the prefix that holds only this address: 32 or 128.
[[nodiscard]] constexpr std::uint8_t host_len(const IpAddr& a) noexcept {
  return a.is_v4() ? 32 : 128;
}
/// The prefix that holds only this address.
[[nodiscard]] constexpr IpPrefix host_prefix(const IpAddr& a) noexcept {
  return {a, host_len(a)};
}
[[nodiscard]] constexpr bool is_host(const IpPrefix& p) noexcept {
  return p.len == host_len(p.addr);
}
/// True if all addresses of the prefix are groups: it is in 224.0.0.0/4 or ff00::/8.
[[nodiscard]] constexpr bool is_multicast(const IpPrefix& p) noexcept {
  return is_multicast(p.addr) && p.len >= (p.addr.is_v4() ? 4 : 8);
}

/// True if an interface can have the address with this prefix length: an address of one host, neither
/// the network's nor the broadcast address of its prefix, and not of class E.
[[nodiscard]] bool is_interface_address(const IpPrefix& address);

}  // namespace ipoib::wire
