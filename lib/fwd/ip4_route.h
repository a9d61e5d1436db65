// SPDX-License-Identifier: BSD-3-Clause
// Stage ip4_route: destination to next hop to neighbour, and out.
#pragma once

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

enum class Ttl : std::uint8_t {
  kTakeDown,  ///< Being forwarded. Source: RFC 1812 §5.3.1.
  kStays,     ///< Of this node, or taken down before.
};

/// Takes checked packets; those whose neighbour is valid leave in order, TTL taken down. Local
/// packets, unresolved neighbours and ICMP errors go up.
///
/// Errors: kIpNoRoute, kIpBlackhole, kIpBroadcast, kIpTtlExceeded, kLinkDown, kNeighbourFailed,
///         kNeighbourGone, and those of Ip4Output and Punt.
void ip4_route(Context& c, const Ingress& in, const Ip4Burst& pkts, Ttl ttl) noexcept;

}  // namespace ipoib::fwd
