// Stage ip4_input: only well-formed IPv4 packets that may be forwarded or delivered go on.
#pragma once

#include <span>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv4 header, cuts off what follows the total length (padding
/// of the link), and hands on what passes, what is for groups in `groups`.
///
/// Shape:  pkts.size() <= kMaxBurst, out and groups empty; order kept within each output.
/// Errors: kIpRunt, kIpVersion, kIpHeaderLength, kIpTotalLength, kIpChecksum, kIpMartianSource,
///         kIpMartianDestination, kIpBroadcast.
/// Source: RFC 1812 §5.2.2, §5.3.7; RFC 3927 §7; RFC 6890.
void ip4_input(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts, Ip4Burst& out,
               Burst& groups) noexcept;

/// Takes packets that came by link-layer broadcast or multicast: those for groups go on in `groups`
/// behind what is there, all others are dropped, under what is wrong with them, or as kIpBroadcast.
///
/// Shape: groups has room for all.
void ip4_input_broadcast(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts,
                         Burst& groups) noexcept;

}  // namespace ipoib::fwd
