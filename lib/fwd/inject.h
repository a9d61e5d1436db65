// SPDX-License-Identifier: BSD-3-Clause
// Stage inject: what the management lcore sends down, applied between bursts.
#pragma once

#include <cstdint>

#include "lib/fwd/context.h"

struct rte_ring;

namespace ipoib::fwd {

/// Takes at most 32 messages off the ring, in order. Returns how many.
///
/// Errors: messages for numbers or interfaces that are not there count as WorkerStats::bad_messages
///         and change nothing; their packets as kIbTxInvalid under local counters. Packets without
///         room for an IP header: kIpRunt. Else those of the route and output stages
///         and of send_on.
std::uint32_t inject(Context& c, rte_ring* ring) noexcept;

}  // namespace ipoib::fwd
