// SPDX-License-Identifier: BSD-3-Clause
// Shows the counters of a node since the last clears, and keeps what was counted before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/mgmt/node/node_counters.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_totals.h"

namespace ipoib::mgmt {

class NodeStatsImpl final : public NodeStats {
 public:
  /// Call clear_stats() before any other function.
  explicit NodeStatsImpl(const NodeParts& parts) : parts_{parts}, counters_{parts} {}

  std::vector<WorkerInfo> workers() const override;
  std::vector<std::uint64_t> worker_loops() const override;
  std::vector<DropInfo> drops() const override;
  ManagementInfo management() const override;
  LatencyInfo latency() const override;
  std::vector<InterfaceStatsInfo> port_stats() override;
  std::vector<InterfaceStatsInfo> forward_stats() const override;
  IcmpErrorCounters icmp_errors() const override;
  NodeTotals totals() const override;
  std::vector<Xstat> xstats(std::string_view name) const override;
  void clear_stats() override;
  void clear_forward_stats() override;
  void clear_port_stats(std::string_view name) override;
  void clear_latency() override;

  /// Traffic of an interface since clear_port_stats().
  [[nodiscard]] TrafficInfo traffic(table::InterfaceId id) const;
  /// Drops of NodeParts::hcas[i] since clear_stats().
  [[nodiscard]] DropArray hca_drops(std::size_t i) const;

 private:
  /// Totals at the last clear of each report.
  struct Baseline {
    std::vector<TrafficInfo> interfaces;
    std::vector<DropArray> hcas;
    std::vector<WorkerInfo> workers;
    DropArray local{};
    std::vector<DeviceStats> ports;
    std::vector<std::vector<Xstat>> port_xstats;
    std::vector<std::vector<Xstat>> ethdev_xstats;
    std::vector<TrafficInfo> forward;  ///< Indexed by InterfaceId.
    IcmpErrorCounters icmp_errors;
    LatencyTotals latency;
  };

  [[nodiscard]] TrafficInfo traffic_since(table::InterfaceId id,
                                          const std::vector<TrafficInfo>& baseline) const;
  void add_device_stats(std::vector<InterfaceStatsInfo>& rows) const;

  const NodeParts& parts_;
  NodeCounters counters_;
  Baseline baseline_;
  std::vector<TrafficInfo> port_shown_;  ///< Totals at the last port_stats(); by InterfaceId.
  TimePoint port_shown_at_{};
};

}  // namespace ipoib::mgmt
