// SPDX-License-Identifier: BSD-3-Clause
// Writes the route table's decisions into the tables that workers read. Workers look up and use
// the numbers of next-hop slots within one burst, so a grace period is enough before a slot is
// reused.
#pragma once

#include <rte_rcu_qsbr.h>

#include <cstdint>

#include "lib/base/contract.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/route/route_sink.h"
#include "lib/table/next_hop.h"
#include "lib/table/own_addresses.h"
#include "lib/table/prefix6_table.h"
#include "lib/table/prefix_table.h"
#include "lib/wire/ip_prefix.h"

namespace ipoib::mgmt {

class RouteWriter final : public route::RouteSink {
 public:
  RouteWriter(InterfaceTable& interfaces, table::PrefixTable& prefixes,
              table::Prefix6Table& prefixes6, table::NextHopTable& next_hops,
              table::OwnAddresses& own, rte_rcu_qsbr& rcu)
      : interfaces_{interfaces},
        prefixes_{prefixes},
        prefixes6_{prefixes6},
        next_hops_{next_hops},
        own_{own},
        rcu_{rcu} {}

  void set_now(TimePoint now) { now_ = now; }

  Status set_prefix(const wire::IpPrefix& prefix, table::NextHopIndex next_hop) override {
    const table::NextHopKind kind = next_hops_.get(next_hop).kind;
    expects(kind != table::NextHopKind::kNone, "the next hop is set");
    auto set =
        prefix.addr.is_v4() ? prefixes_.add(prefix, next_hop) : prefixes6_.add(prefix, next_hop);
    if (!set) return set;
    if (table::is_own(kind))
      own_.add(prefix.addr);
    else
      forget_own(prefix);
    return set;
  }
  void remove_prefix(const wire::IpPrefix& prefix) override {
    // A failure means that the prefix was not there, which is the desired state.
    static_cast<void>(prefix.addr.is_v4() ? prefixes_.remove(prefix) : prefixes6_.remove(prefix));
    forget_own(prefix);
  }
  Status add_neighbour(const wire::IpAddr& addr, table::NextHopIndex via,
                       table::NeighbourIndex neighbour) override {
    return table::add_neighbour(prefixes_, next_hops_, addr.v4_host(), via, neighbour);
  }
  void remove_neighbour(const wire::IpAddr& addr, table::NextHopIndex via) override {
    prefixes_.remove_neighbour(addr.v4_host(), via);
  }
  void set_next_hop(table::NextHopIndex index, const table::NextHop& next_hop) override {
    next_hops_.set(index, next_hop);
  }
  Result<table::NeighbourIndex> use_gateway(table::InterfaceId iface,
                                            const wire::IpAddr& addr) override {
    return interfaces_.find(iface)->control->use_gateway(addr, now_);
  }
  void forget_gateway(table::InterfaceId iface, const wire::IpAddr& addr) override {
    interfaces_.find(iface)->control->forget_gateway(addr);
  }
  [[nodiscard]] bool has_failed(table::InterfaceId iface, const wire::IpAddr& addr) const override {
    return interfaces_.find(iface)->control->has_failed(addr);
  }
  std::uint64_t mark_time() override { return rte_rcu_qsbr_start(&rcu_); }
  bool is_past(std::uint64_t moment, bool wait) override {
    return rte_rcu_qsbr_check(&rcu_, moment, wait) == 1;
  }

 private:
  /// Own addresses are host routes; the address of a network may equal one.
  void forget_own(const wire::IpPrefix& prefix) {
    if (wire::is_host(prefix)) own_.remove(prefix.addr);
  }

  InterfaceTable& interfaces_;
  table::PrefixTable& prefixes_;
  table::Prefix6Table& prefixes6_;
  table::NextHopTable& next_hops_;
  table::OwnAddresses& own_;
  rte_rcu_qsbr& rcu_;
  TimePoint now_{};
};

}  // namespace ipoib::mgmt
