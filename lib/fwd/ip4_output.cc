#include "lib/fwd/ip4_output.h"

#include <algorithm>
#include <atomic>

#include "lib/fwd/ip4_fragment.h"
#include "lib/fwd/link_output.h"

namespace ipoib::fwd {
namespace {

constexpr auto kType = wire::EtherType::kIpv4;

void too_big(Context& c, const Ingress& in, const table::Neighbour& to, const InterfaceEntry& entry,
             rte_mbuf* m, std::uint16_t mtu, DropBin& bin) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  if ((hdr.flags_offset.host() & wire::Ipv4Hdr::kDontFragment) != 0) {
    if (hdr.dst.host() >> 28 == 0xe) return bin.add(m, Drop::kIpTooBig);  // RFC 1812 §4.3.2.7
    return c.punt.icmp_error(in, m, Drop::kIpTooBig,
                             unreachable(wire::IcmpUnreachable::kFragmentationNeeded, mtu));
  }
  Burst fragments;
  if (!ip4_fragment(m, mtu, c.fragment_pool, fragments)) return bin.add(m, Drop::kIpFragmentFailed);
  rte_pktmbuf_free(m);
  for (rte_mbuf* fragment : fragments.span()) link_output(c, to, entry, kType, fragment, bin);
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
      link_output(c, to, entry, kType, m, bin);
  }
}

}  // namespace ipoib::fwd
