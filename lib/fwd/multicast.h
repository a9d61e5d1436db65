// SPDX-License-Identifier: BSD-3-Clause
// Stage multicast: packets to groups, of both versions: copies for this node and for each link that
// wants them. Also the way out for packets that go to a neighbour or group whatever the routes say.
#pragma once

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

enum class IpVersion : std::uint8_t { k4, k6 };

/// Takes checked packets whose destination is a group. What becomes of them is the delivery of the
/// interface they came by: a copy goes up where it says so, and one to each of its interfaces, the
/// TTL taken down once. Copies are whole: links write their headers in front, and not all devices
/// take packets in pieces. Where the delivery says so, a copy goes only to interfaces that the
/// packet may reach from the way back to its source, so that routers on the same links do not send
/// it round between them. `forwarding` off: this node's own only. On interfaces of a multicast
/// router IGMP and MLD go up and no further, whatever group they are sent to.
///
/// Errors: kIpMulticast (no delivery, or none that is not link-local), kIpMulticastRpf (came by
///         another interface than the one that leads to its source), kIpTtlExceeded (no error is
///         told), kNoMbuf, kLinkDown, kGroupAbsent, and those of ip6_deliver, the output stages and
///         Punt. A packet that goes anywhere at all is counted for the ways it could not go.
/// Source: RFC 1112 §7; RFC 4291 §2.7; RFC 4443 §2.4 e; RFC 4391 §10.
void multicast_input(Context& c, const Ingress& in, const Burst& pkts, IpVersion version,
                     bool forwarding) noexcept;

/// Takes a packet that starts at its IP header and sends it on `iface`, which exists, to its
/// destination there, or to the all-routers group there, TTL as it is.
///
/// Errors: kIpRunt, kIpVersion, kLinkDown, kGroupAbsent, kNeighbourFailed, and those of the output
///         stages and Punt.
void send_on(Context& c, const Ingress& in, rte_mbuf* m, table::InterfaceId iface,
             bool to_routers) noexcept;

}  // namespace ipoib::fwd
