// SPDX-License-Identifier: BSD-3-Clause
// Stage ip6_local: IPv6 packets for this node, neighbour discovery apart from the rest.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// The message is ICMPv6 type 133 to 137, in the first header or behind hop-by-hop options.
[[nodiscard]] bool is_neighbour_discovery(const rte_mbuf* m) noexcept;

/// The message is a listener query, report or done of any version, behind hop-by-hop options.
/// Source: RFC 2710 §3, RFC 3810 §5.
[[nodiscard]] bool is_listener_discovery(const rte_mbuf* m) noexcept;

/// Takes a checked packet for this node, to a group or not; it goes up.
///
/// Errors: kNdInvalid (RFC 4861 §6.1, §7.1, §8.1: hop limit, length), kIpMartianSource
/// (unspecified,
///         and neither neighbour nor listener discovery), and those of Punt.
void ip6_deliver(Context& c, const Ingress& in, rte_mbuf* m, bool group) noexcept;

}  // namespace ipoib::fwd
