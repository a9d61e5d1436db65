#include "lib/fwd/handoff.h"

#include <rte_ring.h>

#include "lib/fabric/packet_meta.h"

namespace ipoib::fwd {

std::uint32_t handoff_input(Context& c, std::span<rte_ring* const> rings) noexcept {
  std::uint32_t total = 0;
  for (rte_ring* ring : rings) {
    Burst burst;
    void** const objects = reinterpret_cast<void**>(burst.pkts.data());
    burst.n =
        static_cast<std::uint16_t>(rte_ring_sc_dequeue_burst(ring, objects, kMaxBurst, nullptr));
    for (rte_mbuf* m : burst.span()) c.tx.enqueue(fabric::meta_of(m).tx.iface, m);
    total += burst.n;
  }
  return total;
}

}  // namespace ipoib::fwd
