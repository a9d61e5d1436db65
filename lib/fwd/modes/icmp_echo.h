// SPDX-License-Identifier: BSD-3-Clause
// Forward mode icmpecho: the worker itself answers echo requests to any address, as a ping target
// for any host. Source: RFC 792; RFC 4443 §4.2.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Both take checked unicast packets. Echo requests become replies with a fresh TTL and are routed
/// to their senders; fragments, requests to a broadcast address and all other packets go to rxonly.
///
/// Errors: those of ip4_route and ip6_route.
void icmp_echo4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept;
void icmp_echo6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept;

}  // namespace ipoib::fwd
