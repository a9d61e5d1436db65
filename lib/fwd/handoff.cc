// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/handoff.h"

#include <rte_ring.h>

#include <array>

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

/// The trace knows the ingress interface of received packets only.
[[gnu::cold]] void trace_arrival(Context& c, std::span<const HandoffItem> items) noexcept {
  for (const HandoffItem item : items) {
    rte_mbuf* const m = item.packet();
    const bool received = item.is_received();
    const table::InterfaceId in = received ? item.ingress() : table::kNoInterface;
    const table::InterfaceId header = received ? in : fabric::meta_of(m).tx.iface;
    c.trace.begin({&m, 1}, in, Tracer::link_header(c.interfaces[header]));
    c.trace.entered({&m, 1}, msg::trace::Stage::kHandoffInput);
  }
}

/// Packets that another worker received from one interface.
class Received {
 public:
  Received(Context& c, Engine engine, bool forwarding) noexcept
      : c_{c}, engine_{engine}, forwarding_{forwarding} {}

  void push(HandoffItem item) noexcept {
    const table::InterfaceId in = item.ingress();
    if (in != in_) flush();
    in_ = in;
    burst_.push(item.packet());
  }
  void flush() noexcept {
    if (burst_.n != 0) engine_(c_, c_.ingress(in_), burst_, forwarding_);
    burst_.n = 0;
  }

 private:
  Context& c_;
  Engine engine_;
  bool forwarding_;
  table::InterfaceId in_ = table::kNoInterface;
  Burst burst_;
};

}  // namespace

std::uint32_t handoff_input(Context& c, std::span<rte_ring* const> rings, Engine engine,
                            bool forwarding) noexcept {
  std::uint32_t total = 0;
  Received received{c, engine, forwarding};
  for (rte_ring* ring : rings) {
    std::array<HandoffItem, kMaxBurst> items;
    void** const objects = reinterpret_cast<void**>(items.data());
    const unsigned n = rte_ring_sc_dequeue_burst(ring, objects, kMaxBurst, nullptr);
    if (c.trace.armed()) [[unlikely]]
      trace_arrival(c, {items.data(), n});
    for (const HandoffItem item : std::span{items}.first(n)) {
      if (item.is_received()) {
        received.push(item);
        continue;
      }
      rte_mbuf* const m = item.packet();
      const auto& meta = fabric::meta_of(m).tx;
      meta.connected ? send_connected(c, meta.ah, m) : c.tx.enqueue(meta.iface, m);
    }
    received.flush();
    total += n;
  }
  return total;
}

}  // namespace ipoib::fwd
