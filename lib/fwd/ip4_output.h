// Stage ip4_output: fits a routed packet to the link of its neighbour and gives it its link header.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Takes packets that start at their IPv4 header; they leave through Tx. What is too big for the
/// neighbour is cut into fragments where it may be, else its sender is told.
///
/// Errors: kLinkDown, kIpTooBig, kIpFragmentFailed, kNoMbuf (no room for the link header).
void ip4_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
