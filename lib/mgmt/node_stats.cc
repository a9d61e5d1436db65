// SPDX-License-Identifier: BSD-3-Clause
// Reports like those of dpdk-testpmd, and measurements of test packets.
#include <algorithm>

#include "lib/mgmt/node_impl.h"
#include "lib/mgmt/xstats.h"

namespace ipoib::mgmt {

std::vector<InterfaceStatsInfo> NodeImpl::forward_stats() const {
  expects_own_lcore();
  std::vector<InterfaceStatsInfo> rows;
  for (const auto& slot : interfaces_)
    rows.push_back({slot->control->name(), traffic_since(slot->control->id(), forward_baseline_)});
  return rows;
}

std::vector<InterfaceStatsInfo> NodeImpl::port_stats() {
  expects_own_lcore();
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

/// Adds the device counters of Ethernet ports. Links have none: they share their device, whose
/// losses are among the drops of the hca. A device without counters has zeros.
void NodeImpl::add_device_stats(std::vector<InterfaceStatsInfo>& rows) const {
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const DeviceStats stats = since(ports_[i]->device().stats(), baseline_.ports[i]);
    InterfaceStatsInfo& row = rows[ports_[i]->config().id];
    row.rx_missed = stats.rx_missed;
    row.rx_errors = stats.rx_errors;
    row.rx_nombuf = stats.rx_nombuf;
  }
}

void NodeImpl::clear_port_stats(std::string_view name) {
  expects_own_lcore();
  const std::vector<TrafficInfo> totals = total_traffics();
  baseline_.interfaces.resize(totals.size());
  for (const auto& slot : interfaces_)
    if (name.empty() || slot->control->name() == name)
      baseline_.interfaces[slot->control->id()] = totals[slot->control->id()];
  if (name.empty()) {
    port_shown_ = totals;
    port_shown_at_ = now();
  }
  baseline_.ports.resize(ports_.size());
  baseline_.port_xstats.resize(ports_.size());
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    if (!name.empty() && ports_[i]->config().name != name) continue;
    baseline_.ports[i] = ports_[i]->device().stats();
    baseline_.port_xstats[i] = ports_[i]->device().xstats();
  }
}

std::vector<Xstat> NodeImpl::xstats(std::string_view name) const {
  expects_own_lcore();
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const PortInstance& p = *ports_[i];
    if (p.config().name != name) continue;
    return interface_xstats(Place::kPort, traffic(p.config().id),
                            since(p.device().stats(), baseline_.ports[i]),
                            since(p.device().xstats(), baseline_.port_xstats[i]));
  }
  for (const auto& l : links_)
    if (l->config().name == name)
      return interface_xstats(Place::kLink, traffic(l->config().id), {}, {});
  const auto drops = hcas();
  for (std::size_t i = 0; i < hcas_.size(); ++i)
    if (drops[i].name == name)
      return hca_xstats(drops[i].drops,
                        since(hcas_[i]->ethdev_xstats(), baseline_.ethdev_xstats[i]));
  return {};
}

void NodeImpl::clear_latency() {
  expects_own_lcore();
  latency_baseline_ = total_latency();
}

LatencyInfo NodeImpl::latency() const {
  expects_own_lcore();
  LatencyTotals t = total_latency();
  const LatencyTotals& from = latency_baseline_;
  LatencyInfo info;
  info.sent = t.sent - from.sent;
  info.late = t.late - from.late;
  info.duplicates = t.duplicates - from.duplicates;
  for (std::size_t i = 0; i < t.streams.size(); ++i) {
    const std::uint64_t received = t.streams[i].received - from.streams[i].received;
    const std::uint64_t passed = t.streams[i].next - from.streams[i].next;
    info.received += received;
    // Packets that were missing at the clear and arrived since then offset other losses.
    info.lost += passed - std::min(passed, received);
  }
  for (std::size_t i = 0; i < t.ns.size(); ++i) t.ns[i] -= from.ns[i];
  const auto percentile = [&t](double share) { return fwd::Histogram::percentile(t.ns, share); };
  info.min_ns = percentile(0);
  info.p50_ns = percentile(0.5);
  info.p90_ns = percentile(0.9);
  info.p99_ns = percentile(0.99);
  info.p999_ns = percentile(0.999);
  info.max_ns = percentile(1);
  return info;
}

}  // namespace ipoib::mgmt
