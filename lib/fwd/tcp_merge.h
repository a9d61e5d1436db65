// SPDX-License-Identifier: BSD-3-Clause
// Stage tcp_merge: consecutive TCP segments of a burst that go to one connected neighbour become
// one packet, as large as that neighbour takes and in no more mbufs than the device there sends.
//
// It stands behind the routing of each segment, not before it: what carries no large packets never
// sees one, so that nothing has to be cut again and no packet in pieces goes up, waits for a
// neighbour or is copied to groups. Looking up 45 routes costs far less than sending 45 packets.
//
// Why not rte_gro: it takes no IPv6, leaves the checksum of TCP as the first segment had it and
// does not look at any, merges whatever has the same acknowledgement, and would hold packets in
// tables of its own.
#pragma once

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// Whether packets that came by `in` are to be merged.
[[nodiscard]] inline bool merges(const Context& c, const Ingress& in) noexcept {
  return in.iface < c.interfaces.size() && c.interfaces[in.iface].tcp_offload;
}

/// Takes routed packets that came by `in`, where merges(), in this burst; packets that went into
/// another are no longer there, all else keeps its order. Payload is not copied: the mbufs become a
/// chain.
///
/// Merged are segments of one connection without gap that carry data and are alike in all but
/// sequence number, checksum and IPv4 identification: no flag but ACK and ECE, options and
/// acknowledgement the same. They must fill the MTU of the port they came by, all but the last: a
/// sender of shorter ones knows of a smaller MTU on the way, which whoever cuts the packet at the
/// other end could not know. PSH or a shorter segment ends a packet. Segments whose checksum is
/// wrong, or that come with IP options, extension headers or as fragments, stay as they are.
/// A merged packet is what TcpCut with the same MTU turns into the very segments it was.
void tcp_merge(Context& c, const Ingress& in, RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
