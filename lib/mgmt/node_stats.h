// SPDX-License-Identifier: BSD-3-Clause
// The statistics of a node: traffic, drops, work and latency, since the start or since a clear.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/mgmt/device/device_stats.h"
#include "lib/mgmt/node_info.h"

namespace ipoib::mgmt {

struct NodeTotals;

/// Management lcore only. Implemented by NodeStatsImpl, and by a fake in the tests of app/.
class NodeStats {
 public:
  virtual ~NodeStats() = default;

  /// Since clear_forward_stats().
  [[nodiscard]] virtual std::vector<WorkerInfo> workers() const = 0;
  /// Loops of each worker since its launch; no clear resets them. A worker whose count stands still
  /// hangs, because a worker that finds no packet, or sleeps, also loops.
  [[nodiscard]] virtual std::vector<std::uint64_t> worker_loops() const = 0;
  /// Only reasons that were counted.
  [[nodiscard]] virtual std::vector<DropInfo> drops() const = 0;
  /// Since the start; no clear resets it.
  [[nodiscard]] virtual ManagementInfo management() const = 0;
  /// Measurements of fwd::ForwardMode::kLatency since clear_latency().
  [[nodiscard]] virtual LatencyInfo latency() const = 0;
  /// Traffic of ports and links, and the error counters of the ports' devices, since
  /// clear_port_stats(). Rates are averages since the last call.
  [[nodiscard]] virtual std::vector<InterfaceStatsInfo> port_stats() = 0;
  /// Traffic of ports and links since clear_forward_stats().
  [[nodiscard]] virtual std::vector<InterfaceStatsInfo> forward_stats() const = 0;
  /// Since clear_forward_stats().
  [[nodiscard]] virtual IcmpErrorCounters icmp_errors() const = 0;
  /// Totals since the start, which no clear resets.
  [[nodiscard]] virtual NodeTotals totals() const = 0;
  /// Every counter of a link, port or hca (lib/mgmt/device/xstats.h), also those that are zero:
  /// since clear_port_stats() or, for an hca, since clear_stats(). Names and order are the same at
  /// every call. Empty: nothing has that name.
  [[nodiscard]] virtual std::vector<Xstat> xstats(std::string_view name) const = 0;

  /// The clear functions make the counters shown count from zero: all, or those of one report.
  virtual void clear_stats() = 0;
  virtual void clear_forward_stats() = 0;
  /// `name` empty: all links and ports.
  virtual void clear_port_stats(std::string_view name) = 0;
  virtual void clear_latency() = 0;
};

}  // namespace ipoib::mgmt
