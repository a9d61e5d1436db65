// SPDX-License-Identifier: BSD-3-Clause
// Stage ip6_input: passes on only well-formed IPv6 packets that may be forwarded or delivered.
#pragma once

#include <cstdint>
#include <span>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Link-layer destination of a burst.
enum class LinkCast : std::uint8_t { kUnicast, kMulticast };

/// Takes packets that start at their IPv6 header and trims the octets behind the payload length.
/// Unicast packets go to `out`, those for groups to `groups`; link-local ones for this node are
/// punted. While forwarding is off, only neighbour discovery passes.
///
/// Shape:  room for all packets in both; order is kept within each.
/// Errors: kIpRunt, kIpVersion, kIp6PayloadLength, kIp6Extension, kIpMartianSource,
///         kIpMartianDestination, kIp6Scope, kIpFilter (link-local ones for this node or to be
///         forwarded), kIpBroadcast (unicast by link-layer multicast), kForwardingStopped, and
///         those of ip6_deliver.
/// Source: RFC 8200 §3; RFC 9288 §3.4; RFC 4291 §2.5 to §2.7; RFC 2675 (jumbograms are not accepted).
void ip6_input(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts, LinkCast cast,
               bool forwarding, Ip6Burst& out, Burst& groups) noexcept;

}  // namespace ipoib::fwd
