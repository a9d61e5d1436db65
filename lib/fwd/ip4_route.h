// SPDX-License-Identifier: BSD-3-Clause
// Stage ip4_route: looks up next hop and neighbour of the destination, and sends.
#pragma once

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

enum class Ttl : std::uint8_t {
  kDecrement,  ///< The packet is forwarded. Source: RFC 1812 §5.3.1.
  kKeep,       ///< This node made the packet, or the TTL is already decremented.
};

/// Takes checked packets. Those whose neighbour is valid leave in order, with the TTL decremented
/// unless it stays. Local packets, unresolved neighbours and ICMP errors are punted.
///
/// Errors: kIpNoRoute, kIpBlackhole, kIpBroadcast, kIpTtlExceeded, kLinkDown, kNeighbourFailed,
///         kNeighbourGone, and those of Ip4Output and Punt.
void ip4_route(Context& c, const Ingress& in, const Ip4Burst& pkts, Ttl ttl) noexcept;

}  // namespace ipoib::fwd
