// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip4_route.h"

#include <array>
#include <atomic>
#include <span>

#include "lib/fwd/flow_hash.h"
#include "lib/fwd/ip4_header.h"
#include "lib/fwd/ip4_output.h"
#include "lib/fwd/tcp_gro.h"

namespace ipoib::fwd {
namespace {

using table::Neighbour;
using table::NeighbourState;
using table::NextHop;
using table::NextHopIndex;
using table::NextHopKind;
using wire::IcmpUnreachable;

/// Handles a route that leads to no neighbour.
void not_forwarded(Context& c, const Ingress& in, rte_mbuf* m, NextHopKind kind,
                   DropBin& bin) noexcept {
  switch (kind) {
    case NextHopKind::kLocal: return c.punt.local(in, m);
    case NextHopKind::kBroadcast: return bin.add(m, Drop::kIpBroadcast);
    case NextHopKind::kBlackhole: return bin.add(m, Drop::kIpBlackhole);
    case NextHopKind::kUnreachable:
      return c.punt.icmp_error(in, m, Drop::kIpNoRoute, wire::unreachable4(IcmpUnreachable::kHost));
    default:
      return c.punt.icmp_error(in, m, Drop::kIpNoRoute, wire::unreachable4(IcmpUnreachable::kNet));
  }
}

/// Handles a neighbour that is unknown (null) or not valid.
void unresolved(Context& c, const Ingress& in, rte_mbuf* m, const NextHop& hop,
                const Neighbour* neighbour, std::uint32_t dst, DropBin& bin) noexcept {
  const table::InterfaceId iface = neighbour != nullptr ? neighbour->iface : hop.iface;
  if (iface >= c.interfaces.size()) return bin.add(m, Drop::kIpNoRoute);
  if (!c.interfaces[iface].is_up())
    return c.punt.icmp_error(in, m, Drop::kLinkDown, wire::unreachable4(IcmpUnreachable::kHost));
  if (neighbour != nullptr && neighbour->state == NeighbourState::kFailed)
    return c.punt.icmp_error(in, m, Drop::kNeighbourFailed,
                             wire::unreachable4(IcmpUnreachable::kHost));
  if (neighbour != nullptr) return c.punt.neighbour_wanted(in, m, iface, neighbour->addr);
  if (hop.kind == NextHopKind::kGateway) return bin.add(m, Drop::kNeighbourGone);
  c.punt.neighbour_wanted(in, m, iface, wire::IpAddr::v4(dst));
}

/// Decrements the TTL. If it has expired, punts the packet for an ICMP error and returns false.
[[gnu::always_inline]] inline bool decrement_ttl_or_punt(Context& c, const Ingress& in,
                                                         rte_mbuf* m) noexcept {
  auto& hdr = *rte_pktmbuf_mtod(m, wire::Ipv4Hdr*);
  if (hdr.ttl <= 1) [[unlikely]] {
    c.punt.icmp_error(in, m, Drop::kIpTtlExceeded, wire::kTtlExceeded);
    return false;
  }
  decrement_ttl(hdr);
  return true;
}

/// Octets that an ICMP error quotes. Source: RFC 1812 §4.3.2.3.
constexpr std::uint32_t kQuoted = 576;

/// Requests a redirect for a packet, its TTL already decremented, that leaves on its ingress link:
/// a sender on that link has a better first hop. Source: RFC 1812 §5.2.7.2.
[[gnu::noinline]] void request_redirect(Context& c, const Ingress& in, const rte_mbuf* m,
                                        const Neighbour& to) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  if (!c.punt.may_redirect(in, wire::IpAddr::v4(hdr.src.host()), wire::IpAddr::v4(hdr.dst.host())))
    return;
  const NextHop back = c.next_hops.get(c.prefixes.lookup(hdr.src.host()));
  if (back.kind != NextHopKind::kConnected || back.iface != in.iface) return;
  rte_mbuf* const copy = rte_pktmbuf_copy(m, c.fragment_pool, 0, kQuoted);
  if (copy == nullptr) return;
  c.trace.copied(m, copy);
  auto& came = *rte_pktmbuf_mtod(copy, wire::Ipv4Hdr*);
  ++came.ttl;
  set_ip4_checksum(came, came.header_len());
  c.punt.redirect_wanted(in, copy, to.addr);
}

/// Results of the prefix table for a burst.
struct Candidates {
  std::array<Neighbour*, kMaxBurst> to;  ///< Null: the prefix names no neighbour.
  std::array<NextHopIndex, kMaxBurst> next_hop;
};

/// The hops of routed packets, for LinkTx::send_run().
struct Hops {
  static bool may_pass(const std::byte* ip, const Neighbour& /*to*/) noexcept {
    return reinterpret_cast<const wire::Ipv4Hdr*>(ip)->ttl > 1;
  }
  static void pass(std::byte* ip) noexcept { decrement_ttl(*reinterpret_cast<wire::Ipv4Hdr*>(ip)); }
};

/// The next hop of a packet, which is never a group.
NextHop next_hop_of(const Context& c, NextHopIndex index, const rte_mbuf* m) noexcept {
  const NextHop hop = c.next_hops.get(index);
  if (hop.kind != NextHopKind::kGroup) [[likely]]
    return hop;
  return c.next_hops.member(hop, flow_hash4(m, c.next_hops.flow_seed()));
}

/// Neighbours are scattered in memory: this loop over the burst overlaps their cache misses.
void prefetch_lookup(const Context& c, const Ip4Burst& pkts, Candidates& out) noexcept {
  const table::PrefixTable::View prefixes = c.prefixes.view();
  table::NeighbourTable& neighbours = *c.neighbours;
  const std::size_t n = pkts.n;
  for (std::size_t i = 0; i < n; ++i) {
    const NextHopIndex index = prefixes.lookup(pkts.dst[i]);
    Neighbour* to = nullptr;
    if (table::is_adjacency(index)) [[likely]] {
      to = &neighbours.entry(table::neighbour_of(index));
    } else if (const NextHop hop = next_hop_of(c, index, pkts.pkts[i]);
               hop.kind == NextHopKind::kGateway) {
      to = neighbours.at(hop.neighbour);
    }
    rte_prefetch0(to);  // null is harmless
    out.to[i] = to;
    out.next_hop[i] = index;
  }
}

/// Finds the neighbour of a packet whose candidate is not valid: its neighbour has no prefix of its
/// own, or this worker does not know it yet.
Neighbour* find(Context& c, const NextHop& hop, std::uint32_t dst) noexcept {
  if (hop.kind == NextHopKind::kConnected) return c.neighbours->lookup_v4(hop.iface, dst);
  return hop.kind == NextHopKind::kGateway ? c.neighbours->at(hop.neighbour) : nullptr;
}

/// Returns the neighbour of such a packet. Null: the packet was dropped or punted.
[[gnu::noinline]] Neighbour* lookup_slow(Context& c, const Ingress& in, rte_mbuf* m, Ttl ttl,
                                         NextHopIndex index, std::uint32_t dst,
                                         DropBin& bin) noexcept {
  const NextHop hop = next_hop_of(c, index, m);
  if (hop.kind != NextHopKind::kConnected && hop.kind != NextHopKind::kGateway) {
    not_forwarded(c, in, m, hop.kind, bin);
    return nullptr;
  }
  Neighbour* const neighbour = find(c, hop, dst);
  if (neighbour != nullptr && neighbour->state == NeighbourState::kValid) return neighbour;
  if (ttl == Ttl::kKeep || decrement_ttl_or_punt(c, in, m))
    unresolved(c, in, m, hop, neighbour, dst, bin);
  return nullptr;
}

bool is_valid(const Neighbour* to) noexcept {
  return to != nullptr && to->state == NeighbourState::kValid;
}

/// Tells the trace which route and neighbour the packets have.
[[gnu::cold]] void trace_routes(Context& c, const Ip4Burst& pkts,
                                const Candidates& candidates) noexcept {
  for (std::size_t i = 0; i < pkts.n; ++i) {
    const NextHop hop = next_hop_of(c, candidates.next_hop[i], pkts.pkts[i]);
    c.trace.routed(pkts.pkts[i], wire::IpAddr::v4(pkts.dst[i]), hop, find(c, hop, pkts.dst[i]));
  }
}

template <Ttl kTtl>
void route_and_send(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept {
  Candidates candidates;
  prefetch_lookup(c, pkts, candidates);
  if (c.trace.active()) [[unlikely]]
    trace_routes(c, pkts, candidates);
  DropBin bin{c.trace, in.counters.drops};
  Ip4Output output{c, in, bin};
  // Only the first packet to an egress may cause a redirect. When its sender follows that, the
  // packet of another sender is first.
  const auto may_redirect = [&](const Neighbour& to) {
    return to.iface == in.iface && !output.same_egress(to);
  };
  const std::size_t n = pkts.n;
  for (std::size_t i = 0; i < n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    Neighbour*& to = candidates.to[i];
    if (!is_valid(to)) [[unlikely]] {
      to = lookup_slow(c, in, m, kTtl, candidates.next_hop[i], pkts.dst[i], bin);
      if (to == nullptr) continue;
    }
    if (kTtl == Ttl::kDecrement && !may_redirect(*to)) [[likely]]
      if (const std::size_t sent = output.send_run<Hops>(pkts.span(), candidates.to.data(), i);
          sent != i) [[likely]] {
        i = sent - 1;
        continue;
      }
    if (kTtl == Ttl::kDecrement && !decrement_ttl_or_punt(c, in, m)) [[unlikely]]
      continue;
    if (kTtl == Ttl::kDecrement && may_redirect(*to)) [[unlikely]]
      request_redirect(c, in, m, *to);
    output.send(m, *to);
  }
}

/// A separate function, because its arrays would enlarge the stack frame of every burst.
[[gnu::noinline]] void route_with_gro(Context& c, const Ingress& in,
                                      const Ip4Burst& pkts) noexcept {
  Candidates candidates;
  prefetch_lookup(c, pkts, candidates);
  if (c.trace.active()) [[unlikely]]
    trace_routes(c, pkts, candidates);
  RoutedBurst routed;
  {
    DropBin bin{c.trace, in.counters.drops};
    for (std::size_t i = 0; i < pkts.n; ++i) {
      rte_mbuf* const m = pkts.pkts[i];
      Neighbour* to = candidates.to[i];
      if (!is_valid(to))
        to = lookup_slow(c, in, m, Ttl::kDecrement, candidates.next_hop[i], pkts.dst[i], bin);
      if (to == nullptr || !decrement_ttl_or_punt(c, in, m)) continue;
      if (to->iface == in.iface) [[unlikely]]
        request_redirect(c, in, m, *to);
      routed.push(m, *to);
    }
  }
  tcp_gro(c, in, routed);
  ip4_output(c, in, routed);
}

}  // namespace

void ip4_route(Context& c, const Ingress& in, const Ip4Burst& pkts, Ttl ttl) noexcept {
  if (ttl == Ttl::kKeep) return route_and_send<Ttl::kKeep>(c, in, pkts);
  if (gro_enabled(c, in)) [[unlikely]]
    return route_with_gro(c, in, pkts);
  route_and_send<Ttl::kDecrement>(c, in, pkts);
}

}  // namespace ipoib::fwd
