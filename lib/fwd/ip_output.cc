// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip_output.h"

#include <algorithm>

#include "lib/fwd/ip4_fragment.h"
#include "lib/fwd/tcp_gso_output.h"

namespace ipoib::fwd {
namespace {

using wire::EtherType;

/// Sends the fragments of a packet, which it frees.
void send_fragments(Context& c, rte_mbuf* m, const table::Neighbour& to,
                    const InterfaceEntry& entry, std::uint16_t mtu, DropBin& bin) noexcept {
  Ip4Fragmenter fragmenter{m, mtu, c.fragment_pool};
  while (!fragmenter.done()) {
    Burst fragments;
    if (!fragmenter.next(fragments)) return bin.add(m, Drop::kIpFragmentFailed);
    // The last fragment stands for the packet itself.
    c.stats.copies.add(fragments.n - (fragmenter.done() ? 1U : 0U));
    c.trace.cut(m, fragments.span(), false, mtu);
    for (rte_mbuf* fragment : fragments.span())
      link_output(c, to, entry, EtherType::kIpv4, fragment, bin);
  }
  c.trace.discarded(m);
  rte_pktmbuf_free(m);
}

}  // namespace

template <EtherType kType>
void IpOutput<kType>::send(rte_mbuf* m, table::Neighbour& to) noexcept {
  link_.select(to);
  if (!link_.up()) [[unlikely]]
    return link_down(m);
  table::NeighbourTable::touch(to, now_s_);
  const std::uint16_t mtu = link_.mtu(to);
  if (mtu < kMinMtu) [[unlikely]]
    return bin_.add(m, Drop::kIp6LinkMtu);
  if (m->pkt_len > mtu) [[unlikely]]
    return too_big(m, to, mtu);
  link_.send(to, m, bin_);
}

template <EtherType kType>
void IpOutput<kType>::link_down(rte_mbuf* m) const noexcept {
  c_.punt.icmp_error(in_, m, Drop::kLinkDown,
                     kType == EtherType::kIpv4
                         ? wire::unreachable4(wire::IcmpUnreachable::kHost)
                         : wire::unreachable6(wire::Icmp6Unreachable::kAddress));
}

template <EtherType kType>
void IpOutput<kType>::too_big(rte_mbuf* m, const table::Neighbour& to, std::uint16_t mtu) noexcept {
  const InterfaceEntry& entry = link_.entry();
  link_.end();
  if (tcp_gso_output(c_, to, entry, kType, m, mtu, bin_)) return;
  if constexpr (kType == EtherType::kIpv6) {
    c_.punt.icmp_error(in_, m, Drop::kIpTooBig, wire::packet_too_big(mtu));
  } else {
    const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
    if ((hdr.flags_offset.host() & wire::Ipv4Hdr::kDontFragment) == 0)
      return send_fragments(c_, m, to, entry, mtu, bin_);
    if (hdr.dst.host() >> 28 == 0xe) return bin_.add(m, Drop::kIpTooBig);  // RFC 1812 §4.3.2.7
    c_.punt.icmp_error(in_, m, Drop::kIpTooBig,
                       wire::unreachable4(wire::IcmpUnreachable::kFragmentationNeeded, mtu));
  }
}

template <EtherType kType>
void ip_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept {
  DropBin bin{c.trace, in.counters.drops};
  IpOutput<kType> output{c, in, bin};
  for (std::size_t i = 0; i < pkts.n;) {
    const std::size_t sent =
        output.template send_run<AnyHops>({pkts.pkts.data(), pkts.n}, pkts.to.data(), i);
    if (sent == i) output.send(pkts.pkts[i], *pkts.to[i]);
    i = std::max(sent, i + 1);
  }
}

template class IpOutput<EtherType::kIpv4>;
template class IpOutput<EtherType::kIpv6>;
template void ip_output<EtherType::kIpv4>(Context&, const Ingress&, const RoutedBurst&) noexcept;
template void ip_output<EtherType::kIpv6>(Context&, const Ingress&, const RoutedBurst&) noexcept;

}  // namespace ipoib::fwd
