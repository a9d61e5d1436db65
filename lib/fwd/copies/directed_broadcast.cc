// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/copies/directed_broadcast.h"

#include "lib/fwd/copies/copy_sender.h"

namespace ipoib::fwd {
namespace {

using table::InterfaceId;
using table::NextHop;
using table::NextHopIndex;

/// Broadcasts never return to their own link, and answers of this node to forged sources are none.
bool is_other(const Context& c, const Ingress& in, InterfaceId out) noexcept {
  return out < c.interfaces.size() && in.iface != out && in.iface != table::kNoInterface;
}

/// Returns the next interface that gets the broadcast, or kNoInterface. `slot` moves behind it.
InterfaceId next_egress(const Context& c, const Ingress& in, NextHopIndex& slot) noexcept {
  while (slot < table::kMaxNextHops) {
    const NextHop hop = c.next_hops.get(slot++);
    if (hop.kind != table::NextHopKind::kBroadcast) break;
    if (is_other(c, in, hop.iface)) return hop.iface;
  }
  return table::kNoInterface;
}

}  // namespace

bool may_broadcast(const Context& c, const Ingress& in, InterfaceId out) noexcept {
  return is_other(c, in, out) && c.interfaces[out].directed_broadcast.load(
                                     std::memory_order_relaxed) != DirectedBroadcast::kOff;
}

bool is_within_limit(Context& c, const Ingress& in, const wire::IpAddr& source,
                     InterfaceId out) noexcept {
  const table::Neighbour* const neighbour = c.neighbours->lookup(in.iface, source);
  const bool is_neighbour =
      neighbour != nullptr && neighbour->state == table::NeighbourState::kValid;
  return c.broadcasts->allow({in.iface, source, is_neighbour}, out, c.now_s);
}

void net_broadcast(Context& c, const Ingress& in, rte_mbuf* m, NextHopIndex slots,
                   DropBin& bin) noexcept {
  auto& hdr = *rte_pktmbuf_mtod(m, wire::Ipv4Hdr*);
  InterfaceId out = next_egress(c, in, slots);
  if (out == table::kNoInterface) return bin.add(m, Drop::kIpBroadcast);
  if (!is_from_its_source<Ip4Traits>(c, in, hdr)) return bin.add(m, Drop::kIpBroadcastRpf);
  if (hdr.ttl <= 1) return bin.add(m, Drop::kIpTtlExceeded);
  decrement_ttl(hdr);

  const auto refusal = [&](InterfaceId iface) {
    if (!c.filter.accepts<true>(m, iface, FilterDirection::kOut)) return Drop::kIpFilter;
    const bool allowed = is_within_limit(c, in, Ip4Traits::source(hdr), iface);
    return allowed ? Drop::kNone : Drop::kIpBroadcastLimit;
  };
  CopySender<Ip4Traits> sender{c, in, bin, EgressRules::kNone};
  for (InterfaceId next; out != table::kNoInterface; out = next) {
    next = next_egress(c, in, slots);
    const Drop reason = refusal(out);
    table::NeighbourIndex unknown = table::kNoNeighbour;
    if (next == table::kNoInterface)  // the packet itself is the last copy
      return reason == Drop::kNone ? sender.send(m, out, unknown) : bin.add(m, reason);
    if (reason != Drop::kNone)
      sender.no_copy(m, reason);
    else if (rte_mbuf* const one = sender.copy(m))
      sender.send(one, out, unknown);
  }
}

}  // namespace ipoib::fwd
