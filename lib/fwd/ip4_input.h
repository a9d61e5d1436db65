// Stage ip4_input: only well-formed IPv4 packets that may be forwarded or delivered go on.
#pragma once

#include <span>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv4 header, cuts off what follows the total length (padding
/// of the link), and hands on what passes.
///
/// Shape:  pkts.size() <= kMaxBurst, out empty; order kept.
/// Errors: kIpRunt, kIpVersion, kIpHeaderLength, kIpTotalLength, kIpChecksum, kIpMartianSource,
///         kIpMartianDestination, kIpMulticast, kIpBroadcast.
/// Source: RFC 1812 §5.2.2, §5.3.7; RFC 3927 §7; RFC 6890.
void ip4_input(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts,
               Ip4Burst& out) noexcept;

/// Takes packets that came by link-layer broadcast or multicast: all are dropped, under what is
/// wrong with them, or as kIpMulticast or kIpBroadcast.
void ip4_input_broadcast(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts) noexcept;

}  // namespace ipoib::fwd
