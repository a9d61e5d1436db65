// SPDX-License-Identifier: BSD-3-Clause
// Forward mode rxonly, also used by every test mode for packets that are not its own: they are
// counted and freed. The node stays reachable: packets for it that are not UDP are punted.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Both take checked unicast packets; they are counted as WorkerStats::consumed and freed, or
/// punted.
void rxonly4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept;
void rxonly6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept;

}  // namespace ipoib::fwd
