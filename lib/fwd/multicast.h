// SPDX-License-Identifier: BSD-3-Clause
// Stage multicast: copies packets to groups, of both versions, for this node and for each link that
// wants them. It also sends packets to a neighbour or group regardless of the routes.
#pragma once

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

enum class IpVersion : std::uint8_t { k4, k6 };

/// Takes checked packets whose destination is a group and applies the delivery of the ingress
/// interface: it may punt a copy, and sends one copy on each interface of the delivery, with the
/// TTL decremented once. Copies are deep, because links write their headers in front, and not all
/// devices send chains. A delivery may limit interfaces to the reverse path: they get a copy only
/// if the packet arrived on the interface that leads to its source, so that routers on the same
/// links do not loop it. `forwarding` off: only delivery to this node. On interfaces of a multicast
/// router, IGMP and MLD to any group are punted and not forwarded.
///
/// Where Linux is the multicast router, a packet without an entry for its source and interface goes to
/// Linux, if limits allow, and not elsewhere: so each packet is forwarded by workers or by Linux, and
/// not by both. Copies of others go to Linux as table::ForLinux says.
///
/// Each copy must pass the filter rules of its egress.
///
/// Errors: kIpMulticast (no delivery, or none beyond link-local scope), kIpFilter, kIpMulticastRpf (arrived on
///         another interface than the one that leads to its source or that Linux expects),
///         kIpTtlExceeded (without an
///         ICMP error), kNoMbuf, kLinkDown, kGroupAbsent, and those of ip6_deliver, the output
///         stages and Punt. Each copy that fails counts its own drop; interfaces that scope, TTL or
///         reverse path exclude count none if the packet is delivered or has another egress.
/// Source: RFC 1112 §7; RFC 4291 §2.7; RFC 4443 §2.4 e; RFC 4391 §10.
void multicast_input(Context& c, const Ingress& in, const Burst& pkts, IpVersion version,
                     bool forwarding) noexcept;

/// Adds a delivery, or replaces the one with its key. Returns false if the table is full or
/// delivery.in is kNoInterface.
bool set_delivery(Context& c, const table::Delivery& delivery) noexcept;

/// Takes a packet that starts at its IP header and sends it on `iface`, which exists, to its
/// destination there, or to the all-routers group there. The TTL stays.
///
/// Errors: kIpRunt, kIpVersion, kLinkDown, kGroupAbsent, kNeighbourFailed, and those of the output
///         stages and Punt.
void send_on_interface(Context& c, const Ingress& in, rte_mbuf* m, table::InterfaceId iface,
                       bool to_routers) noexcept;

}  // namespace ipoib::fwd
