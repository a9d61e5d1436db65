// SPDX-License-Identifier: BSD-3-Clause
// Stage ip6_output: the link header of a routed packet, if the link of its neighbour can carry it.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv6 header; they leave through Tx. Of what is too big the
/// sender is told, as routers do not cut IPv6 packets; but for TCP where the interface offers
/// segmentation.
///
/// Errors: kLinkDown, kIp6LinkMtu, kIpTooBig, kNoMbuf (no room for the link header, or
///         none for a segment).
/// Source: RFC 8200 §5; RFC 4443 §3.2.
void ip6_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
