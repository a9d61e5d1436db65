#include "lib/fwd/ip4_output.h"

#include <algorithm>
#include <atomic>

#include "lib/fwd/eth_output.h"
#include "lib/fwd/ip4_fragment.h"
#include "lib/fwd/ipoib_output.h"

namespace ipoib::fwd {
namespace {

[[gnu::always_inline]] inline void send(Context& c, const table::Neighbour& to,
                                        const InterfaceEntry& entry, rte_mbuf* m,
                                        DropBin& bin) noexcept {
  const bool ready =
      to.mode == table::NeighbourMode::kEthernet ? eth_output(m, to, entry) : ipoib_output(m, to);
  if (!ready) [[unlikely]]
    return bin.add(m, Drop::kNoMbuf);
  c.tx.enqueue(to.iface, m);
}

void too_big(Context& c, const Ingress& in, const table::Neighbour& to, const InterfaceEntry& entry,
             rte_mbuf* m, std::uint16_t mtu, DropBin& bin) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  if ((hdr.flags_offset.host() & wire::Ipv4Hdr::kDontFragment) != 0)
    return c.punt.icmp_error(in, m, Drop::kIpTooBig,
                             unreachable(wire::IcmpUnreachable::kFragmentationNeeded, mtu));
  Burst fragments;
  if (!ip4_fragment(m, mtu, c.fragment_pool, fragments)) return bin.add(m, Drop::kIpFragmentFailed);
  rte_pktmbuf_free(m);
  for (rte_mbuf* fragment : fragments.span()) send(c, to, entry, fragment, bin);
}

}  // namespace

void ip4_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept {
  DropBin bin{in.counters.drops};
  // Out of the context: what is stored into packets may lie anywhere, for all the compiler knows.
  const InterfaceEntry* const interfaces = c.interfaces.data();
  const std::uint32_t now_s = c.now_s;
  const std::size_t n = pkts.n;
  for (std::size_t i = 0; i < n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    table::Neighbour& to = *pkts.to[i];
    const InterfaceEntry& entry = interfaces[to.iface];
    if (!entry.up.load(std::memory_order_relaxed)) [[unlikely]] {
      c.punt.icmp_error(in, m, Drop::kLinkDown, unreachable(wire::IcmpUnreachable::kHost));
      continue;
    }
    table::NeighbourCache::touch(to, now_s);
    const std::uint16_t mtu = std::min(to.mtu, entry.mtu.load(std::memory_order_relaxed));
    if (m->pkt_len > mtu) [[unlikely]]
      too_big(c, in, to, entry, m, mtu, bin);
    else
      send(c, to, entry, m, bin);
  }
}

}  // namespace ipoib::fwd
