// SPDX-License-Identifier: BSD-3-Clause
// What a worker does with packets to a group, or to a link-local address, that come by one
// interface.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lib/table/neighbour.h"

namespace ipoib::table {

/// Interfaces that multicast may be forwarded to have numbers below this.
inline constexpr InterfaceId kMaxMulticastInterfaces = 64;

/// Key: addr, source and in. Trivially copyable: it travels in msg::Down by value.
struct Delivery {
  wire::IpAddr addr;              ///< Group, or link-local unicast address of this node.
  wire::IpAddr source;            ///< All zero: any; else this source only, looked up first.
  InterfaceId in = kNoInterface;  ///< Packets that come by this interface.
  bool local = false;             ///< Goes up to management (a copy, where also forwarded).
  std::uint64_t out = 0;          ///< Bit i: forwarded to interface i, but never back to `in`.
  /// Those of `out` that only packets go to whose source is reached through `in` (reverse path).
  std::uint64_t from_reverse_path = 0;
};
static_assert(sizeof(Delivery) <= 64 && std::is_trivially_copyable_v<Delivery>);

}  // namespace ipoib::table
