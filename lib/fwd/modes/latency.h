// SPDX-License-Identifier: BSD-3-Clause
// Forward mode latency, the receiving side: time-stamped packets of this process that returned.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Both take checked unicast packets. Those with a time stamp of this process are recorded in
/// Context::latency; all packets then go to rxonly.
void latency4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept;
void latency6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept;

}  // namespace ipoib::fwd
