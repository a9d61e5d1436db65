// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/modes/addr_swap.h"

#include <array>
#include <utility>

#include "lib/fwd/ip6_local.h"
#include "lib/fwd/ip_route.h"

namespace ipoib::fwd {
namespace {

using table::NextHopKind;
using wire::IpProto;
using wire::Ipv4Hdr;
using wire::Ipv6Hdr;

bool is(std::uint8_t protocol, IpProto wanted) noexcept {
  return protocol == static_cast<std::uint8_t>(wanted);
}

/// Swaps the ports in the packet's first segment; a packet without ports there stays unchanged.
void swap_ports(rte_mbuf* m, std::size_t header_len, std::uint8_t protocol) noexcept {
  if (!is(protocol, IpProto::kUdp) && !is(protocol, IpProto::kTcp)) return;
  if (m->data_len < header_len + 2 * sizeof(wire::Be16)) return;
  using Ports = std::array<wire::Be16, 2>;
  Ports& ports = *rte_pktmbuf_mtod_offset(m, Ports*, header_len);
  std::swap(ports[0], ports[1]);
}

}  // namespace

void addr_swap4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept {
  Ip4Burst swapped;
  DropBin bin{c.trace, in.counters.drops};
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    auto& hdr = *rte_pktmbuf_mtod(m, Ipv4Hdr*);
    const NextHopKind kind = c.next_hops.get(c.prefixes.lookup(pkts.dst[i])).kind;
    if (kind == NextHopKind::kLocal && !is(hdr.protocol, IpProto::kUdp)) {
      c.punt.local(in, m);
      continue;
    }
    if (kind == NextHopKind::kBroadcast) {
      bin.add(m, Drop::kIpBroadcast);
      continue;
    }
    std::swap(hdr.src, hdr.dst);
    if ((hdr.flags_offset.host() & Ipv4Hdr::kOffsetMask) == 0)
      swap_ports(m, hdr.header_len(), hdr.protocol);
    swapped.push(m, hdr.dst.host());
  }
  ip4_route(c, in, swapped, Ttl::kDecrement);
}

void addr_swap6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept {
  Ip6Burst swapped;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    auto& hdr = *rte_pktmbuf_mtod(m, Ipv6Hdr*);
    if (!is(hdr.next_header, IpProto::kUdp) &&
        c.next_hops.get(c.prefixes6.lookup(pkts.dst[i])).kind == NextHopKind::kLocal) {
      ip6_deliver(c, in, m, false);
      continue;
    }
    std::swap(hdr.src, hdr.dst);
    swap_ports(m, sizeof(hdr), hdr.next_header);
    swapped.push(m, hdr.dst);
  }
  ip6_route(c, in, swapped, Ttl::kDecrement);
}

}  // namespace ipoib::fwd
