// SPDX-License-Identifier: BSD-3-Clause
// Stage inject: applies messages of the management lcore between bursts.
#pragma once

#include <cstdint>

#include "lib/fwd/context.h"

struct rte_ring;

namespace ipoib::fwd {

/// Takes at most 32 messages off the ring, in order. Returns the number of messages.
///
/// Errors: messages that name missing numbers or interfaces count as WorkerStats::bad_messages and
///         change nothing; their packets count as kIbTxInvalid under local counters. Packets that
///         are too short for an IP header count as kIpRunt. Otherwise those of the route and output
///         stages and of send_on_interface.
std::uint32_t inject(Context& c, rte_ring* ring) noexcept;

}  // namespace ipoib::fwd
