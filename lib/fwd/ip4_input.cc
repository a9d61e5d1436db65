// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip4_input.h"

#include <cstddef>
#include <cstdint>

namespace ipoib::fwd {
namespace {

using wire::Ipv4Hdr;

/// No other host may send from an address of this node, on any interface. Source: RFC 1812 §5.3.7.
bool is_own_source(const Context& c, std::uint32_t src) {
  return c.own_addresses.perhaps_v4(src) &&
         c.next_hops.get(c.prefixes.lookup(src)).kind == table::NextHopKind::kLocal;
}

/// Hosts without an address yet report the groups they want. Source: RFC 3376 §4.2.13.
constexpr bool may_lack_source(const Ipv4Hdr& hdr, std::uint32_t dst) {
  return hdr.protocol == static_cast<std::uint8_t>(wire::IpProto::kIgmp) && dst >> 28 == 0xe;
}

/// IGMP needs Router Alert, and has a TTL of 1. No router forwards such packets, and RFC 7126 is about
/// those that are forwarded. Source: RFC 3376 §4.
constexpr bool is_exempt(const Ipv4Hdr& hdr, std::uint8_t option) {
  constexpr std::uint8_t kRouterAlert = 148;
  return option == kRouterAlert && hdr.ttl == 1;
}

/// Returns the reason why the options of a checked header keep the packet from its way, else kNone. A
/// source route is the reason even behind another option. An invalid length ends the list.
Drop check_options(const HeaderRules& rules, const Ipv4Hdr& hdr) noexcept {
  constexpr std::uint8_t kEndOfList = 0, kNop = 1;
  const auto* const octets = reinterpret_cast<const std::uint8_t*>(&hdr);
  const std::size_t end = hdr.header_len();
  Drop reason = Drop::kNone;
  for (std::size_t at = sizeof(Ipv4Hdr); at < end && octets[at] != kEndOfList;) {
    const Drop drop = rules.option(octets[at]);
    if (drop == Drop::kIpSourceRoute) return drop;
    if (drop != Drop::kNone && !is_exempt(hdr, octets[at])) reason = drop;
    if (octets[at] == kNop) {
      ++at;
      continue;
    }
    const std::size_t len = at + 1 < end ? octets[at + 1] : 0;
    if (len < 2) break;
    at += len;
  }
  return reason;
}

/// Cuts off padding of the link behind a checked header.
void trim_to_total_len(rte_mbuf* m) noexcept {
  const std::uint16_t total_len = rte_pktmbuf_mtod(m, const Ipv4Hdr*)->total_len.host();
  if (total_len != m->pkt_len) trim(m, total_len);
}

/// True for a packet to all hosts of the interface if programs of Linux may want it. Hosts that ask
/// for an address have none yet. Source: RFC 2131 §4.1.
bool is_for_linux(const Context& c, const Ingress& in, const Ipv4Hdr& hdr) noexcept {
  if (!c.interfaces[in.iface].mirrored.load(std::memory_order_relaxed)) return false;
  const std::uint32_t src = hdr.src.host(), dst = hdr.dst.host();
  const std::uint32_t src_net = src >> 24;
  const bool limited = dst == 0xffff'ffff;
  if ((src_net == 0 && !(src == 0 && limited)) || src_net == 127 || src_net >= 224 ||
      is_own_source(c, src))
    return false;
  const table::NextHop hop = c.next_hops.get(c.prefixes.lookup(dst));
  return limited || (hop.kind == table::NextHopKind::kBroadcast && hop.iface == in.iface);
}

}  // namespace

/// The numbers are those of the checks in RFC 1812 §5.2.2. The whole header must be in the first
/// segment.
Drop Ip4Input::check_header(const rte_mbuf* m) noexcept {
  if (m->data_len < sizeof(Ipv4Hdr)) return Drop::kIpRunt;  // (1)
  const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv4Hdr*);
  if (hdr.version() != 4) return Drop::kIpVersion;  // (3)
  const std::size_t header_len = hdr.header_len();
  if (header_len < sizeof(Ipv4Hdr) || header_len > m->data_len)
    return Drop::kIpHeaderLength;  // (4)
  const std::size_t total_len = hdr.total_len.host();
  if (total_len < header_len || total_len > m->pkt_len) return Drop::kIpTotalLength;  // (5)
  return ip4_checksum_is_valid(hdr, header_len) ? Drop::kNone : Drop::kIpChecksum;    // (2)
}

bool Ip4Input::admit(Context& c, const Ingress& in, rte_mbuf* m, DropBin& bin) noexcept {
  if (const Drop fault = check_header(m); fault != Drop::kNone) {
    bin.add(m, fault);
    return false;
  }
  trim_to_total_len(m);
  const Drop reason = check_options(c.header_rules, *rte_pktmbuf_mtod(m, const Ipv4Hdr*));
  if (reason == Drop::kNone) return true;
  if (reason != Drop::kIpSourceRoute)
    bin.add(m, reason);
  else if (c.filter.accepts<true>(m, in.iface, FilterDirection::kIn))
    c.punt.icmp_error(in, m, Drop::kIpSourceRoute,
                      wire::unreachable4(wire::IcmpUnreachable::kSourceRouteFailed));
  else
    bin.add(m, Drop::kIpFilter);
  return false;
}

/// Checks addresses of which one is special. Link-local addresses are valid for local delivery
/// only.
Drop Ip4Input::check_addresses(const Context& c, const Ipv4Hdr& hdr, std::uint32_t dst) noexcept {
  if (dst == 0xffff'ffff) return Drop::kIpBroadcast;
  const std::uint32_t src = hdr.src.host();
  const std::uint32_t src_net = src >> 24;
  const bool lacks_source = src == 0 && may_lack_source(hdr, dst);
  if ((src_net == 0 && !lacks_source) || src_net == 127 || src_net >= 224 || is_own_source(c, src))
    return Drop::kIpMartianSource;
  const std::uint32_t dst_net = dst >> 24;
  if (dst_net >= 224 && dst_net < 240) return Drop::kIpMulticast;
  if (dst_net == 0 || dst_net == 127 || dst_net >= 240) return Drop::kIpMartianDestination;
  if (is_link_local4(src) || is_link_local4(dst)) {
    const table::NextHop hop = c.next_hops.get(c.prefixes.lookup(dst));
    if (hop.kind == table::NextHopKind::kLocal) return Drop::kNone;
    return is_link_local4(src) ? Drop::kIpMartianSource : Drop::kIpMartianDestination;
  }
  return Drop::kNone;
}

/// Passes kIpMulticast to `groups`, drops the rest.
void Ip4Input::special_packet(rte_mbuf* m, Drop reason, Burst& groups, DropBin& bin) noexcept {
  if (reason != Drop::kIpMulticast) return bin.add(m, reason);
  trim_to_total_len(m);
  groups.push(m);
}

void Ip4Input::broadcast(Context& c, const Ingress& in, rte_mbuf* m, Burst& groups,
                         DropBin& bin) noexcept {
  if (is_common(m)) [[likely]] {
    const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv4Hdr*);
    const std::uint32_t src = hdr.src.host();
    const bool plain = !kSpecial[src >> 24] && !c.own_addresses.perhaps_v4(src);
    if (plain && hdr.dst.host() >> 28 == 0xe) [[likely]]
      return groups.push(m);
  }
  Drop reason = check_header(m);
  if (reason == Drop::kNone)
    reason = check_options(c.header_rules, *rte_pktmbuf_mtod(m, const Ipv4Hdr*));
  if (reason == Drop::kNone) {
    const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv4Hdr*);
    const std::uint32_t dst = hdr.dst.host();
    if (is_special(c, hdr, dst)) reason = check_addresses(c, hdr, dst);
  }
  if (reason == Drop::kNone) reason = Drop::kIpBroadcast;
  if (reason == Drop::kIpBroadcast && is_for_linux(c, in, *rte_pktmbuf_mtod(m, const Ipv4Hdr*))) {
    trim_to_total_len(m);
    return c.punt.broadcast(in, m);
  }
  special_packet(m, reason, groups, bin);
}

}  // namespace ipoib::fwd
