// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/multicast.h"

#include <array>
#include <atomic>
#include <bit>

#include "lib/base/contract.h"
#include "lib/fwd/copies/copy_sender.h"
#include "lib/fwd/ip6_header.h"
#include "lib/fwd/ip6_local.h"
#include "lib/fwd/ip_traits.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::fwd {
namespace {

using table::InterfaceId;
using table::NeighbourIndex;
using wire::IpAddr;
using wire::Ipv4Hdr;
using wire::Ipv6Hdr;

/// The parts of multicast that depend on the IP version.
struct V4 : Ip4Traits {
  static bool is_membership(const rte_mbuf* m) noexcept {
    return rte_pktmbuf_mtod(m, const Hdr*)->protocol ==
           static_cast<std::uint8_t>(wire::IpProto::kIgmp);
  }
  static bool is_proxied(const Context&, const Ingress&, const rte_mbuf*) noexcept { return false; }
  static void deliver(Context& c, const Ingress& in, rte_mbuf* m) noexcept {
    if (is_membership(m)) return c.punt.membership(in, m, true);
    c.punt.local(in, m, true);
  }
};

struct V6 : Ip6Traits {
  static bool is_membership(const rte_mbuf* m) noexcept { return is_listener_discovery(m); }
  /// True for a solicitation of a host that may be on another interface.
  static bool is_proxied(const Context& c, const Ingress& in, const rte_mbuf* m) noexcept {
    const IpAddr& group = rte_pktmbuf_mtod(m, const Hdr*)->dst;
    return c.interfaces[in.iface].proxy && group == wire::solicited_node(group) &&
           is_neighbour_discovery(m);
  }
  static void deliver(Context& c, const Ingress& in, rte_mbuf* m) noexcept {
    ip6_deliver(c, in, m, true);
  }
};

/// Returns all egress interfaces of a delivery.
std::uint64_t egress_mask(const table::Delivery& d) noexcept {
  return d.in < table::kMaxMulticastInterfaces ? d.out & ~(std::uint64_t{1} << d.in) : d.out;
}

/// Returns the egress interfaces of the packet. If there are none, `reason` is the drop reason.
template <class V>
std::uint64_t egress_mask(const table::Delivery& d, const typename V::Hdr& hdr,
                          Drop& reason) noexcept {
  std::uint64_t out = egress_mask(d);
  if (wire::is_link_scope_group(d.addr) || V::source_stays(hdr)) out = 0;
  reason = Drop::kIpMulticast;
  if (out == 0 || V::hops(hdr) > 1) return out;
  reason = Drop::kIpTtlExceeded;
  return 0;
}

/// Reports a source that no delivery names to the multicast router, except for groups that only
/// this node listens to: those packets are not forwarded from any source.
template <class V>
void report_source(Context& c, const Ingress& in, const table::Delivery* d,
                   const typename V::Hdr& hdr) noexcept {
  if (d != nullptr && ((d->out == 0 && !d->stands_by) || d->source != IpAddr{})) return;
  const IpAddr group = V::destination(hdr);
  if (wire::is_link_scope_group(group) || V::source_stays(hdr) || V::hops(hdr) <= 1) return;
  c.punt.multicast_unknown(in, group, V::source(hdr));
}

/// Reports the packet to the multicast router if it tells which of several routers forward its group:
/// it is one that this node would have to forward, or another router put it on a link to which this
/// node forwards it or would have to. `from`: the interface that leads to its source.
template <class V>
[[gnu::noinline]] void report_forwarder(Context& c, const Ingress& in, rte_mbuf* m,
                                        const table::Delivery* d, InterfaceId from) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const typename V::Hdr*);
  const bool evidence = from != in.iface;
  if (evidence) d = c.deliveries->lookup(from, V::destination(hdr), V::source(hdr));
  if (d == nullptr) return;
  const bool forwards = evidence && in.iface < table::kMaxMulticastInterfaces &&
                        (d->from_reverse_path >> in.iface & 1U) != 0;
  if (!forwards && !d->stands_by) return;
  if (wire::is_link_scope_group(d->addr) || V::source_stays(hdr)) return;
  if (!evidence && V::hops(hdr) <= 1) return;
  c.punt.multicast_heard(in, m, *d, V::source(hdr));
}

/// The interface that all packets of the delivery leave by while management gets none.
InterfaceId only_out(const table::Delivery& d) noexcept {
  const std::uint64_t out = egress_mask(d);
  const bool simple = !d.local && !d.stands_by && !d.sample_due &&
                      d.for_linux != table::ForLinux::kAll && std::has_single_bit(out) &&
                      !wire::is_link_scope_group(d.addr);
  return simple ? static_cast<InterfaceId>(std::countr_zero(out)) : table::kNoInterface;
}

/// Gives the packet, or a copy, to the multicast router of Linux if it must see it. Returns true if
/// `m` went there. A packet that is delivered to Linux anyway needs no copy.
template <class V>
[[gnu::noinline]] bool show_linux(Context& c, const Ingress& in, rte_mbuf* m, table::Delivery* d,
                                  CopySender<V>& sender) noexcept {
  const auto& hdr = *rte_pktmbuf_mtod(m, const typename V::Hdr*);
  const IpAddr group = V::destination(hdr);
  if (wire::is_link_scope_group(group) || V::source_stays(hdr) || V::hops(hdr) <= 1) return false;
  if (d == nullptr || (d->out == 0 && !d->local && d->for_linux == table::ForLinux::kNone)) {
    if (!c.punt.may_ask_linux(in, group, V::source(hdr))) return false;
    c.punt.give_linux(in, m, false);
    return true;
  }
  const bool sample = d->for_linux == table::ForLinux::kSample;
  if (d->local || (sample ? !d->sample_due : d->for_linux != table::ForLinux::kAll)) return false;
  if (!c.punt.may_copy_for_linux(in)) {
    // A later packet can be the sample.
    if (!sample) sender.no_copy(m, Drop::kPuntRateLimited);
    return false;
  }
  rte_mbuf* const copy = sender.copy(m);
  if (copy == nullptr) return false;
  c.punt.give_linux(in, copy, sample);
  d->sample_due = false;
  d->only_out = only_out(*d);
  return false;
}

/// The multicast router of an interface. Both: Linux, and static multicast routes.
struct RouterOf {
  bool node;
  bool linux;
};

/// `d`: null: the packet has no delivery. `of`: of the ingress interface.
template <class V>
void one_packet(Context& c, const Ingress& in, rte_mbuf* m, table::Delivery* d, RouterOf of,
                bool forwarding, CopySender<V>& sender, DropBin& bin) noexcept {
  auto& hdr = *rte_pktmbuf_mtod(m, typename V::Hdr*);
  const bool router = of.node || of.linux;
  if (d != nullptr && d->only_out != table::kNoInterface && forwarding &&
      (!router || (d->source != IpAddr{} && !V::is_membership(m))) && !V::source_stays(hdr) &&
      V::hops(hdr) > 1 && (d->from_reverse_path == 0 || is_from_its_source<V>(c, in, hdr)))
      [[likely]] {
    V::decrement_hops(hdr);
    return sender.send(m, d->only_out, d->last_neighbour);
  }
  if (router && V::is_membership(m)) return V::deliver(c, in, m);
  const bool checked = d != nullptr && d->from_reverse_path != 0;
  const bool reported = of.node && forwarding;
  const InterfaceId from = checked || reported ? way_back<V>(c, hdr) : table::kNoInterface;
  const bool strays = checked && from != in.iface;
  if (reported) {
    if (from != table::kNoInterface) report_forwarder<V>(c, in, m, d, from);
    if (!strays) report_source<V>(c, in, d, hdr);
  }
  if (of.linux && forwarding && show_linux<V>(c, in, m, d, sender)) return;
  if (d == nullptr) {
    if (V::is_proxied(c, in, m)) return V::deliver(c, in, m);
    return bin.add(m, Drop::kIpMulticast);
  }

  Drop reason = Drop::kForwardingStopped;
  std::uint64_t out = forwarding ? egress_mask<V>(*d, hdr, reason) : 0;
  if (strays && out != 0) {
    out &= ~d->from_reverse_path;
    reason = Drop::kIpMulticastRpf;
  }
  if (of.linux && out == 0 && reason == Drop::kIpMulticast &&
      d->for_linux == table::ForLinux::kNone && !wire::is_link_scope_group(d->addr))
    reason = Drop::kIpMulticastRpf;
  if (out == 0) return d->local ? V::deliver(c, in, m) : bin.add(m, reason);
  if (d->local)
    if (rte_mbuf* const own = sender.copy(m)) V::deliver(c, in, own);

  V::decrement_hops(hdr);
  for (; out != 0; out &= out - 1) {
    const auto iface = static_cast<InterfaceId>(std::countr_zero(out));
    if (std::has_single_bit(out)) return sender.send(m, iface, d->last_neighbour);
    NeighbourIndex unknown = table::kNoNeighbour;
    if (rte_mbuf* const one = sender.copy(m)) sender.send(one, iface, unknown);
  }
}

/// Tells the trace which deliveries the packets have.
template <class V>
[[gnu::cold]] void trace_deliveries(Context& c, const Ingress& in, const Burst& pkts) noexcept {
  for (rte_mbuf* m : pkts.span()) {
    const auto& hdr = *rte_pktmbuf_mtod(m, const typename V::Hdr*);
    const table::Delivery* const d =
        c.deliveries->lookup(in.iface, V::destination(hdr), V::source(hdr));
    c.trace.delivered(m, d != nullptr && d->local, d != nullptr ? d->out : 0);
  }
}

template <class V>
void input(Context& c, const Ingress& in, const Burst& pkts, bool forwarding) noexcept {
  expects(in.iface < c.interfaces.size(), "the packets came by an interface");
  DropBin bin{c.trace, in.counters.drops};
  CopySender<V> sender{c, in, bin, EgressRules::kConfigured};
  std::array<table::DeliveryTable::Hash, kMaxBurst> hashes;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    const auto& hdr = *rte_pktmbuf_mtod(pkts.pkts[i], const typename V::Hdr*);
    expects([&] { return wire::is_multicast(V::destination(hdr)); }, "the packet is to a group");
    hashes[i] = c.deliveries->prefetch(in.iface, V::destination(hdr), V::source(hdr));
  }
  if (c.trace.active()) [[unlikely]]
    trace_deliveries<V>(c, in, pkts);
  std::array<table::Delivery*, kMaxBurst> deliveries;
  for (std::size_t i = 0; i < pkts.n; ++i) {
    const auto& hdr = *rte_pktmbuf_mtod(pkts.pkts[i], const typename V::Hdr*);
    deliveries[i] = c.deliveries->lookup(hashes[i], in.iface, V::destination(hdr), V::source(hdr));
    if (deliveries[i] != nullptr) c.neighbours->prefetch(deliveries[i]->last_neighbour);
  }
  const InterfaceEntry& entry = c.interfaces[in.iface];
  const RouterOf router{entry.multicast_router.load(std::memory_order_relaxed),
                        entry.linux_multicast.load(std::memory_order_relaxed)};
  for (std::size_t i = 0; i < pkts.n; ++i)
    one_packet<V>(c, in, pkts.pkts[i], deliveries[i], router, forwarding, sender, bin);
}

template <class V>
void send_one(Context& c, const Ingress& in, DropBin& bin, rte_mbuf* m, InterfaceId iface,
              bool to_routers) noexcept {
  CopySender<V> sender{c, in, bin, EgressRules::kNone};
  NeighbourIndex unknown = table::kNoNeighbour;
  if (to_routers)
    sender.send_to_routers(m, iface);
  else
    sender.send(m, iface, unknown);
}

}  // namespace

bool set_delivery(Context& c, const table::Delivery& delivery) noexcept {
  table::Delivery d = delivery;
  d.sample_due = d.for_linux == table::ForLinux::kSample;
  d.only_out = only_out(d);
  return c.deliveries->set(d);
}

void multicast_input(Context& c, const Ingress& in, const Burst& pkts, IpVersion version,
                     bool forwarding) noexcept {
  if (version == IpVersion::k4)
    input<V4>(c, in, pkts, forwarding);
  else
    input<V6>(c, in, pkts, forwarding);
}

void send_on_interface(Context& c, const Ingress& in, rte_mbuf* m, InterfaceId iface,
                       bool to_routers) noexcept {
  expects(iface < c.interfaces.size(), "the interface exists");
  DropBin bin{c.trace, in.counters.drops};
  if (m->data_len < sizeof(Ipv4Hdr)) return bin.add(m, Drop::kIpRunt);
  const std::uint8_t version = rte_pktmbuf_mtod(m, const Ipv4Hdr*)->version();
  if (version == 4) {
    send_one<V4>(c, in, bin, m, iface, to_routers);
  } else if (version != 6) {
    bin.add(m, Drop::kIpVersion);
  } else if (m->data_len < sizeof(Ipv6Hdr)) {
    bin.add(m, Drop::kIpRunt);
  } else {
    send_one<V6>(c, in, bin, m, iface, to_routers);
  }
}

}  // namespace ipoib::fwd
