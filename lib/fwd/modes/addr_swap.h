// SPDX-License-Identifier: BSD-3-Clause
// Forward mode addrswap: a mirror. Each packet goes back to its sender, with IP addresses and UDP
// or TCP ports swapped. It is routed, so that it has the cost and path of a routed packet.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Both take checked unicast packets. The swap changes no checksum of the payload. The TTL is
/// decremented, so that two mirrors do not reflect a packet forever. Packets for this node that are
/// not UDP are punted.
///
/// Errors: kIpBroadcast (the destination cannot become a source), and those of ip4_route and
///         ip6_route.
void addr_swap4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept;
void addr_swap6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept;

}  // namespace ipoib::fwd
