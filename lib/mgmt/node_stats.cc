// Reports in the manner of dpdk-testpmd, and what was measured of test packets.
#include <rte_ethdev.h>

#include <algorithm>

#include "lib/mgmt/node_impl.h"

namespace ipoib::mgmt {

std::vector<InterfaceStatsInfo> NodeImpl::forward_stats() const {
  std::vector<InterfaceStatsInfo> rows;
  for (const auto& slot : interfaces_)
    rows.push_back({slot->control->name(), traffic_since(slot->control->id(), forward_baseline_)});
  return rows;
}

std::vector<InterfaceStatsInfo> NodeImpl::port_stats() {
  const TimePoint t = now();
  const std::vector<TrafficInfo> totals = total_traffics();
  const double seconds = std::max(std::chrono::duration<double>(t - port_shown_at_).count(), 1e-3);
  const auto rate = [seconds](std::uint64_t now, std::uint64_t then, unsigned factor) {
    return static_cast<std::uint64_t>(static_cast<double>((now - then) * factor) / seconds);
  };
  std::vector<InterfaceStatsInfo> rows;
  for (const auto& slot : interfaces_) {
    const table::InterfaceId id = slot->control->id();
    InterfaceStatsInfo& row = rows.emplace_back();
    row.name = slot->control->name();
    row.traffic = traffic(id);
    row.rx_pps = rate(totals[id].rx_packets, port_shown_[id].rx_packets, 1);
    row.tx_pps = rate(totals[id].tx_packets, port_shown_[id].tx_packets, 1);
    row.rx_bps = rate(totals[id].rx_bytes, port_shown_[id].rx_bytes, 8);
    row.tx_bps = rate(totals[id].tx_bytes, port_shown_[id].tx_bytes, 8);
  }
  add_device_stats(rows);
  port_shown_ = totals;
  port_shown_at_ = t;
  return rows;
}

/// Of Ethernet ports the device's own; links share theirs, and find theirs among the drops of the
/// hca. A device that has none has zeros.
void NodeImpl::add_device_stats(std::vector<InterfaceStatsInfo>& rows) const {
  for (const auto& p : ports_) {
    rte_eth_stats stats{};
    if (rte_eth_stats_get(p->device().port(), &stats) != 0) continue;
    InterfaceStatsInfo& row = rows[p->config().id];
    row.rx_missed = stats.imissed;
    row.rx_errors = stats.ierrors;
    row.rx_nombuf = stats.rx_nombuf;
  }
}

std::unique_ptr<NodeImpl::LatencyTotals> NodeImpl::total_latency() const {
  auto totals = std::make_unique<LatencyTotals>();
  for (const WorkerHandle& w : workers_.all()) {
    totals->sent += w.worker->stats().stamped.get();
    const fwd::LatencyRecorder& recorder = w.worker->latency();
    recorder.histogram().add_to(totals->counts);
    for (std::size_t i = 0; i < totals->streams.size(); ++i) {
      const auto& stream = recorder.stream(i);
      totals->streams[i].received += stream.received.get();
      totals->streams[i].next = std::max(totals->streams[i].next, stream.next.get());
      totals->late += stream.late.get();
      totals->duplicates += stream.duplicates.get();
    }
  }
  return totals;
}

void NodeImpl::clear_latency() {
  latency_baseline_ = total_latency();
}

LatencyInfo NodeImpl::latency() const {
  const auto t = total_latency();
  const LatencyTotals& from = *latency_baseline_;
  LatencyInfo info;
  info.sent = t->sent - from.sent;
  info.late = t->late - from.late;
  info.duplicates = t->duplicates - from.duplicates;
  for (std::size_t i = 0; i < t->streams.size(); ++i) {
    const std::uint64_t received = t->streams[i].received - from.streams[i].received;
    const std::uint64_t passed = t->streams[i].next - from.streams[i].next;
    info.received += received;
    // Those that were still missing when it was cleared and came since make up for others.
    info.lost += passed - std::min(passed, received);
  }
  for (std::size_t i = 0; i < t->counts.size(); ++i) t->counts[i] -= from.counts[i];
  const auto percentile = [&t](double share) {
    return fwd::Histogram::percentile(t->counts, share);
  };
  info.min_ns = percentile(0);
  info.p50_ns = percentile(0.5);
  info.p90_ns = percentile(0.9);
  info.p99_ns = percentile(0.99);
  info.p999_ns = percentile(0.999);
  info.max_ns = percentile(1);
  return info;
}

}  // namespace ipoib::mgmt
