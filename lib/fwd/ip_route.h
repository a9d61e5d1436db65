// SPDX-License-Identifier: BSD-3-Clause
// Stage ip_route: looks up next hop and neighbour of the destination, and sends.
#pragma once

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// The hops left of a packet: TTL or hop limit.
enum class Ttl : std::uint8_t {
  kDecrement,  ///< The packet is forwarded. Source: RFC 1812 §5.3.1, RFC 8200 §3.
  kKeep,       ///< This node made the packet, or the TTL is already decremented.
};

/// Take checked packets. Those whose neighbour is valid leave in order, with the TTL decremented
/// unless it stays. Local packets, unresolved neighbours and ICMP errors are punted. Forwarded
/// packets must pass the filter rules of their egress, also those that wait for their neighbour;
/// the dropped ones are taken out of `pkts`. Directed broadcasts leave by interfaces that let them
/// out and are not their ingress: see directed_broadcast.h.
///
/// Errors: kIpFilter, kIpNoRoute, kIpBlackhole, kIpProhibited, kIpTtlExceeded, kLinkDown, kNeighbourFailed,
///         kNeighbourGone;
///         IPv4: kIpBroadcast, kIpBroadcastLimit, kIpBroadcastRpf; IPv6: kLocalUnsupported (a tentative
///         address), those of ip6_deliver; those of IpOutput and Punt.
void ip4_route(Context& c, const Ingress& in, Ip4Burst& pkts, Ttl ttl) noexcept;
void ip6_route(Context& c, const Ingress& in, Ip6Burst& pkts, Ttl ttl) noexcept;

/// Takes checked packets while forwarding is off: those for this node are punted, the others are
/// dropped as kForwardingStopped.
void ip6_local_only(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept;

}  // namespace ipoib::fwd
