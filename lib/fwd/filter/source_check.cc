// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/filter/source_check.h"

#include <array>

#include "lib/base/contract.h"
#include "lib/fwd/ip_traits.h"

namespace ipoib::fwd {
namespace {

using table::InterfaceId;
using table::NextHop;
using table::NextHopIndex;
using table::NextHopKind;

/// True if one of the configured paths of a group leaves by the interface. A gateway that does not
/// answer may still send.
bool has_path(const Context& c, const NextHop& group, InterfaceId iface) noexcept {
  for (NextHopIndex i = group.neighbour + (1U << group.bucket_bits); i < table::kMaxNextHops; ++i) {
    const NextHop slot = c.next_hops.get(i);
    if (slot.kind != NextHopKind::kConnected) break;
    if (slot.iface == iface) return true;
  }
  return false;
}

/// True if a packet from a source with this route may come from the interface.
bool is_allowed(const Context& c, NextHopIndex route, SourceCheck check,
                InterfaceId iface) noexcept {
  const NextHop hop = c.next_hops.get(route);
  switch (hop.kind) {
    case NextHopKind::kConnected:
    case NextHopKind::kGateway: return check == SourceCheck::kLoose || hop.iface == iface;
    case NextHopKind::kGroup: return check == SourceCheck::kLoose || has_path(c, hop, iface);
    // The input stage passes only packets that claim an own address, which management refutes.
    case NextHopKind::kLocal:
    case NextHopKind::kLocalDown: return true;
    case NextHopKind::kNone:
    case NextHopKind::kBroadcast:
    case NextHopKind::kBlackhole:
    case NextHopKind::kUnreachable:
    case NextHopKind::kProhibited: break;
  }
  return false;
}

/// Numbers of the routes to the sources of a burst.
using Routes = std::array<NextHopIndex, kMaxBurst>;

template <class V, class Packets>
void check(Context& c, const Ingress& in, const Routes& routes, Packets& ip) noexcept {
  const SourceCheck check = c.interfaces[in.iface].source_check.load(std::memory_order_relaxed);
  DropBin bin{c.trace, in.counters.drops};
  // Sources of packets that follow each other often have one route.
  NextHopIndex last = table::kNextHopNone;
  bool allowed = false;
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < ip.n; ++i) {
    rte_mbuf* const m = ip.pkts[i];
    expects(m->data_len >= sizeof(typename V::Hdr), "the packet has a header of its version");
    if (routes[i] != last) allowed = is_allowed(c, last = routes[i], check, in.iface);
    if (!allowed && !V::source_stays(*rte_pktmbuf_mtod(m, const typename V::Hdr*))) {
      bin.add(m, Drop::kIpSourceCheck);
      continue;
    }
    ip.pkts[kept] = m;
    ip.dst[kept++] = ip.dst[i];
  }
  ip.n = kept;
}

}  // namespace

void source_check4(Context& c, const Ingress& in, Ip4Burst& ip) noexcept {
  const table::PrefixTable::View prefixes = c.prefixes.view();
  Routes routes;
  for (std::size_t i = 0; i < ip.n; ++i)
    routes[i] = prefixes.lookup(rte_pktmbuf_mtod(ip.pkts[i], const wire::Ipv4Hdr*)->src.host());
  check<Ip4Traits>(c, in, routes, ip);
}

void source_check6(Context& c, const Ingress& in, Ip6Burst& ip) noexcept {
  std::array<wire::IpAddr, kMaxBurst> sources;
  for (std::size_t i = 0; i < ip.n; ++i)
    sources[i] = rte_pktmbuf_mtod(ip.pkts[i], const wire::Ipv6Hdr*)->src;
  Routes routes;
  c.prefixes6.lookup({sources.data(), ip.n}, routes);
  check<Ip6Traits>(c, in, routes, ip);
}

}  // namespace ipoib::fwd
