// SPDX-License-Identifier: BSD-3-Clause
// Forward mode io: frames cross between paired Ethernet ports unchanged.
#pragma once

#include <span>
#include <vector>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Returns the peer of each interface, indexed by InterfaceId: Ethernet ports are paired in order,
/// first with second, third with fourth; kNoInterface for all other interfaces.
std::vector<table::InterfaceId> io_peers(std::span<const InterfaceEntry> interfaces);

/// Takes packets with their link header; they leave through Tx on `peer`. Counts rx_bytes.
///
/// Errors: kForwardingStopped, kNoForwardPeer, kLinkDown.
void io_forward(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts,
                table::InterfaceId peer, bool forwarding) noexcept;

}  // namespace ipoib::fwd
