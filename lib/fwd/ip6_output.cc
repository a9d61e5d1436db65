// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip6_output.h"

#include <atomic>

#include "lib/fwd/link_output.h"
#include "lib/fwd/tcp_gso_output.h"

namespace ipoib::fwd {
namespace {

/// LinkTx::send_run(): packets whose hop limit is decremented, on a link that can carry IPv6.
struct FitsIpv6 {
  static bool may_pass(const std::byte* /*ip*/, const table::Neighbour& to) noexcept {
    return to.mtu >= wire::kMinIpv6Mtu;
  }
  static void pass(std::byte* /*ip*/) noexcept {}
};

void too_big(Context& c, const Ingress& in, rte_mbuf* m, const table::Neighbour& to,
             const InterfaceEntry& entry, std::uint16_t mtu, DropBin& bin) noexcept {
  if (tcp_gso_output(c, to, entry, wire::EtherType::kIpv6, m, mtu, bin)) return;
  c.punt.icmp_error(in, m, Drop::kIpTooBig, wire::packet_too_big(mtu));
}

}  // namespace

void ip6_output(Context& c, const Ingress& in, const RoutedBurst& pkts) noexcept {
  DropBin bin{c.trace, in.counters.drops};
  LinkTx<wire::EtherType::kIpv6> link{c};
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    table::Neighbour& to = *pkts.to[i];
    link.select(to);
    if (link.mtu(to) >= wire::kMinIpv6Mtu) [[likely]]
      if (const std::size_t sent =
              link.send_run<FitsIpv6>({pkts.pkts.data(), pkts.n}, pkts.to.data(), i, c.now_s);
          sent != i) {
        i = sent - 1;
        continue;
      }
    if (!link.up()) [[unlikely]] {
      c.punt.icmp_error(in, m, Drop::kLinkDown,
                        wire::unreachable6(wire::Icmp6Unreachable::kAddress));
      continue;
    }
    table::NeighbourTable::touch(to, c.now_s);
    const std::uint16_t mtu = link.mtu(to);
    if (mtu < wire::kMinIpv6Mtu) [[unlikely]] {
      bin.add(m, Drop::kIp6LinkMtu);
    } else if (m->pkt_len > mtu) [[unlikely]] {
      const InterfaceEntry& entry = link.entry();
      link.end();
      too_big(c, in, m, to, entry, mtu, bin);
    } else {
      link.send(to, m, bin);
    }
  }
}

}  // namespace ipoib::fwd
