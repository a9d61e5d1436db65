// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip6_local.h"

#include <array>
#include <cstddef>
#include <optional>

#include "lib/fwd/ip6_header.h"
#include "lib/wire/icmpv6.h"

namespace ipoib::fwd {
namespace {

constexpr std::uint8_t kFirstNd = 133;
/// Minimum octets of router solicitation, router advertisement, neighbour solicitation, neighbour
/// advertisement and redirect, without options. Source: RFC 4861 §4.
constexpr std::array<std::uint8_t, 5> kNdLen = {8, 16, 24, 24, 40};

constexpr bool is_nd(std::uint8_t type) {
  return type >= kFirstNd && type < kFirstNd + kNdLen.size();
}
/// True for listener query, report and done of both versions. Source: RFC 2710 §3, RFC 3810 §5.
constexpr bool is_mld(std::uint8_t type) {
  return (type >= 130 && type <= 132) || type == 143;
}

struct Icmp6 {
  std::uint8_t type;
  std::uint32_t offset;
};

/// Returns the ICMPv6 message of a packet if it is in the first segment and only hop-by-hop options
/// precede it.
std::optional<Icmp6> icmp6_of(const rte_mbuf* m) noexcept {
  const auto* const data = rte_pktmbuf_mtod(m, const std::uint8_t*);
  std::uint8_t next = rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->next_header;
  std::uint32_t at = sizeof(wire::Ipv6Hdr);
  if (next == wire::kHopByHop) {
    if (m->data_len < at + 8) return std::nullopt;
    next = data[at];
    at += (data[at + 1] + 1U) * 8;
  }
  if (next != static_cast<std::uint8_t>(wire::IpProto::kIcmpv6) || m->data_len < at + 4)
    return std::nullopt;
  return Icmp6{data[at], at};
}

void drop(Context& c, const Ingress& in, rte_mbuf* m, Drop reason) noexcept {
  in.counters.drops.add(reason);
  c.trace.dropped(m, reason);
  rte_pktmbuf_free(m);
}

}  // namespace

bool is_neighbour_discovery(const rte_mbuf* m) noexcept {
  const auto icmp = icmp6_of(m);
  return icmp && is_nd(icmp->type);
}

bool is_listener_discovery(const rte_mbuf* m) noexcept {
  if (rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*)->next_header != wire::kHopByHop) return false;
  const auto icmp = icmp6_of(m);
  return icmp && is_mld(icmp->type);
}

void ip6_deliver(Context& c, const Ingress& in, rte_mbuf* m, bool group) noexcept {
  if (in.iface == table::kNoInterface) return drop(c, in, m, Drop::kLocalFromSelf);
  // If linearization fails, the packet stays a chain.
  if (m->nb_segs != 1) [[unlikely]]
    static_cast<void>(rte_pktmbuf_linearize(m));
  const auto& hdr = *rte_pktmbuf_mtod(m, const wire::Ipv6Hdr*);
  const auto icmp = icmp6_of(m);
  if (wire::is_unspecified(hdr.src) && !(icmp && (is_nd(icmp->type) || is_mld(icmp->type))))
    return drop(c, in, m, Drop::kIpMartianSource);
  if (is_listener_discovery(m)) return c.punt.membership(in, m, group);
  if (!icmp || !is_nd(icmp->type)) return c.punt.local(in, m, group);
  const std::uint8_t min = kNdLen[icmp->type - std::size_t{kFirstNd}];
  if (hdr.hop_limit != 255 || m->nb_segs != 1 || m->pkt_len < icmp->offset + min)
    return drop(c, in, m, Drop::kNdInvalid);
  const bool advertises =
      icmp->type == static_cast<std::uint8_t>(wire::Icmp6Type::kNeighbourAdvertisement);
  c.punt.nd(
      in, m, group,
      advertises ? *rte_pktmbuf_mtod_offset(m, const wire::IpAddr*, icmp->offset + 8) : hdr.src);
}

}  // namespace ipoib::fwd
