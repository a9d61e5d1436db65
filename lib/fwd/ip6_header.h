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

/// Returns the scope of a group: 1 interface, 2 link, ... 14 global. Source: RFC 4291 §2.7.
inline std::uint8_t scope_of(const wire::IpAddr& group) noexcept {
  return std::to_integer<std::uint8_t>(group.bytes[1]) & 0xf;
}
inline constexpr std::uint8_t kInterfaceScope = 1;
inline constexpr std::uint8_t kLinkScope = 2;

}  // namespace ipoib::fwd
