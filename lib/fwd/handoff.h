// SPDX-License-Identifier: BSD-3-Clause
// Stage handoff: packets that other workers routed to an interface or a connection of this worker,
// and received packets that they share with it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

#include "lib/base/contract.h"
#include "lib/fwd/context.h"
#include "lib/fwd/engine.h"

struct rte_ring;

namespace ipoib::fwd {

/// An element of a handoff ring: a pointer to an mbuf. Its lowest bit, which is 0 in the address,
/// marks a received packet; any other one is routed.
class HandoffItem {
 public:
  HandoffItem() = default;
  /// The ingress interface travels in rte_mbuf::port, because PacketMeta is in another cache line,
  /// which an Ethernet port does not touch.
  static HandoffItem received(rte_mbuf* m, table::InterfaceId in) noexcept {
    m->port = in;
    HandoffItem item;
    item.word_ = reinterpret_cast<std::uintptr_t>(m) | kReceived;
    return item;
  }

  [[nodiscard]] bool is_received() const noexcept { return (word_ & kReceived) != 0; }
  [[nodiscard]] rte_mbuf* packet() const noexcept {
    return reinterpret_cast<rte_mbuf*>(word_ & ~kReceived);
  }
  /// Shape: is_received().
  [[nodiscard]] table::InterfaceId ingress() const noexcept {
    expects(is_received(), "the packet was received");
    return packet()->port;
  }

 private:
  static constexpr std::uintptr_t kReceived = 1;
  static_assert(alignof(rte_mbuf) > kReceived);

  std::uintptr_t word_;
};
static_assert(sizeof(HandoffItem) == sizeof(void*));

/// Takes a burst off each ring. Returns the number of packets.
///
/// Routed packets have their link header and leave through Tx on PacketMeta::tx.iface. Packets of a
/// connection that another worker has meanwhile are handed on to that worker; those that are handed
/// over later may overtake them. Received packets go through `engine` in bursts of one interface;
/// the worker that received them has counted them.
std::uint32_t handoff_input(Context& c, std::span<rte_ring* const> rings, Engine engine,
                            bool forwarding) noexcept;

}  // namespace ipoib::fwd
