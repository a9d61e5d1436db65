// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/ip6_input.h"

#include <array>
#include <cstddef>

#include "lib/base/contract.h"
#include "lib/fwd/filter/header_rules.h"
#include "lib/fwd/filter/upper_header.h"
#include "lib/fwd/ip6_header.h"
#include "lib/fwd/ip6_local.h"
#include "lib/fwd/ip_trim.h"
#include "lib/wire/icmpv6.h"

namespace ipoib::fwd {
namespace {

using wire::IpAddr;
using wire::Ipv6Hdr;

Drop check_header(const rte_mbuf* m) noexcept {
  if (m->data_len < sizeof(Ipv6Hdr)) [[unlikely]]
    return Drop::kIpRunt;
  const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv6Hdr*);
  if (hdr.version() != 6) [[unlikely]]
    return Drop::kIpVersion;
  const std::uint32_t payload_len = hdr.payload_len.host();
  if (sizeof(Ipv6Hdr) + payload_len > m->pkt_len ||
      (payload_len == 0 && hdr.next_header == wire::kHopByHop)) [[unlikely]]
    return Drop::kIp6PayloadLength;
  return Drop::kNone;
}

/// Hop limit of neighbour discovery, which no router has forwarded. Source: RFC 4861 §7.1.
constexpr std::uint8_t kNdHopLimit = 255;

/// True if the address is neither global unicast nor a group: link-local, or not allowed on a wire.
bool is_special(const IpAddr& addr) noexcept {
  return wire::is_reserved6(addr) || wire::is_link_local6(addr);
}

/// Returns the drop reason for addresses that no packet may have.
Drop check_addresses(const Ipv6Hdr& hdr) noexcept {
  if (wire::is_multicast(hdr.src) ||
      (wire::is_reserved6(hdr.src) && !wire::is_unspecified(hdr.src)))
    return Drop::kIpMartianSource;
  if (wire::is_reserved6(hdr.dst)) return Drop::kIpMartianDestination;
  if (wire::is_multicast(hdr.dst) && scope_of(hdr.dst) <= kInterfaceScope)
    return Drop::kIpMartianDestination;
  return Drop::kNone;
}

/// No other host may send from an address of this node, except that neighbour discovery from an own
/// address of the ingress interface is punted: another node claims the address, and management
/// defends it. Source: RFC 1812 §5.3.7, RFC 4862 §5.4.
bool is_own_source(const Context& c, const Ingress& in, const rte_mbuf* m) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv6Hdr*);
  if (wire::is_link_local6(hdr.src)) {
    const table::Delivery* const own = c.deliveries->lookup(in.iface, hdr.src, hdr.src);
    if (own == nullptr || !own->local) return false;
  } else {
    if (!c.own_addresses.perhaps(hdr.src)) return false;
    const table::NextHop own = c.next_hops.get(c.prefixes6.lookup(hdr.src));
    if (!table::is_own(own.kind)) return false;
    if (own.iface != in.iface) return true;
  }
  if (!is_neighbour_discovery(m)) return true;
  const bool stays =
      wire::is_multicast(hdr.dst) ? scope_of(hdr.dst) == kLinkScope : wire::is_link_local6(hdr.dst);
  return !stays && c.next_hops.get(c.prefixes6.lookup(hdr.dst)).kind != table::NextHopKind::kLocal;
}

/// Handles link-local or unspecified addresses, which are valid for this node only.
void special_unicast(Context& c, const Ingress& in, rte_mbuf* m, Ip6Burst& out,
                     DropBin& bin) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv6Hdr*);
  if (wire::is_link_local6(hdr.dst)) {
    const table::Delivery* const d = c.deliveries->lookup(in.iface, hdr.dst, hdr.src);
    if (d == nullptr || !d->local) return bin.add(m, Drop::kIp6Scope);
    if (!c.filter.accepts<false>(m, in.iface, FilterDirection::kIn)) [[unlikely]]
      return bin.add(m, Drop::kIpFilter);
    return ip6_deliver(c, in, m, false);
  }
  if (c.next_hops.get(c.prefixes6.lookup(hdr.dst)).kind == table::NextHopKind::kLocal)
    return out.push(m, hdr.dst);
  if (wire::is_unspecified(hdr.src)) return bin.add(m, Drop::kIpMartianSource);
  if (!c.filter.accepts<false>(m, in.iface, FilterDirection::kIn))
    return bin.add(m, Drop::kIpFilter);
  c.punt.icmp_error(in, m, Drop::kIp6Scope,
                    wire::unreachable6(wire::Icmp6Unreachable::kBeyondScope));
}

/// Extension headers that have a length. The others hide all behind them from this node, or are the
/// last. Source: RFC 8200 §4, RFC 6564 §4; the registry "IPv6 Extension Header Types".
constexpr std::array<bool, 256> kWalked = [] {
  std::array<bool, 256> walked{};
  for (const std::uint8_t type :
       {wire::kHopByHop, wire::kRoutingHeader, wire::kFragmentHeader, wire::kAuthenticationHeader,
        wire::kDestinationOptions, wire::kMobilityHeader, wire::kHostIdentity, wire::kShim6})
    walked[type] = true;
  return walked;
}();

/// The next headers of packets that the rules may drop.
constexpr std::array<bool, 256> kExtension = [] {
  std::array<bool, 256> extension{};
  for (unsigned type = 0; type < extension.size(); ++type)
    extension[type] = is_ip6_extension(static_cast<std::uint8_t>(type));
  return extension;
}();

/// MLD needs hop-by-hop options, and has a hop limit of 1. No router forwards such packets, and
/// RFC 9288 is about those that are forwarded. Source: RFC 3810 §5.
bool is_exempt(const Ipv6Hdr& hdr, std::uint8_t extension) noexcept {
  return extension == wire::kHopByHop && hdr.hop_limit == 1;
}

/// Walks the extension headers of a checked packet that has any, as far as filter rules would. The rest
/// of the chain is for the destination, and for the rules. Later fragments have data behind their
/// header.
[[gnu::noinline]] Drop check_extensions(const HeaderRules& rules, const rte_mbuf* m) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv6Hdr*);
  const std::uint32_t end = sizeof(Ipv6Hdr) + hdr.payload_len.host();
  std::uint32_t at = sizeof(Ipv6Hdr);
  std::uint8_t next = hdr.next_header;
  for (unsigned n = 0;; ++n) {
    if (const Drop drop = rules.extension(next); drop != Drop::kNone && !is_exempt(hdr, next))
      return drop;
    if (!kWalked[next] || n == kMaxExtensions || at + 8 > end) return Drop::kNone;
    const ExtensionHead head = *ExtensionHead::read(m, at);
    if (const Drop drop = rules.routing(head.routing_type());
        next == wire::kRoutingHeader && drop != Drop::kNone)
      return drop;
    if (next == wire::kFragmentHeader && head.is_later_fragment()) return Drop::kNone;
    at += head.len(next);
    next = head.next;
  }
}

}  // namespace

void ip6_input(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts, LinkCast cast,
               bool forwarding, Ip6Burst& out, Burst& groups) noexcept {
  expects(out.n + pkts.size() <= kMaxBurst && groups.n + pkts.size() <= kMaxBurst,
          "there is room for all packets");
  DropBin bin{c.trace, in.counters.drops};
  const bool proxy = in.iface < c.interfaces.size() && c.interfaces[in.iface].proxy;
  for (rte_mbuf* m : pkts) {
    Drop reason = check_header(m);
    if (reason != Drop::kNone) [[unlikely]] {
      bin.add(m, reason);
      continue;
    }
    const auto& hdr = *rte_pktmbuf_mtod(m, const Ipv6Hdr*);
    reason = check_addresses(hdr);
    if (reason == Drop::kNone && is_own_source(c, in, m)) [[unlikely]]
      reason = Drop::kIpMartianSource;
    if (reason == Drop::kNone && kExtension[hdr.next_header]) [[unlikely]]
      reason = check_extensions(c.header_rules, m);
    if (reason == Drop::kNone && !forwarding && !is_neighbour_discovery(m)) [[unlikely]]
      reason = Drop::kForwardingStopped;
    const bool group = wire::is_multicast(hdr.dst);
    // A host asks this node whether one of another interface is still there (RFC 4861 §7.3).
    if (reason == Drop::kNone && proxy && !group && hdr.hop_limit == kNdHopLimit &&
        is_neighbour_discovery(m)) [[unlikely]] {
      if (c.filter.accepts<false>(m, in.iface, FilterDirection::kIn))
        ip6_deliver(c, in, m, false);
      else
        bin.add(m, Drop::kIpFilter);
      continue;
    }
    if (reason == Drop::kNone && cast == LinkCast::kMulticast && !group) [[unlikely]]
      reason = Drop::kIpBroadcast;
    if (reason != Drop::kNone) [[unlikely]] {
      bin.add(m, reason);
      continue;
    }
    if (const std::uint32_t len = sizeof(Ipv6Hdr) + hdr.payload_len.host(); len != m->pkt_len)
      trim(m, len);
    if (group)
      groups.push(m);
    else if (is_special(hdr.src) || is_special(hdr.dst)) [[unlikely]]
      special_unicast(c, in, m, out, bin);
    else
      out.push(m, hdr.dst);
  }
}

}  // namespace ipoib::fwd
