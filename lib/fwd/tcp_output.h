// SPDX-License-Identifier: BSD-3-Clause
// Stage tcp_output: TCP packets that are too large for where they go leave in segments.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Takes a routed packet that starts at its IP header and is larger than `mtu`; its segments leave
/// through Tx. False, and the packet is still the caller's: the interface does not offer it, or the
/// packet is none that may be cut (TcpCut::possible).
///
/// Errors: kNoMbuf, counted once, where mbufs run out; segments before that have left.
[[nodiscard]] bool tcp_output(Context& c, const table::Neighbour& to, const InterfaceEntry& entry,
                              wire::EtherType type, rte_mbuf* m, std::uint16_t mtu,
                              DropBin& bin) noexcept;

}  // namespace ipoib::fwd
