// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip4_output.h"

#include <algorithm>

#include "lib/fwd/ip4_fragment.h"
#include "lib/fwd/tcp_gso_output.h"

namespace ipoib::fwd {

void Ip4Output::send(rte_mbuf* m, table::Neighbour& to) noexcept {
  link_.select(to);
  if (!link_.up()) [[unlikely]]
    return link_down(m);
  table::NeighbourTable::touch(to, now_s_);
  if (const std::uint16_t mtu = link_.mtu(to); m->pkt_len > mtu) [[unlikely]]
    too_big(m, to, mtu);
  else
    link_.send(to, m, bin_);
}

void Ip4Output::link_down(rte_mbuf* m) const noexcept {
  c_.punt.icmp_error(in_, m, Drop::kLinkDown, wire::unreachable4(wire::IcmpUnreachable::kHost));
}

void Ip4Output::too_big(rte_mbuf* m, const table::Neighbour& to, std::uint16_t mtu) noexcept {
  const InterfaceEntry& entry = link_.entry();
  link_.end();
  if (tcp_gso_output(c_, to, entry, wire::EtherType::kIpv4, m, mtu, bin_)) return;
  const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  if ((hdr.flags_offset.host() & wire::Ipv4Hdr::kDontFragment) != 0) {
    if (hdr.dst.host() >> 28 == 0xe) return bin_.add(m, Drop::kIpTooBig);  // RFC 1812 §4.3.2.7
    return c_.punt.icmp_error(in_, m, Drop::kIpTooBig,
                              wire::unreachable4(wire::IcmpUnreachable::kFragmentationNeeded, mtu));
  }
  Ip4Fragmenter fragmenter{m, mtu, c_.fragment_pool};
  while (!fragmenter.done()) {
    Burst fragments;
    if (!fragmenter.next(fragments)) return bin_.add(m, Drop::kIpFragmentFailed);
    // The last fragment stands for the packet itself.
    c_.stats.copies.add(fragments.n - (fragmenter.done() ? 1U : 0U));
    c_.trace.cut(m, fragments.span(), false, mtu);
    for (rte_mbuf* fragment : fragments.span())
      link_output(c_, to, entry, wire::EtherType::kIpv4, fragment, bin_);
  }
  c_.trace.discarded(m);
  rte_pktmbuf_free(m);
}

void ip4_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept {
  DropBin bin{c.trace, in.counters.drops};
  Ip4Output output{c, in, bin};
  for (std::size_t i = 0; i < pkts.n;) {
    const std::size_t sent =
        output.send_run<AnyHops>({pkts.pkts.data(), pkts.n}, pkts.to.data(), i);
    if (sent == i) output.send(pkts.pkts[i], *pkts.to[i]);
    i = std::max(sent, i + 1);
  }
}

}  // namespace ipoib::fwd
