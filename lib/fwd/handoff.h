// SPDX-License-Identifier: BSD-3-Clause
// Stage handoff: packets that other workers routed to an interface or a connection of this worker.
#pragma once

#include <cstdint>
#include <span>

#include "lib/fwd/context.h"

struct rte_ring;

namespace ipoib::fwd {

/// Takes a burst off each ring. The packets have their link header and leave through Tx on
/// PacketMeta::tx.iface. Returns the number of packets. Packets of a connection that another worker
/// has meanwhile are handed on to that worker; those that are handed over later may overtake them.
std::uint32_t handoff_input(Context& c, std::span<rte_ring* const> rings) noexcept;

}  // namespace ipoib::fwd
