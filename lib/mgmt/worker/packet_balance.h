// SPDX-License-Identifier: BSD-3-Clause
// The sum of a node's packets by origin and by fate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ipoib::mgmt {

/// Totals since the start, which no clear resets. On a node at rest, where no packet is in flight
/// or held,
///   received + originated + generated + copies =
///       sent + lost + dropped + joined + consumed + delivered,
/// so that every lost packet is counted, and none twice.
struct PacketBalance {
  std::uint64_t received = 0;    ///< Packets received by interfaces, and drained at device stops.
  std::uint64_t originated = 0;  ///< ARP, ND, IGMP, MLD, ICMP errors and replies of management.
  std::uint64_t generated = 0;   ///< Packets of a generating forward mode.
  std::uint64_t copies = 0;      ///< Additional packets: egress copies, fragments, segments.

  std::uint64_t sent = 0;       ///< Packets that a device accepted and did not discard at once.
  std::uint64_t lost = 0;       ///< Packets that a device discarded at once, and counted.
  std::uint64_t dropped = 0;    ///< Drops under any reason, on an interface or on none.
  std::uint64_t joined = 0;     ///< Packets that became part of others: merged TCP segments.
  std::uint64_t consumed = 0;   ///< Packets that a test forward mode consumed.
  std::uint64_t delivered = 0;  ///< Packets that management took and did not drop.

  [[nodiscard]] std::uint64_t came() const { return received + originated + generated + copies; }
  [[nodiscard]] std::uint64_t went() const {
    return sent + lost + dropped + joined + consumed + delivered;
  }
};

/// Unfinished work of a node, and state that it keeps for a while.
struct Unfinished {
  std::size_t held = 0;         ///< mbufs of packets that wait for their neighbours.
  std::size_t sa_requests = 0;  ///< Requests to the SA, outstanding or waiting to be sent.
  std::size_t connections = 0;  ///< Connections of the CMs, including closed ones.
  std::size_t neighbours = 0;   ///< Numbers of neighbours and groups in use.
  std::size_t timers = 0;       ///< SA clients and CMs that wait for a time.
  std::size_t next_hops = 0;    ///< Gateways of routes, and groups of gateways.
  std::size_t fragments = 0;    ///< Fragments for the node that wait for the rest of their packets.
  std::size_t multicast = 0;    ///< Entries of the multicast table.
};

}  // namespace ipoib::mgmt
