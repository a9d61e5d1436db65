// SPDX-License-Identifier: BSD-3-Clause
// Stage handoff: packets that other workers routed to an interface of this one.
#pragma once

#include <cstdint>
#include <span>

#include "lib/fwd/context.h"

struct rte_ring;

namespace ipoib::fwd {

/// Takes a burst off each ring; the packets have their link header and leave through Tx by
/// PacketMeta::tx.iface. Returns how many.
std::uint32_t handoff_input(Context& c, std::span<rte_ring* const> rings) noexcept;

}  // namespace ipoib::fwd
