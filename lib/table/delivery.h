// SPDX-License-Identifier: BSD-3-Clause
// The rule for packets to a group, or to a link-local address, that arrive on one interface.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lib/table/neighbour.h"

namespace ipoib::table {

/// Interfaces to which multicast may be forwarded have numbers below this.
inline constexpr InterfaceId kMaxMulticastInterfaces = 64;

/// The packets that the multicast router of Linux gets, too, because workers forward by its entries.
enum class ForLinux : std::uint8_t {
  kNone,
  kSample,  ///< One after each msg::Down::Kind::kDeliverySet, so that Linux sees that the flow lives.
  kAll,     ///< All, within limits: Linux sends them to an interface that the node does not have.
};

/// The key is addr, source and in. Trivially copyable: msg::Down carries it by value.
struct Delivery {
  wire::IpAddr addr;              ///< Group, or link-local unicast address of this node.
  wire::IpAddr source;            ///< All zero: any source; else only this one, looked up first.
  InterfaceId in = kNoInterface;  ///< Ingress interface.
  bool local = false;             ///< Punt to management (a copy, if also forwarded).
  ForLinux for_linux = ForLinux::kNone;
  /// kSample: the next packet is the sample. Written by the worker alone, in its own table.
  bool sample_due = false;
  std::uint64_t out = 0;  ///< Bit i: forward to interface i, but never back to `in`.
  /// Subset of `out`: interfaces that get only packets whose source is reached through `in`
  /// (reverse path).
  std::uint64_t from_reverse_path = 0;
  /// Number of the neighbour that the last packet left to on the last interface of `out`, where the
  /// next one is likely to find its own. Written by the worker alone, in its own table.
  NeighbourIndex last_neighbour = kNoNeighbour;
  /// The interface that packets leave by, if there is only one and management gets none now; else
  /// kNoInterface. Written by the worker alone, in its own table.
  InterfaceId only_out = kNoInterface;
  /// Report the packets whose source is reached through `in`: this node stands by for another
  /// router, and takes over when that does not forward them.
  bool stands_by = false;
};
static_assert(sizeof(Delivery) <= 64 && std::is_trivially_copyable_v<Delivery>);

}  // namespace ipoib::table
