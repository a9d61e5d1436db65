// SPDX-License-Identifier: BSD-3-Clause
// Reads the counters of workers, interfaces and devices: totals since the start of the node.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "lib/base/counters.h"
#include "lib/mgmt/node_info.h"
#include "lib/mgmt/node_totals.h"
#include "lib/mgmt/worker/packet_balance.h"
#include "lib/route/route_table.h"

namespace ipoib::mgmt {

struct InterfaceSlot;
struct NodeParts;

/// Number of drops by Drop.
using DropArray = std::array<std::uint64_t, kDropCount>;
void add_drops(DropArray& sum, const DropCounters& drops);
/// Name of a kind in RouteInfo::kind.
[[nodiscard]] std::string_view kind_name(route::RouteKind kind);
/// Name of an action in RouteInfo::action.
[[nodiscard]] std::string_view action_name(route::RouteAction action);

/// Management lcore only.
class NodeCounters {
 public:
  explicit NodeCounters(const NodeParts& parts) : parts_{parts} {}

  [[nodiscard]] TrafficInfo traffic(table::InterfaceId id) const;
  /// Traffic of all interfaces, by InterfaceId.
  [[nodiscard]] std::vector<TrafficInfo> traffics() const;
  /// Drops of packets of no interface.
  [[nodiscard]] DropArray local_drops() const;
  [[nodiscard]] WorkerInfo work(std::size_t worker) const;
  [[nodiscard]] LatencyTotals latency() const;
  [[nodiscard]] NodeTotals totals() const;
  [[nodiscard]] PacketBalance packet_balance() const;
  [[nodiscard]] Unfinished unfinished() const;

 private:
  [[nodiscard]] InterfaceTotals interface_totals(const InterfaceSlot& slot) const;
  [[nodiscard]] std::vector<QueueTotals> queue_totals() const;
  [[nodiscard]] std::map<std::string_view, std::uint64_t> membership_messages(
      table::InterfaceId iface) const;
  [[nodiscard]] std::map<std::string_view, std::uint64_t> membership_refused() const;

  const NodeParts& parts_;
};

}  // namespace ipoib::mgmt
