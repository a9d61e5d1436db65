// SPDX-License-Identifier: BSD-3-Clause
// Stage ip_filter: drops the packets that the filter rules of an interface say, those that arrive
// and those that leave.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "lib/fwd/filter/filter_table.h"
#include "lib/fwd/worker_config.h"

namespace ipoib::fwd {

struct Burst;
struct Context;
struct Ingress;
struct Ip4Burst;
struct Ip6Burst;

/// The rules that a worker uses in one loop. The first rule that fits a packet decides; a packet
/// that fits none is accepted. The first fragment of a datagram that is too short for its ports is
/// dropped where rules have ports, and an IPv6 packet whose headers have no end where rules have a
/// protocol; otherwise the rules could be avoided.
///
/// Packets need not be in one segment. They pass the rules as they are: segments before they are
/// merged, packets before they are cut.
/// Source: RFC 1858 §3, RFC 5722 §3, RFC 7112 §5.
class IpFilter {
 public:
  IpFilter(const Settings& settings, unsigned worker) noexcept
      : settings_{settings}, worker_{worker} {}

  /// All packets of the loop, in all stages, are decided by one table.
  void begin_loop() noexcept {
    // Acquire: pairs with the release store of the new table.
    table_ = settings_.filters.load(std::memory_order_acquire);
  }
  /// True if packets that leave must pass accepts() or accepted().
  [[nodiscard]] bool has_egress() const noexcept {
    return table_ != nullptr && table_->has_egress();
  }
  [[nodiscard]] FilterTable::Scope scope(table::InterfaceId iface,
                                         FilterDirection direction) const noexcept {
    return table_ != nullptr ? table_->scope(iface, direction) : FilterTable::Scope{0};
  }

  /// Returns a bit for each packet, at most kMaxBurst: 1: it is accepted. Counts it on its rule.
  /// `interfaces`: those of the packets; kNoInterface: the packet is accepted.
  template <bool kV4>
  [[nodiscard]] std::uint64_t accepted(std::span<rte_mbuf* const> pkts,
                                       const table::InterfaceId* interfaces,
                                       FilterDirection direction) noexcept;
  /// Decides one packet, like accepted().
  template <bool kV4>
  [[nodiscard]] bool accepts(rte_mbuf* m, table::InterfaceId iface,
                             FilterDirection direction) noexcept {
    constexpr auto kRules = kV4 ? FilterTable::kRules4 : FilterTable::kRules6;
    return (scope(iface, direction) & kRules) == 0 || accepted<kV4>({&m, 1}, &iface, direction) & 1;
  }

 private:
  const Settings& settings_;
  unsigned worker_;
  FilterTable* table_ = nullptr;  ///< Null: there are no rules.
};

/// Remove the packets that the rules for the ingress interface drop. Call if it has a scope().
///
/// Shape:  the packets passed the input stage of their IP version; order is kept.
/// Errors: kIpFilter.
void ip_filter4(Context& c, const Ingress& in, Ip4Burst& ip, Burst& groups) noexcept;
void ip_filter6(Context& c, const Ingress& in, Ip6Burst& ip, Burst& groups) noexcept;

}  // namespace ipoib::fwd
