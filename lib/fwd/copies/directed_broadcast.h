// SPDX-License-Identifier: BSD-3-Clause
// Directed broadcasts: which interfaces packets to the broadcast addresses of own prefixes, and of
// their classful nets, may leave by.
#pragma once

#include "lib/fwd/context.h"
#include "lib/table/next_hop.h"

namespace ipoib::fwd {

/// True if the interface lets broadcasts to its prefixes out (InterfaceEntry::directed_broadcast).
/// They never return to their own link, and answers of this node to forged sources are no
/// broadcasts. Source: RFC 1812 §5.3.5.2, RFC 2644.
[[nodiscard]] bool may_broadcast(const Context& c, const Ingress& in,
                                 table::InterfaceId out) noexcept;

/// True if the limit lets a broadcast from `source` leave by `out`, which lets it out.
[[nodiscard]] bool is_within_limit(Context& c, const Ingress& in, const wire::IpAddr& source,
                                   table::InterfaceId out) noexcept;

/// Takes an IPv4 packet to the broadcast address of a classful net. Each interface of its route gets
/// one copy, with the TTL decremented, but never the ingress. The packet must have arrived on the
/// interface that leads to its source, so that routers between two subnets do not loop it. `slots`:
/// the neighbour number of its kBroadcast next hop. No ICMP error follows.
///
/// Errors: kIpBroadcast (no such interface), kIpBroadcastRpf, kIpTtlExceeded; for each copy kIpFilter,
///         kIpBroadcastLimit and those of CopySender.
/// Source: RFC 922 §6.2, §6.3.
void net_broadcast(Context& c, const Ingress& in, rte_mbuf* m, table::NextHopIndex slots,
                   DropBin& bin) noexcept;

}  // namespace ipoib::fwd
