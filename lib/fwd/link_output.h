// The link header of a packet whose neighbour is known, by the kind of the link.
#pragma once

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"
#include "lib/fwd/eth_output.h"
#include "lib/fwd/ipoib_output.h"

namespace ipoib::fwd {

/// Takes a packet that fits the link; it leaves through Tx. Errors: kNoMbuf (no headroom).
[[gnu::always_inline]] inline void link_output(Context& c, const table::Neighbour& to,
                                               const InterfaceEntry& entry, wire::EtherType type,
                                               rte_mbuf* m, DropBin& bin) noexcept {
  const bool ready = to.mode == table::NeighbourMode::kEthernet ? eth_output(m, to, entry, type)
                                                                : ipoib_output(m, to, type);
  if (!ready) [[unlikely]]
    return bin.add(m, Drop::kNoMbuf);
  c.tx.enqueue(to.iface, m);
}

}  // namespace ipoib::fwd
