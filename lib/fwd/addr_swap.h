// SPDX-License-Identifier: BSD-3-Clause
// Forward mode addrswap: a mirror. What comes is sent back to its sender, IP addresses and UDP or
// TCP ports swapped, by the routes, so that it costs and goes what a routed packet does.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Take checked unicast packets. No checksum of the payload changes by a swap; the TTL goes down,
/// so that two mirrors do not play for ever. What is for this node and is not UDP goes up.
///
/// Errors: kIpBroadcast (an address that can be no source), and those of ip4_route and ip4_output,
///         ip6_route and ip6_output.
void addr_swap4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept;
void addr_swap6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept;

}  // namespace ipoib::fwd
