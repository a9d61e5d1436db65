// SPDX-License-Identifier: BSD-3-Clause
// Stage ip6_output: prepends the link header of a routed packet, if its neighbour's link can carry
// it.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv6 header; they leave through Tx. A packet that is too big
/// causes an ICMP error to its sender, because routers do not fragment IPv6 packets. Only TCP is
/// cut, into segments, if the interface offers segmentation.
///
/// Errors: kLinkDown, kIp6LinkMtu, kIpTooBig, kNoMbuf (no headroom for the link header, or no mbuf
///         for a segment).
/// Source: RFC 8200 §5; RFC 4443 §3.2.
void ip6_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
