// SPDX-License-Identifier: BSD-3-Clause
// Stage tcp_gso_output: GSO. It sends TCP packets that are too large for their egress as segments.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Takes a routed packet that starts at its IP header and is larger than `mtu`; its segments leave
/// through Tx. Returns false, and the packet stays the caller's, if the interface does not offer
/// segmentation or the packet cannot be cut (TcpGso::possible).
///
/// Errors: kNoMbuf, counted once, if mbufs run out; the segments before have left.
[[nodiscard]] bool tcp_gso_output(Context& c, const table::Neighbour& to,
                                  const InterfaceEntry& entry, wire::EtherType type, rte_mbuf* m,
                                  std::uint16_t mtu, DropBin& bin) noexcept;

}  // namespace ipoib::fwd
