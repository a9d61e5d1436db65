// SPDX-License-Identifier: BSD-3-Clause
// Stage ip6_local: IPv6 packets for this node, with neighbour discovery separate from the rest.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// True if the message is ICMPv6 type 133 to 137, in the first header or behind hop-by-hop options.
[[nodiscard]] bool is_neighbour_discovery(const rte_mbuf* m) noexcept;

/// True if the message is a listener query, report or done of any version, behind hop-by-hop
/// options. Source: RFC 2710 §3, RFC 3810 §5.
[[nodiscard]] bool is_listener_discovery(const rte_mbuf* m) noexcept;

/// Takes a checked packet for this node, to a group or not, and punts it.
///
/// Errors: kNdInvalid (RFC 4861 §6.1, §7.1, §8.1: hop limit, length), kIpMartianSource
///         (unspecified, and neither neighbour nor listener discovery), kLocalFromSelf (no ingress
///         interface), and those of Punt.
void ip6_deliver(Context& c, const Ingress& in, rte_mbuf* m, bool group) noexcept;

}  // namespace ipoib::fwd
