// SPDX-License-Identifier: BSD-3-Clause
// Forward mode rxonly, and what every test mode does with packets that are not its own: they are
// counted and freed. A node stays one that can be reached: what is for it and is not UDP goes up.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Take checked unicast packets; they leave counted as WorkerStats::consumed, or go up.
void rxonly4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept;
void rxonly6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept;

}  // namespace ipoib::fwd
