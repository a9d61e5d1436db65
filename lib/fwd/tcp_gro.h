// SPDX-License-Identifier: BSD-3-Clause
// Stage tcp_gro: generic receive offload (GRO). It merges consecutive TCP segments of a burst for
// one connected neighbour into one packet, as large as that neighbour takes and in no more mbufs
// than its device sends.
//
// It follows the routing of each segment: a link that carries no large packets never gets one, so
// that no packet has to be cut again, and no chain is punted, waits for a neighbour or is copied to
// groups. Looking up 45 routes costs far less than sending 45 packets.
//
// Why not rte_gro: it supports no IPv6, leaves the TCP checksum of the first segment and verifies
// none, merges any segments with the same acknowledgement, and would hold packets in its own
// tables.
#pragma once

#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// True if packets that arrive on `in` are merged.
[[nodiscard]] inline bool gro_enabled(const Context& c, const Ingress& in) noexcept {
  return in.iface < c.interfaces.size() && c.interfaces[in.iface].tcp_offload;
}

/// Takes routed packets that arrived on `in` and merges within this burst. Shape:
/// gro_enabled(c, in).
/// Packets that became part of another leave the burst; all others keep their order. Payload is not
/// copied: the mbufs become a chain.
///
/// Segments of one connection are merged if they follow without a gap, carry data and differ only
/// in sequence number, checksum, IPv4 identification and PSH: same options and acknowledgement, no
/// other flag except ACK and ECE. They must fill the MTU of the ingress port, except the last: a
/// sender of shorter ones knows of a smaller MTU on the path, which the node that cuts the packet
/// at the other end could not know. PSH or a shorter segment ends a packet. Segments with a wrong
/// checksum, IP options or extension headers, and fragments, stay unchanged. TcpGso with the same
/// MTU turns a merged packet back into the original segments.
void tcp_gro(Context& c, const Ingress& in, RoutedBurst& pkts) noexcept;

}  // namespace ipoib::fwd
