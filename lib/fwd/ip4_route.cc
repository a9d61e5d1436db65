#include "lib/fwd/ip4_route.h"

#include <array>
#include <atomic>
#include <bit>
#include <span>

#include "lib/fwd/ip4_header.h"

namespace ipoib::fwd {
namespace {

using table::Neighbour;
using table::NeighbourState;
using table::NextHop;
using table::NextHopKind;
using wire::IcmpUnreachable;

/// Addresses, protocol and, but for fragments, ports: the same for all packets of a flow.
std::uint32_t flow_hash(const rte_mbuf* m) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv4Hdr*);
  std::uint64_t key = std::uint64_t{hdr.src.host()} << 32 | hdr.dst.host();
  std::uint64_t more = hdr.protocol;
  const bool ports = hdr.protocol == static_cast<std::uint8_t>(wire::IpProto::kTcp) ||
                     hdr.protocol == static_cast<std::uint8_t>(wire::IpProto::kUdp);
  if (ports && !hdr.is_fragment() && m->data_len >= hdr.header_len() + 4) {
    std::uint32_t both;
    std::memcpy(&both, rte_pktmbuf_mtod_offset(m, const std::byte*, hdr.header_len()),
                sizeof(both));
    more |= std::uint64_t{both} << 8;
  }
  key = (key ^ (key >> 32)) * 0x9e37'79b9'7f4a'7c15ULL + more * 0xff51'afd7'ed55'8ccdULL;
  return static_cast<std::uint32_t>((key ^ (key >> 29)) * 0xc4ce'b9fe'1a85'ec53ULL >> 32);
}

/// The next hop of a packet among those of a group.
NextHop member(const Context& c, const NextHop& group, const rte_mbuf* m) noexcept {
  const auto path = static_cast<std::uint32_t>(std::uint64_t{flow_hash(m)} * group.paths >> 32);
  const std::uint32_t index = group.neighbour + path;
  return index < table::kMaxNextHops ? c.next_hops.get(index) : NextHop{};
}

/// The route leads to no neighbour.
void not_forwarded(Context& c, const Ingress& in, rte_mbuf* m, NextHopKind kind,
                   DropBin& bin) noexcept {
  switch (kind) {
    case NextHopKind::kLocal: return c.punt.local(in, m);
    case NextHopKind::kBroadcast: return bin.add(m, Drop::kIpBroadcast);
    case NextHopKind::kBlackhole: return bin.add(m, Drop::kIpBlackhole);
    case NextHopKind::kUnreachable:
      return c.punt.icmp_error(in, m, Drop::kIpNoRoute, unreachable(IcmpUnreachable::kHost));
    default: return c.punt.icmp_error(in, m, Drop::kIpNoRoute, unreachable(IcmpUnreachable::kNet));
  }
}

/// The neighbour is not known (null), or not valid.
void unresolved(Context& c, const Ingress& in, rte_mbuf* m, const NextHop& hop,
                const Neighbour* neighbour, std::uint32_t dst, DropBin& bin) noexcept {
  const table::InterfaceId iface = neighbour != nullptr ? neighbour->iface : hop.iface;
  if (iface >= c.interfaces.size()) return bin.add(m, Drop::kIpNoRoute);
  if (!c.interfaces[iface].up.load(std::memory_order_relaxed))
    return c.punt.icmp_error(in, m, Drop::kLinkDown, unreachable(IcmpUnreachable::kHost));
  if (neighbour != nullptr && neighbour->state == NeighbourState::kFailed)
    return c.punt.icmp_error(in, m, Drop::kNeighbourFailed, unreachable(IcmpUnreachable::kHost));
  if (neighbour != nullptr) return c.punt.neighbour_wanted(in, m, iface, neighbour->addr);
  if (hop.kind == NextHopKind::kGateway) return bin.add(m, Drop::kNeighbourGone);
  c.punt.neighbour_wanted(in, m, iface, wire::IpAddr::v4(dst));
}

/// Neighbours lie all over the memory: the burst waits for their cache lines together, not one by
/// one. out[i]: hash of packet i's neighbour, where its route is kConnected.
void prefetch_neighbours(const table::NextHopTable& next_hops,
                         const table::NeighbourCache& neighbours,
                         std::span<const table::NextHopIndex> index, const Ip4Burst& pkts,
                         std::span<std::uint32_t> out) noexcept {
  for (std::size_t i = 0; i < index.size(); ++i) {
    out[i] = neighbours.hash_v4(next_hops.get(index[i]).iface, pkts.dst[i]);
    neighbours.prefetch_slot(out[i]);
  }
  for (std::size_t i = 0; i < index.size(); ++i) neighbours.prefetch_entry(out[i]);
}

}  // namespace

void ip4_route(Context& c, const Ingress& in, const Ip4Burst& pkts, Ttl ttl,
               RoutedBurst& out) noexcept {
  std::array<table::NextHopIndex, kMaxBurst> index;
  c.prefixes.lookup(std::span{pkts.dst}.first(pkts.n), index);

  // Out of the context: what is stored into packets may lie anywhere, for all the compiler knows.
  const table::NextHopTable& next_hops = c.next_hops;
  table::NeighbourCache& neighbours = *c.neighbours;
  const std::size_t n = pkts.n;
  std::array<std::uint32_t, kMaxBurst> hash;
  prefetch_neighbours(next_hops, neighbours, std::span{index}.first(n), pkts, hash);
  DropBin bin{in.counters.drops};
  std::uint16_t routed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    rte_mbuf* const m = pkts.pkts[i];
    NextHop hop = next_hops.get(index[i]);
    if (hop.kind == NextHopKind::kGroup) [[unlikely]] {
      hop = member(c, hop, m);
      hash[i] = neighbours.hash_v4(hop.iface, pkts.dst[i]);
    }
    Neighbour* neighbour = nullptr;
    if (hop.kind == NextHopKind::kConnected) {
      neighbour = neighbours.find_v4(hash[i], hop.iface, pkts.dst[i]);
    } else if (hop.kind == NextHopKind::kGateway) {
      neighbour = neighbours.at(hop.neighbour);
    } else {
      not_forwarded(c, in, m, hop.kind, bin);
      continue;
    }
    if (ttl == Ttl::kTakeDown) {
      auto& hdr = *rte_pktmbuf_mtod(m, wire::Ipv4Hdr*);
      if (hdr.ttl <= 1) [[unlikely]] {
        c.punt.icmp_error(in, m, Drop::kIpTtlExceeded, kTtlExceeded);
        continue;
      }
      take_ttl_down(hdr);
    }
    if (neighbour == nullptr || neighbour->state != NeighbourState::kValid) [[unlikely]] {
      unresolved(c, in, m, hop, neighbour, pkts.dst[i], bin);
      continue;
    }
    out.pkts[routed] = m;
    out.to[routed++] = neighbour;
  }
  out.n = routed;
}

}  // namespace ipoib::fwd
