// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/handoff.h"

#include <rte_ring.h>

#include "lib/fabric/packet_meta.h"

namespace ipoib::fwd {
namespace {

/// Sends over the connection that neighbour `index` has now, or over UD if it has none any more.
/// The packet has its IPoIB header; it is dropped if it is too long for that.
void send_connected(Context& c, table::NeighbourIndex index, rte_mbuf* m) noexcept {
  auto& meta = fabric::meta_of(m).tx;
  const table::Neighbour* const to = c.neighbours->at(index);
  DropBin bin{c.trace, c.ingress(meta.iface).counters.drops};
  if (to == nullptr || to->iface != meta.iface || to->state != table::NeighbourState::kValid)
    return bin.add(m, Drop::kNeighbourGone);
  if (m->pkt_len > to->mtu + sizeof(wire::IpoibHdr)) return bin.add(m, Drop::kIpTooBig);
  if (to->queue != nullptr) return c.tx.enqueue_connected(*to, index, m);
  meta.ah = to->ah;
  meta.qpn = to->qpn;
  c.tx.enqueue(to->iface, m);
}

/// The trace does not know the ingress interface.
[[gnu::cold]] void trace_arrival(Context& c, const Burst& pkts) noexcept {
  for (rte_mbuf* const& m : pkts.span()) {
    const InterfaceEntry& to = c.interfaces[fabric::meta_of(m).tx.iface];
    c.trace.begin({&m, 1}, table::kNoInterface, Tracer::link_header(to));
  }
  c.trace.entered(pkts.span(), msg::trace::Stage::kHandoffInput);
}

}  // namespace

std::uint32_t handoff_input(Context& c, std::span<rte_ring* const> rings) noexcept {
  std::uint32_t total = 0;
  for (rte_ring* ring : rings) {
    Burst burst;
    void** const objects = reinterpret_cast<void**>(burst.pkts.data());
    burst.n =
        static_cast<std::uint16_t>(rte_ring_sc_dequeue_burst(ring, objects, kMaxBurst, nullptr));
    if (c.trace.armed()) [[unlikely]]
      trace_arrival(c, burst);
    for (rte_mbuf* m : burst.span()) {
      const auto& meta = fabric::meta_of(m).tx;
      meta.connected ? send_connected(c, meta.ah, m) : c.tx.enqueue(meta.iface, m);
    }
    total += burst.n;
  }
  return total;
}

}  // namespace ipoib::fwd
