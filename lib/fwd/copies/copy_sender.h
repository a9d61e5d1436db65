// SPDX-License-Identifier: BSD-3-Clause
// Sends packets, and copies of them, each to its destination on a given interface, regardless of the
// routes.
#pragma once

#include "lib/fwd/context.h"
#include "lib/fwd/ip_output.h"
#include "lib/fwd/ip_traits.h"

namespace ipoib::fwd {

/// True if two groups of an interface have the same link-layer destination: on a link the address
/// handle names it, and `mac` has a value only in whole frames.
[[nodiscard]] inline bool same_destination(const table::Neighbour& a,
                                           const table::Neighbour& b) noexcept {
  return a.ah == b.ah && (a.mode != table::NeighbourMode::kEthernet || a.mac == b.mac);
}

/// Filter rules of the egress that the packets must pass.
enum class EgressRules : bool { kNone, kConfigured };

/// Sends packets, in bursts, to neighbours that it looks up by interface and destination.
///
/// Errors: kIpFilter, kLinkDown, kGroupAbsent, kNeighbourFailed, kNoMbuf, and those of the output
///         stages and Punt.
template <class V>
class CopySender {
 public:
  CopySender(Context& c, const Ingress& in, DropBin& bin, EgressRules rules) noexcept
      : c_{c},
        in_{in},
        bin_{bin},
        has_rules_{rules == EgressRules::kConfigured && c.filter.has_egress()} {}
  CopySender(const CopySender&) = delete;
  CopySender& operator=(const CopySender&) = delete;
  ~CopySender() { flush(); }

  /// `likely`: number of the entry that is probably the neighbour's; set to the one that is.
  [[gnu::always_inline]] void send(rte_mbuf* m, table::InterfaceId iface,
                                   table::NeighbourIndex& likely) noexcept {
    if (iface != iface_) [[unlikely]]
      select(iface);
    const wire::IpAddr to = V::destination(*rte_pktmbuf_mtod(m, const typename V::Hdr*));
    table::Neighbour* const neighbour = c_.neighbours->at(likely);
    if (!plain_ || neighbour == nullptr || !neighbour->same_key(to, iface) ||
        neighbour->state != table::NeighbourState::kValid) [[unlikely]]
      return find_and_send(m, iface, likely);
    push(m, neighbour);
  }

  /// Sends to the all-routers group of the link.
  void send_to_routers(rte_mbuf* m, table::InterfaceId iface) noexcept {
    if (!c_.interfaces[iface].is_up()) return bin_.add(m, Drop::kLinkDown);
    table::Neighbour* const routers = c_.neighbours->lookup(iface, V::kAllRouters);
    if (routers == nullptr || routers->state == table::NeighbourState::kIncomplete)
      return c_.punt.neighbour_wanted(in_, m, iface, V::kAllRouters, fabric::Onward::kToRouters);
    if (routers->state != table::NeighbourState::kValid) return bin_.add(m, Drop::kGroupAbsent);
    push(m, routers);
  }

  /// Returns a full copy. If there is no mbuf, counts a drop and returns null.
  rte_mbuf* copy(const rte_mbuf* m) noexcept {
    rte_mbuf* const copy = rte_pktmbuf_copy(m, c_.fragment_pool, 0, UINT32_MAX);
    if (copy == nullptr) {
      no_copy(m, Drop::kNoMbuf);
      return nullptr;
    }
    c_.stats.copies.add(1);
    c_.trace.copied(m, copy);
    return copy;
  }
  /// Counts a copy that is not made as a drop.
  void no_copy(const rte_mbuf* m, Drop reason) noexcept {
    c_.stats.copies.add(1);
    in_.counters.drops.add(reason);
    c_.trace.counted_as(m, reason);
  }

 private:
  void select(table::InterfaceId iface) noexcept {
    const InterfaceEntry& entry = c_.interfaces[iface];
    iface_ = iface;
    plain_ = entry.is_up() && !entry.copy_to_routers.load(std::memory_order_relaxed) &&
             (!has_rules_ || c_.filter.scope(iface, FilterDirection::kOut) == 0);
  }
  [[gnu::noinline]] void find_and_send(rte_mbuf* m, table::InterfaceId iface,
                                       table::NeighbourIndex& likely) noexcept {
    const InterfaceEntry& entry = c_.interfaces[iface];
    if (!entry.is_up()) return bin_.add(m, Drop::kLinkDown);
    if (has_rules_ && !c_.filter.accepts<V::kV4>(m, iface, FilterDirection::kOut))
      return bin_.add(m, Drop::kIpFilter);
    const wire::IpAddr to = V::destination(*rte_pktmbuf_mtod(m, const typename V::Hdr*));
    table::Neighbour* const neighbour = c_.neighbours->lookup(iface, to);
    likely = neighbour != nullptr ? c_.neighbours->index_of(*neighbour) : table::kNoNeighbour;
    if (neighbour == nullptr || neighbour->state == table::NeighbourState::kIncomplete)
      return c_.punt.neighbour_wanted(in_, m, iface, to, fabric::Onward::kOnInterface);
    const bool group = wire::is_multicast(to);
    if (neighbour->state != table::NeighbourState::kValid)
      return bin_.add(m, group ? Drop::kGroupAbsent : Drop::kNeighbourFailed);
    if (group && entry.copy_to_routers.load(std::memory_order_relaxed) &&
        !wire::is_link_scope_group(to))
      copy_to_routers(m, iface, *neighbour);
    push(m, neighbour);
  }
  /// Source: draft-ietf-ipoib-link-multicast-00 §9.
  void copy_to_routers(const rte_mbuf* m, table::InterfaceId iface,
                       const table::Neighbour& group) noexcept {
    const table::Neighbour* const routers = c_.neighbours->lookup(iface, V::kAllRouters);
    if (group.via_routers || (routers != nullptr && same_destination(group, *routers))) return;
    if (rte_mbuf* const more = copy(m)) send_to_routers(more, iface);
  }
  void push(rte_mbuf* m, table::Neighbour* to) noexcept {
    if (burst_.n == kMaxBurst) flush();
    burst_.push(m, *to);
  }
  void flush() noexcept {
    if (burst_.n == 0) return;
    c_.trace.resolved(burst_);
    ip_output<V::kType>(c_, in_, burst_);
    burst_.n = 0;
  }

  Context& c_;
  const Ingress& in_;
  DropBin& bin_;
  table::InterfaceId iface_ = table::kNoInterface;  ///< Interface of the last packet.
  /// It is up, no packet is copied to its all-routers group, and no rules are for packets that leave.
  bool plain_ = false;
  bool has_rules_;  ///< The packets must pass rules.
  RoutedBurst burst_;
};

}  // namespace ipoib::fwd
