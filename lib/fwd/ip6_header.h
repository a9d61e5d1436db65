// SPDX-License-Identifier: BSD-3-Clause
// Checks of IPv6 headers and addresses for the stages. Source: RFC 8200, RFC 4291.
#pragma once

#include <cstdint>
#include <cstring>

#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Next header: hop-by-hop options. Source: RFC 8200 §4.3.
inline constexpr std::uint8_t kHopByHop = 0;

/// First eight octets and last eight, in memory order.
struct Ip6Words {
  std::uint64_t high;
  std::uint64_t low;
};
inline Ip6Words words_of(const wire::IpAddr& addr) noexcept {
  Ip6Words words;
  std::memcpy(&words, addr.bytes.data(), sizeof(words));
  return words;
}

/// True for loopback, IPv4-compatible, IPv4-mapped and unspecified addresses: ::/96 and
/// ::ffff:0:0/96. Only the unspecified address is ever on a wire. Source: RFC 4291 §2.5.2, §2.5.3,
/// §2.5.5.
inline bool is_reserved6(const wire::IpAddr& addr) noexcept {
  const Ip6Words words = words_of(addr);
  const auto middle = static_cast<std::uint32_t>(words.low);
  return words.high == 0 && (middle == 0 || middle == 0xffff'0000);
}

/// Returns the scope of a group: 1 interface, 2 link, ... 14 global. Source: RFC 4291 §2.7.
inline std::uint8_t scope_of(const wire::IpAddr& group) noexcept {
  return std::to_integer<std::uint8_t>(group.bytes[1]) & 0xf;
}
inline constexpr std::uint8_t kInterfaceScope = 1;
inline constexpr std::uint8_t kLinkScope = 2;

}  // namespace ipoib::fwd
