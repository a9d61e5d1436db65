// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip_route.h"

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "lib/fwd/copies/directed_broadcast.h"
#include "lib/fwd/flow_hash.h"
#include "lib/fwd/ip6_local.h"
#include "lib/fwd/ip_output.h"
#include "lib/fwd/ip_traits.h"
#include "lib/fwd/tcp_gro.h"

namespace ipoib::fwd {
namespace {

using table::Neighbour;
using table::NeighbourState;
using table::NextHop;
using table::NextHopIndex;
using table::NextHopKind;
using wire::IcmpError;
using wire::IpAddr;

/// Results of the tables for a burst.
struct Candidates {
  /// Null: the tables name no neighbour, or this worker does not have it.
  std::array<Neighbour*, kMaxBurst> to;
  std::array<NextHopIndex, kMaxBurst> next_hop;
};

struct Route4 : Ip4Traits {
  using Packets = Ip4Burst;
  static constexpr IcmpError kExpired = wire::kTtlExceeded;
  static constexpr IcmpError kNoRoute = wire::unreachable4(wire::IcmpUnreachable::kNet);
  static constexpr IcmpError kNoHost = wire::unreachable4(wire::IcmpUnreachable::kHost);
  static constexpr IcmpError kUnreachable = kNoHost;
  static constexpr IcmpError kProhibited = wire::unreachable4(wire::IcmpUnreachable::kProhibited);
  /// Octets that a redirect quotes. Source: RFC 1812 §4.3.2.3.
  static constexpr std::uint32_t kQuoted = 576;

  static IpAddr address(std::uint32_t dst) noexcept { return IpAddr::v4(dst); }
  static void increment_hops(Hdr& hdr) noexcept {
    ++hdr.ttl;
    set_ip4_checksum(hdr, hdr.header_len());
  }
  static std::uint32_t flow_hash(const Context& c, const rte_mbuf* m) noexcept {
    return flow_hash4(m, c.next_hops.flow_seed());
  }
  /// A redirect cannot name an IPv6 gateway.
  static bool is_redirect_target(const Hdr& /*hdr*/, const Neighbour& to) noexcept {
    return to.addr.is_v4();
  }
  static Neighbour* neighbour(Context& c, table::InterfaceId iface, std::uint32_t dst) noexcept {
    return c.neighbours->lookup_v4(iface, dst);
  }
  static void look_up(const Context& c, const Packets& pkts, Candidates& out) noexcept;
  static void deliver(Context& c, const Ingress& in, rte_mbuf* m) noexcept { c.punt.local(in, m); }
};

struct Route6 : Ip6Traits {
  using Packets = Ip6Burst;
  static constexpr IcmpError kExpired = wire::kHopLimitExceeded;
  static constexpr IcmpError kNoRoute = wire::unreachable6(wire::Icmp6Unreachable::kNoRoute);
  static constexpr IcmpError kNoHost = wire::unreachable6(wire::Icmp6Unreachable::kAddress);
  static constexpr IcmpError kUnreachable = kNoRoute;
  static constexpr IcmpError kProhibited = wire::unreachable6(wire::Icmp6Unreachable::kProhibited);
  /// Octets that a redirect quotes. Source: RFC 4861 §4.6.3.
  static constexpr std::uint32_t kQuoted = wire::kMinIpv6Mtu;

  static const IpAddr& address(const IpAddr& dst) noexcept { return dst; }
  static void increment_hops(Hdr& hdr) noexcept { ++hdr.hop_limit; }
  static std::uint32_t flow_hash(const Context& c, const rte_mbuf* m) noexcept {
    return flow_hash6(m, c.next_hops.flow_seed());
  }
  /// Hosts accept no other targets. Source: RFC 4861 §8.1.
  static bool is_redirect_target(const Hdr& hdr, const Neighbour& to) noexcept {
    return wire::is_link_local6(to.addr) || to.addr == hdr.dst;
  }
  static Neighbour* neighbour(Context& c, table::InterfaceId iface, const IpAddr& dst) noexcept {
    return c.neighbours->lookup(iface, dst);
  }
  static void look_up(const Context& c, const Packets& pkts, Candidates& out) noexcept;
  static void deliver(Context& c, const Ingress& in, rte_mbuf* m) noexcept {
    ip6_deliver(c, in, m, false);
  }
};

/// The next hop of a packet, which is never a group.
template <class V>
NextHop next_hop_of(const Context& c, NextHopIndex index, const rte_mbuf* m) noexcept {
  const NextHop hop = c.next_hops.get(index);
  if (hop.kind != NextHopKind::kGroup) [[likely]]
    return hop;
  return c.next_hops.member(hop, V::flow_hash(c, m));
}

/// Neighbours are scattered in memory: this loop over the burst overlaps their cache misses.
void Route4::look_up(const Context& c, const Packets& pkts, Candidates& out) noexcept {
  const table::PrefixTable::View prefixes = c.prefixes.view();
  table::NeighbourTable& neighbours = *c.neighbours;
  const std::size_t n = pkts.n;
  for (std::size_t i = 0; i < n; ++i) {
    const NextHopIndex index = prefixes.lookup(pkts.dst[i]);
    Neighbour* to = nullptr;
    if (table::is_adjacency(index)) [[likely]] {
      to = &neighbours.entry(table::neighbour_of(index));
    } else if (const NextHop hop = next_hop_of<Route4>(c, index, pkts.pkts[i]);
               hop.kind == NextHopKind::kGateway) {
      to = neighbours.at(hop.neighbour);
    }
    rte_prefetch0(to);  // null is harmless
    out.to[i] = to;
    out.next_hop[i] = index;
  }
}

/// The prefix table has no hosts: the neighbours of connected prefixes are found by their hashes,
/// in steps whose cache misses overlap.
void Route6::look_up(const Context& c, const Packets& pkts, Candidates& out) noexcept {
  table::NeighbourTable& neighbours = *c.neighbours;
  const std::size_t n = pkts.n;
  c.prefixes6.lookup({pkts.dst.data(), n}, out.next_hop);
  std::array<std::uint32_t, kMaxBurst> hash;
  std::array<table::InterfaceId, kMaxBurst> iface;  // kNoInterface: no connected prefix.
  NextHopIndex index = table::kNextHopNone;
  NextHop hop;
  for (std::size_t i = 0; i < n; ++i) {
    // Packets with one next hop often follow each other.
    if (out.next_hop[i] != index) [[unlikely]]
      hop = c.next_hops.get(index = out.next_hop[i]);
    const NextHop one =
        hop.kind == NextHopKind::kGroup ? c.next_hops.member(hop, flow_hash(c, pkts.pkts[i])) : hop;
    iface[i] = one.kind == NextHopKind::kConnected ? one.iface : table::kNoInterface;
    hash[i] = neighbours.hash(one.iface, pkts.dst[i]);
    neighbours.prefetch_slot(hash[i]);
    out.to[i] = one.kind == NextHopKind::kGateway ? neighbours.at(one.neighbour) : nullptr;
    rte_prefetch0(out.to[i]);
  }
  for (std::size_t i = 0; i < n; ++i) neighbours.prefetch_entry(hash[i]);
  for (std::size_t i = 0; i < n; ++i)
    if (iface[i] != table::kNoInterface) [[likely]]
      out.to[i] = neighbours.find(hash[i], iface[i], pkts.dst[i]);
}

/// Handles a route that leads to no neighbour.
template <class V>
void not_forwarded(Context& c, const Ingress& in, rte_mbuf* m, const NextHop& hop,
                   DropBin& bin) noexcept {
  switch (hop.kind) {
    case NextHopKind::kLocal: return V::deliver(c, in, m);
    case NextHopKind::kLocalDown:
      if (V::kType == wire::EtherType::kIpv4) break;
      // While the address is tentative, packets to it are discarded (RFC 4862 §5.4).
      if (c.interfaces[hop.iface].is_up()) return bin.add(m, Drop::kLocalUnsupported);
      return c.punt.icmp_error(in, m, Drop::kLinkDown, V::kNoHost);
    case NextHopKind::kBroadcast:
      if (V::kType == wire::EtherType::kIpv4) return bin.add(m, Drop::kIpBroadcast);
      break;
    case NextHopKind::kBlackhole: return bin.add(m, Drop::kIpBlackhole);
    case NextHopKind::kUnreachable:
      return c.punt.icmp_error(in, m, Drop::kIpNoRoute, V::kUnreachable);
    case NextHopKind::kProhibited:
      return c.punt.icmp_error(in, m, Drop::kIpProhibited, V::kProhibited);
    default: break;
  }
  c.punt.icmp_error(in, m, Drop::kIpNoRoute, V::kNoRoute);
}

/// Handles a neighbour that is unknown (null) or not valid.
template <class V>
void unresolved(Context& c, const Ingress& in, rte_mbuf* m, const NextHop& hop,
                const Neighbour* neighbour, const IpAddr& dst, DropBin& bin) noexcept {
  const table::InterfaceId iface = neighbour != nullptr ? neighbour->iface : hop.iface;
  if (iface >= c.interfaces.size()) return bin.add(m, Drop::kIpNoRoute);
  if (!c.interfaces[iface].is_up()) {
    // The host may be on another interface that shares the subnet. Management knows or asks.
    if (c.interfaces[iface].proxy && hop.kind == NextHopKind::kConnected)
      return c.punt.neighbour_wanted(in, m, iface, dst);
    return c.punt.icmp_error(in, m, Drop::kLinkDown, V::kNoHost);
  }
  if (neighbour != nullptr && neighbour->state == NeighbourState::kFailed)
    return c.punt.icmp_error(in, m, Drop::kNeighbourFailed, V::kNoHost);
  if (neighbour != nullptr) return c.punt.neighbour_wanted(in, m, iface, neighbour->addr);
  if (hop.kind == NextHopKind::kGateway) return bin.add(m, Drop::kNeighbourGone);
  c.punt.neighbour_wanted(in, m, iface, dst);
}

/// Decrements the TTL. If it has expired, punts the packet for an ICMP error and returns false.
template <class V>
[[gnu::always_inline]] inline bool decrement_or_punt(Context& c, const Ingress& in,
                                                     rte_mbuf* m) noexcept {
  auto& hdr = *rte_pktmbuf_mtod(m, typename V::Hdr*);
  if (V::hops(hdr) <= 1) [[unlikely]] {
    c.punt.icmp_error(in, m, Drop::kIpTtlExceeded, V::kExpired);
    return false;
  }
  V::decrement_hops(hdr);
  return true;
}

/// Requests a redirect for a packet, its TTL already decremented, that leaves on its ingress link:
/// a sender on that link has a better first hop. Source: RFC 1812 §5.2.7.2, RFC 4861 §8.2.
template <class V>
[[gnu::noinline]] void request_redirect(Context& c, const Ingress& in, const rte_mbuf* m,
                                        const Neighbour& to) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const typename V::Hdr*);
  if (!V::is_redirect_target(hdr, to) ||
      !c.punt.may_redirect(in, V::source(hdr), V::destination(hdr)))
    return;
  const NextHop back = V::route_to_source(c, hdr);
  if (back.kind != NextHopKind::kConnected || back.iface != in.iface) return;
  rte_mbuf* const copy = rte_pktmbuf_copy(m, c.fragment_pool, 0, V::kQuoted);
  if (copy == nullptr) return;
  c.trace.copied(m, copy);
  V::increment_hops(*rte_pktmbuf_mtod(copy, typename V::Hdr*));
  c.punt.redirect_wanted(in, copy, to.addr);
}

/// The hops of routed packets, for IpOutput::send_run().
template <class V>
struct Hops {
  [[gnu::always_inline]] static bool may_pass(const std::byte* ip,
                                              const Neighbour& /*to*/) noexcept {
    return V::hops(*reinterpret_cast<const typename V::Hdr*>(ip)) > 1;
  }
  [[gnu::always_inline]] static void pass(std::byte* ip) noexcept {
    V::decrement_hops(*reinterpret_cast<typename V::Hdr*>(ip));
  }
};

/// Finds the neighbour of a packet whose candidate is not valid: its neighbour has no prefix of its
/// own, or this worker does not know it yet.
template <class V, class Address>
Neighbour* find(Context& c, const NextHop& hop, const Address& dst) noexcept {
  if (hop.kind == NextHopKind::kConnected) return V::neighbour(c, hop.iface, dst);
  return hop.kind == NextHopKind::kGateway ? c.neighbours->at(hop.neighbour) : nullptr;
}

bool is_valid(const Neighbour* to) noexcept {
  return to != nullptr && to->state == NeighbourState::kValid;
}

/// Returns the neighbour of such a packet. Null: the packet was dropped or punted.
template <class V>
[[gnu::noinline]] Neighbour* lookup_slow(Context& c, const Ingress& in,
                                         const typename V::Packets& pkts, std::size_t i,
                                         NextHopIndex index, Ttl ttl, DropBin& bin) noexcept {
  rte_mbuf* const m = pkts.pkts[i];
  NextHop hop = next_hop_of<V>(c, index, m);
  if (hop.kind == NextHopKind::kBroadcast && hop.neighbour != table::kNoNeighbour &&
      ttl == Ttl::kDecrement) {
    net_broadcast(c, in, m, hop.neighbour, bin);
    return nullptr;
  }
  // Management makes a broadcast address a neighbour, with the link-layer address of all hosts.
  const bool broadcast = hop.kind == NextHopKind::kBroadcast && may_broadcast(c, in, hop.iface);
  if (broadcast) hop.kind = NextHopKind::kConnected;
  if (hop.kind != NextHopKind::kConnected && hop.kind != NextHopKind::kGateway) {
    not_forwarded<V>(c, in, m, hop, bin);
    return nullptr;
  }
  Neighbour* const neighbour = find<V>(c, hop, pkts.dst[i]);
  if (ttl == Ttl::kDecrement &&
      !c.filter.accepts<V::kV4>(m, neighbour != nullptr ? neighbour->iface : hop.iface,
                                FilterDirection::kOut)) [[unlikely]] {
    bin.add(m, Drop::kIpFilter);
    return nullptr;
  }
  const auto& hdr = *rte_pktmbuf_mtod(m, const typename V::Hdr*);
  if (broadcast && ttl == Ttl::kDecrement && V::hops(hdr) > 1 &&
      !is_within_limit(c, in, V::source(hdr), hop.iface)) {
    bin.add(m, Drop::kIpBroadcastLimit);
    return nullptr;
  }
  if (neighbour != nullptr && neighbour->state == NeighbourState::kValid) return neighbour;
  if (ttl == Ttl::kKeep || decrement_or_punt<V>(c, in, m))
    unresolved<V>(c, in, m, hop, neighbour, V::address(pkts.dst[i]), bin);
  return nullptr;
}

/// Tells the trace which route and neighbour the packets have.
template <class V>
[[gnu::cold]] void trace_routes(Context& c, const typename V::Packets& pkts,
                                const Candidates& candidates) noexcept {
  for (std::size_t i = 0; i < pkts.n; ++i) {
    const NextHop hop = next_hop_of<V>(c, candidates.next_hop[i], pkts.pkts[i]);
    c.trace.routed(pkts.pkts[i], V::address(pkts.dst[i]), hop, find<V>(c, hop, pkts.dst[i]));
  }
}

template <class V>
void look_up(Context& c, const typename V::Packets& pkts, Candidates& out) noexcept {
  V::look_up(c, pkts, out);
  if (c.trace.active()) [[unlikely]]
    trace_routes<V>(c, pkts, out);
}

/// Takes out the packets that the rules of their egress drop. Packets without a valid candidate pass
/// the rules in lookup_slow().
template <class V>
[[gnu::noinline]] void filter_egress(Context& c, typename V::Packets& pkts, Candidates& candidates,
                                     DropBin& bin) noexcept {
  std::array<table::InterfaceId, kMaxBurst> egress;
  FilterTable::Scope scope = 0;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    egress[i] = is_valid(candidates.to[i]) ? candidates.to[i]->iface : table::kNoInterface;
    scope |= c.filter.scope(egress[i], FilterDirection::kOut);
  }
  if (scope == 0) return;  // the rules are for other interfaces
  const std::uint64_t accepted =
      c.filter.accepted<V::kV4>(pkts.span(), egress.data(), FilterDirection::kOut);
  std::uint16_t kept = 0;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    if ((accepted >> i & 1) == 0) {
      bin.add(pkts.pkts[i], Drop::kIpFilter);
      continue;
    }
    pkts.pkts[kept] = pkts.pkts[i];
    pkts.dst[kept] = pkts.dst[i];
    candidates.to[kept] = candidates.to[i];
    candidates.next_hop[kept++] = candidates.next_hop[i];
  }
  pkts.n = kept;
}

template <class V, Ttl kTtl>
void route_and_send(Context& c, const Ingress& in, typename V::Packets& pkts) noexcept {
  Candidates candidates;
  look_up<V>(c, pkts, candidates);
  DropBin bin{c.trace, in.counters.drops};
  if (kTtl == Ttl::kDecrement && c.filter.has_egress()) [[unlikely]]
    filter_egress<V>(c, pkts, candidates, bin);
  IpOutput<V::kType> output{c, in, bin};
  using H = std::conditional_t<kTtl == Ttl::kDecrement, Hops<V>, AnyHops>;
  // Only the first packet of a run may cause a redirect, so that packets that return to their link
  // are sent in runs too. When its sender follows the redirect, that of another sender is first.
  const auto may_redirect = [&](const Neighbour& to) {
    return kTtl == Ttl::kDecrement && to.iface == in.iface && !output.same_egress(to);
  };
  const std::size_t n = pkts.n;
  for (std::size_t i = 0; i < n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    Neighbour*& to = candidates.to[i];
    if (!is_valid(to)) [[unlikely]] {
      output.end();  // The worker itself may answer a solicitation.
      to = lookup_slow<V>(c, in, pkts, i, candidates.next_hop[i], kTtl, bin);
      if (to == nullptr) continue;
    }
    if (!may_redirect(*to)) [[likely]]
      if (const std::size_t sent =
              output.template send_run<H>(pkts.span(), candidates.to.data(), i);
          sent != i) [[likely]] {
        i = sent - 1;
        continue;
      }
    if (kTtl == Ttl::kDecrement && !decrement_or_punt<V>(c, in, m)) [[unlikely]]
      continue;
    if (may_redirect(*to)) [[unlikely]]
      request_redirect<V>(c, in, m, *to);
    output.send(m, *to);
  }
}

/// A separate function, because its arrays would enlarge the stack frame of every burst.
template <class V>
[[gnu::noinline]] void route_with_gro(Context& c, const Ingress& in,
                                      typename V::Packets& pkts) noexcept {
  Candidates candidates;
  look_up<V>(c, pkts, candidates);
  RoutedBurst routed;
  {
    DropBin bin{c.trace, in.counters.drops};
    if (c.filter.has_egress()) [[unlikely]]
      filter_egress<V>(c, pkts, candidates, bin);
    for (std::size_t i = 0; i < pkts.n; ++i) {
      rte_mbuf* const m = pkts.pkts[i];
      Neighbour* to = candidates.to[i];
      if (!is_valid(to))
        to = lookup_slow<V>(c, in, pkts, i, candidates.next_hop[i], Ttl::kDecrement, bin);
      if (to == nullptr || !decrement_or_punt<V>(c, in, m)) continue;
      if (to->iface == in.iface) [[unlikely]]
        request_redirect<V>(c, in, m, *to);
      routed.push(m, *to);
    }
  }
  tcp_gro(c, in, routed);
  ip_output<V::kType>(c, in, routed);
}

template <class V>
[[gnu::always_inline]] inline void route(Context& c, const Ingress& in, typename V::Packets& pkts,
                                         Ttl ttl) noexcept {
  if (ttl == Ttl::kKeep) return route_and_send<V, Ttl::kKeep>(c, in, pkts);
  if (gro_enabled(c, in)) [[unlikely]]
    return route_with_gro<V>(c, in, pkts);
  route_and_send<V, Ttl::kDecrement>(c, in, pkts);
}

}  // namespace

void ip4_route(Context& c, const Ingress& in, Ip4Burst& pkts, Ttl ttl) noexcept {
  route<Route4>(c, in, pkts, ttl);
}

void ip6_route(Context& c, const Ingress& in, Ip6Burst& pkts, Ttl ttl) noexcept {
  route<Route6>(c, in, pkts, ttl);
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
