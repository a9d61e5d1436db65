// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip6_route.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <span>

#include "lib/fwd/flow_hash.h"
#include "lib/fwd/ip6_header.h"
#include "lib/fwd/ip6_local.h"
#include "lib/fwd/ip6_output.h"
#include "lib/fwd/tcp_gro.h"

namespace ipoib::fwd {
namespace {

using table::Neighbour;
using table::NeighbourState;
using table::NextHop;
using table::NextHopKind;
using wire::Ipv6Hdr;

/// Handles a route that leads to no neighbour.
void not_forwarded(Context& c, const Ingress& in, rte_mbuf* m, const NextHop& hop,
                   DropBin& bin) noexcept {
  switch (hop.kind) {
    case NextHopKind::kLocal: return ip6_deliver(c, in, m, false);
    case NextHopKind::kLocalDown:
      // While the address is tentative, packets to it are discarded (RFC 4862 §5.4).
      if (c.interfaces[hop.iface].is_up()) return bin.add(m, Drop::kLocalUnsupported);
      return c.punt.icmp_error(in, m, Drop::kLinkDown,
                               wire::unreachable6(wire::Icmp6Unreachable::kAddress));
    case NextHopKind::kBlackhole: return bin.add(m, Drop::kIpBlackhole);
    case NextHopKind::kUnreachable:
      return c.punt.icmp_error(in, m, Drop::kIpNoRoute,
                               wire::unreachable6(wire::Icmp6Unreachable::kAddress));
    default:
      return c.punt.icmp_error(in, m, Drop::kIpNoRoute,
                               wire::unreachable6(wire::Icmp6Unreachable::kNoRoute));
  }
}

/// Handles a neighbour that is unknown (null) or not valid.
void unresolved(Context& c, const Ingress& in, rte_mbuf* m, const NextHop& hop,
                const Neighbour* neighbour, const wire::IpAddr& dst, DropBin& bin) noexcept {
  const table::InterfaceId iface = neighbour != nullptr ? neighbour->iface : hop.iface;
  if (iface >= c.interfaces.size()) return bin.add(m, Drop::kIpNoRoute);
  if (!c.interfaces[iface].is_up())
    return c.punt.icmp_error(in, m, Drop::kLinkDown,
                             wire::unreachable6(wire::Icmp6Unreachable::kAddress));
  if (neighbour != nullptr && neighbour->state == NeighbourState::kFailed)
    return c.punt.icmp_error(in, m, Drop::kNeighbourFailed,
                             wire::unreachable6(wire::Icmp6Unreachable::kAddress));
  if (neighbour != nullptr) return c.punt.neighbour_wanted(in, m, iface, neighbour->addr);
  if (hop.kind == NextHopKind::kGateway) return bin.add(m, Drop::kNeighbourGone);
  c.punt.neighbour_wanted(in, m, iface, dst);
}

/// Octets that a redirect can quote. Source: RFC 4861 §4.6.3.
constexpr std::uint32_t kQuoted = wire::kMinIpv6Mtu;

/// Requests a redirect for a packet, its hop limit already decremented, that leaves on its ingress
/// link: a sender on that link has a better first hop. Source: RFC 4861 §8.2.
[[gnu::noinline]] void request_redirect(Context& c, const Ingress& in, const rte_mbuf* m,
                                        const Neighbour& to) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv6Hdr*);
  // Hosts accept no other targets.
  if (!wire::is_link_local6(to.addr) && to.addr != hdr.dst) return;
  if (!c.punt.may_redirect(in, hdr.src, hdr.dst)) return;
  const NextHop back = c.next_hops.get(c.prefixes6.lookup(hdr.src));
  if (back.kind != NextHopKind::kConnected || back.iface != in.iface) return;
  rte_mbuf* const copy = rte_pktmbuf_copy(m, c.fragment_pool, 0, kQuoted);
  if (copy == nullptr) return;
  c.trace.copied(m, copy);
  ++rte_pktmbuf_mtod(copy, Ipv6Hdr*)->hop_limit;
  c.punt.redirect_wanted(in, copy, to.addr);
}

/// Prefetches the neighbours of the burst, so that their cache misses overlap. out[i]: hash of
/// packet i's neighbour, if its route is kConnected.
void prefetch_neighbours(const Context& c, std::span<const table::NextHopIndex> index,
                         const Ip6Burst& pkts, std::span<std::uint32_t> out) noexcept {
  table::NeighbourTable& neighbours = *c.neighbours;
  for (std::size_t i = 0; i < index.size(); ++i) {
    out[i] = neighbours.hash(c.next_hops.get(index[i]).iface, pkts.dst[i]);
    neighbours.prefetch_slot(out[i]);
  }
  for (std::size_t i = 0; i < index.size(); ++i) neighbours.prefetch_entry(out[i]);
}

/// Tells the trace which route and neighbour the packets have.
[[gnu::cold]] void trace_routes(Context& c, const Ip6Burst& pkts,
                                std::span<const table::NextHopIndex> index) noexcept {
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    NextHop hop = c.next_hops.get(index[i]);
    if (hop.kind == NextHopKind::kGroup)
      hop = c.next_hops.member(hop, flow_hash6(m, c.next_hops.flow_seed()));
    const Neighbour* to = nullptr;
    if (hop.kind == NextHopKind::kConnected)
      to = c.neighbours->lookup(hop.iface, pkts.dst[i]);
    else if (hop.kind == NextHopKind::kGateway)
      to = c.neighbours->at(hop.neighbour);
    c.trace.routed(m, pkts.dst[i], hop, to);
  }
}

}  // namespace

void ip6_route(Context& c, const Ingress& in, const Ip6Burst& pkts, Ttl ttl) noexcept {
  std::array<table::NextHopIndex, kMaxBurst> index;
  c.prefixes6.lookup(std::span{pkts.dst}.first(pkts.n), index);
  std::array<std::uint32_t, kMaxBurst> hash;
  prefetch_neighbours(c, std::span{index}.first(pkts.n), pkts, hash);
  if (c.trace.active()) [[unlikely]]
    trace_routes(c, pkts, index);

  DropBin bin{c.trace, in.counters.drops};
  RoutedBurst routed;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    NextHop hop = c.next_hops.get(index[i]);
    if (hop.kind == NextHopKind::kGroup) [[unlikely]] {
      hop = c.next_hops.member(hop, flow_hash6(m, c.next_hops.flow_seed()));
      hash[i] = c.neighbours->hash(hop.iface, pkts.dst[i]);
    }
    Neighbour* neighbour = nullptr;
    if (hop.kind == NextHopKind::kConnected) {
      neighbour = c.neighbours->find(hash[i], hop.iface, pkts.dst[i]);
    } else if (hop.kind == NextHopKind::kGateway) {
      neighbour = c.neighbours->at(hop.neighbour);
    } else {
      not_forwarded(c, in, m, hop, bin);
      continue;
    }
    if (ttl == Ttl::kDecrement) {
      auto& hdr = *rte_pktmbuf_mtod(m, Ipv6Hdr*);
      if (hdr.hop_limit <= 1) [[unlikely]] {
        c.punt.icmp_error(in, m, Drop::kIpTtlExceeded, wire::kHopLimitExceeded);
        continue;
      }
      --hdr.hop_limit;
    }
    if (neighbour == nullptr || neighbour->state != NeighbourState::kValid) [[unlikely]] {
      unresolved(c, in, m, hop, neighbour, pkts.dst[i], bin);
      continue;
    }
    if (neighbour->iface == in.iface && ttl == Ttl::kDecrement) [[unlikely]]
      request_redirect(c, in, m, *neighbour);
    routed.push(m, *neighbour);
  }
  if (ttl == Ttl::kDecrement && gro_enabled(c, in)) [[unlikely]]
    tcp_gro(c, in, routed);
  ip6_output(c, in, routed);
}

void ip6_local_only(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept {
  DropBin bin{c.trace, in.counters.drops};
  for (std::size_t i = 0; i < pkts.n; ++i) {
    if (c.next_hops.get(c.prefixes6.lookup(pkts.dst[i])).kind == NextHopKind::kLocal)
      ip6_deliver(c, in, pkts.pkts[i], false);
    else
      bin.add(pkts.pkts[i], Drop::kForwardingStopped);
  }
}

}  // namespace ipoib::fwd
