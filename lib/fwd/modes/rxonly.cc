// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/modes/rxonly.h"

#include "lib/fwd/ip6_local.h"

namespace ipoib::fwd {
namespace {

constexpr auto kUdp = static_cast<std::uint8_t>(wire::IpProto::kUdp);

void consume(Context& c, Burst& pkts) noexcept {
  if (pkts.n == 0) return;
  c.trace.consumed(pkts.span());
  rte_pktmbuf_free_bulk(pkts.pkts.data(), pkts.n);
  c.stats.consumed.add(pkts.n);
}

}  // namespace

void rxonly4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept {
  Burst consumed;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    if (rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*)->protocol != kUdp &&
        c.next_hops.get(c.prefixes.lookup(pkts.dst[i])).kind == table::NextHopKind::kLocal)
      c.punt.local(in, m);
    else
      consumed.push(m);
  }
  consume(c, consumed);
}

void rxonly6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept {
  Burst consumed;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    if (rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->next_header != kUdp &&
        c.next_hops.get(c.prefixes6.lookup(pkts.dst[i])).kind == table::NextHopKind::kLocal)
      ip6_deliver(c, in, m, false);
    else
      consumed.push(m);
  }
  consume(c, consumed);
}

}  // namespace ipoib::fwd
