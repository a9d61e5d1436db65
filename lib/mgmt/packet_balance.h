// SPDX-License-Identifier: BSD-3-Clause
// Where the packets of a node came from and where they went.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ipoib::mgmt {

/// Since the start, whatever was cleared. On a node at rest, where no packet is on its way or held,
///   received + originated + generated + copies =
///       sent + lost + dropped + joined + consumed + delivered,
/// so that no packet is gone without a counter, and none is under two.
struct PacketBalance {
  std::uint64_t received = 0;    ///< By interfaces, and what devices had when they were stopped.
  std::uint64_t originated = 0;  ///< Of management: ARP, ND, IGMP, MLD, ICMP errors and replies.
  std::uint64_t generated = 0;   ///< Of a forward mode that makes packets.
  std::uint64_t copies = 0;      ///< Made of others: for several ways out, fragments, segments.

  std::uint64_t sent = 0;       ///< Taken by a device, and not lost there at once.
  std::uint64_t lost = 0;       ///< Lost there at once, under a reason of the device's.
  std::uint64_t dropped = 0;    ///< Under any reason, of an interface or of none.
  std::uint64_t joined = 0;     ///< Became part of others: merged TCP segments.
  std::uint64_t consumed = 0;   ///< By a forward mode that is a test.
  std::uint64_t delivered = 0;  ///< To management, which drops none of them.

  [[nodiscard]] std::uint64_t came() const { return received + originated + generated + copies; }
  [[nodiscard]] std::uint64_t went() const {
    return sent + lost + dropped + joined + consumed + delivered;
  }
};

/// Work that a node has begun and not ended, and state that it keeps for a while.
struct Unfinished {
  std::size_t held = 0;         ///< mbufs of packets that wait for their neighbours.
  std::size_t asked = 0;        ///< Of the SA, or waiting to be.
  std::size_t connections = 0;  ///< Of the communication managers, those that are over included.
  std::size_t neighbours = 0;   ///< Numbers of neighbours and groups in use.
};

}  // namespace ipoib::mgmt
