// The link header of a packet whose neighbour is known, by the kind of the link.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/eth_output.h"
#include "lib/fwd/ipoib_output.h"

namespace ipoib::fwd {

/// Largest IP packet to a neighbour: a connection has its own limit, whatever the link's is.
[[nodiscard]] inline std::uint16_t mtu_of(const table::Neighbour& to,
                                          const InterfaceEntry& entry) noexcept {
  const std::uint16_t link = entry.mtu.load(std::memory_order_relaxed);
  return to.queue != nullptr ? to.mtu : std::min(to.mtu, link);
}

/// Takes a packet that fits the link; it leaves through Tx. Errors: kNoMbuf (no headroom).
[[gnu::always_inline]] inline void link_output(Context& c, const table::Neighbour& to,
                                               const InterfaceEntry& entry, wire::EtherType type,
                                               rte_mbuf* m, DropBin& bin) noexcept {
  const bool ready = to.mode == table::NeighbourMode::kEthernet ? eth_output(m, to, entry, type)
                                                                : ipoib_output(m, to, type);
  if (!ready) [[unlikely]]
    return bin.add(m, Drop::kNoMbuf);
  if (to.queue != nullptr)
    c.tx.enqueue_connected(to, c.neighbours->index_of(to), m);
  else
    c.tx.enqueue(to.iface, m);
}

}  // namespace ipoib::fwd
