// SPDX-License-Identifier: BSD-3-Clause
// Stage ip6_route: looks up next hop and neighbour of the destination, and sends.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/ip4_route.h"

namespace ipoib::fwd {

/// Takes checked packets. Those whose neighbour is valid leave in order, with the hop limit
/// decremented unless it stays. Local packets, unresolved neighbours and ICMPv6 errors are punted.
///
/// Errors: kIpNoRoute, kIpBlackhole, kIpTtlExceeded, kLinkDown, kNeighbourFailed, kNeighbourGone,
///         and those of ip6_output, ip6_deliver and Punt.
void ip6_route(Context& c, const Ingress& in, const Ip6Burst& pkts, Ttl ttl) noexcept;

/// Takes checked packets while forwarding is off: those for this node are punted, the others are
/// dropped as kForwardingStopped.
void ip6_local_only(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept;

}  // namespace ipoib::fwd
