// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/node_stats_impl.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "lib/base/log.h"
#include "lib/mgmt/device/device_readings.h"
#include "lib/mgmt/device/xstats.h"
#include "lib/mgmt/node/node_parts.h"

namespace ipoib::mgmt {
namespace {

template <class Array>
Array difference(Array a, const Array& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

void add_rows(std::vector<DropInfo>& rows, const std::string& where, const DropArray& drops) {
  for (std::size_t i = 0; i < kDropCount; ++i)
    if (drops[i] != 0) rows.push_back({static_cast<Drop>(i), where, drops[i]});
}

}  // namespace

TrafficInfo NodeStatsImpl::traffic(table::InterfaceId id) const {
  return traffic_since(id, baseline_.interfaces);
}

TrafficInfo NodeStatsImpl::traffic_since(table::InterfaceId id,
                                         const std::vector<TrafficInfo>& baseline) const {
  TrafficInfo t = counters_.traffic(id);
  const TrafficInfo& from = baseline[id];
  t.rx_packets -= from.rx_packets;
  t.tx_packets -= from.tx_packets;
  t.rx_bytes -= from.rx_bytes;
  t.tx_bytes -= from.tx_bytes;
  t.drops = difference(t.drops, from.drops);
  return t;
}

DropArray NodeStatsImpl::hca_drops(std::size_t i) const {
  return difference(parts_.hcas[i]->hca->drops().by_reason, baseline_.hcas[i]);
}

std::vector<WorkerInfo> NodeStatsImpl::workers() const {
  parts_.loop->expects_own_lcore();
  std::vector<WorkerInfo> rows;
  for (std::size_t i = 0; i < parts_.workers.all().size(); ++i) {
    WorkerInfo row = counters_.work(i);
    const WorkerInfo& from = baseline_.workers[i];
    row.loops -= from.loops;
    row.busy_loops -= from.busy_loops;
    row.busy_cycles -= from.busy_cycles;
    row.rx_packets -= from.rx_packets;
    row.punts -= from.punts;
    row.answers -= from.answers;
    row.cycles -= from.cycles;
    row.generated -= from.generated;
    row.stamped -= from.stamped;
    row.consumed -= from.consumed;
    row.no_mbuf -= from.no_mbuf;
    row.gro_segments -= from.gro_segments;
    row.gso_packets -= from.gso_packets;
    row.handed_on -= from.handed_on;
    row.bursts = difference(row.bursts, from.bursts);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::uint64_t> NodeStatsImpl::worker_loops() const {
  parts_.loop->expects_own_lcore();
  std::vector<std::uint64_t> loops;
  for (const WorkerHandle& w : parts_.workers.all()) loops.push_back(w.worker->stats().loops.get());
  return loops;
}

std::vector<DropInfo> NodeStatsImpl::drops() const {
  parts_.loop->expects_own_lcore();
  std::vector<DropInfo> rows;
  for (const auto& slot : parts_.interfaces)
    add_rows(rows, slot->control->name(), traffic(slot->control->id()).drops);
  for (std::size_t i = 0; i < parts_.hcas.size(); ++i)
    add_rows(rows, parts_.hcas[i]->config.name, hca_drops(i));
  add_rows(rows, "node", difference(counters_.local_drops(), baseline_.local));
  return rows;
}

IcmpErrorCounters NodeStatsImpl::icmp_errors() const {
  parts_.loop->expects_own_lcore();
  const IcmpErrorCounters& now = parts_.punt->icmp_counters();
  return {now.sent - baseline_.icmp_errors.sent, now.suppressed - baseline_.icmp_errors.suppressed};
}

NodeTotals NodeStatsImpl::totals() const {
  parts_.loop->expects_own_lcore();
  return counters_.totals();
}

std::vector<InterfaceStatsInfo> NodeStatsImpl::forward_stats() const {
  parts_.loop->expects_own_lcore();
  std::vector<InterfaceStatsInfo> rows;
  for (const auto& slot : parts_.interfaces)
    rows.push_back({slot->control->name(), traffic_since(slot->control->id(), baseline_.forward)});
  return rows;
}

std::vector<InterfaceStatsInfo> NodeStatsImpl::port_stats() {
  parts_.loop->expects_own_lcore();
  const TimePoint t = parts_.now();
  const std::vector<TrafficInfo> totals = counters_.traffics();
  const double seconds = std::max(std::chrono::duration<double>(t - port_shown_at_).count(), 1e-3);
  const auto rate = [seconds](std::uint64_t now, std::uint64_t then, unsigned factor) {
    return static_cast<std::uint64_t>(static_cast<double>((now - then) * factor) / seconds);
  };
  std::vector<InterfaceStatsInfo> rows;
  for (const auto& slot : parts_.interfaces) {
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
void NodeStatsImpl::add_device_stats(std::vector<InterfaceStatsInfo>& rows) const {
  for (std::size_t i = 0; i < parts_.ports.size(); ++i) {
    const DeviceStats stats = since(device_stats(parts_.ports[i]->device()), baseline_.ports[i]);
    InterfaceStatsInfo& row = rows[parts_.ports[i]->config().id];
    row.rx_missed = stats.rx_missed;
    row.rx_errors = stats.rx_errors;
    row.rx_nombuf = stats.rx_nombuf;
  }
}

std::vector<Xstat> NodeStatsImpl::xstats(std::string_view name) const {
  parts_.loop->expects_own_lcore();
  for (std::size_t i = 0; i < parts_.ports.size(); ++i) {
    const PortInstance& p = *parts_.ports[i];
    if (p.config().name != name) continue;
    return interface_xstats(Place::kPort, traffic(p.config().id),
                            since(device_stats(p.device()), baseline_.ports[i]),
                            since(device_xstats(p.device()), baseline_.port_xstats[i]));
  }
  for (const auto& l : parts_.links)
    if (l->config().name == name)
      return interface_xstats(Place::kLink, traffic(l->config().id), {}, {});
  for (std::size_t i = 0; i < parts_.hcas.size(); ++i)
    if (parts_.hcas[i]->config.name == name)
      return hca_xstats(hca_drops(i),
                        since(parts_.hcas[i]->ethdev_xstats(), baseline_.ethdev_xstats[i]));
  return {};
}

ManagementInfo NodeStatsImpl::management() const {
  parts_.loop->expects_own_lcore();
  ManagementInfo info = parts_.turn_times.info();
  info.log_lines_lost = log_lines_lost();
  return info;
}

LatencyInfo NodeStatsImpl::latency() const {
  parts_.loop->expects_own_lcore();
  LatencyTotals t = counters_.latency();
  const LatencyTotals& from = baseline_.latency;
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

void NodeStatsImpl::clear_stats() {
  parts_.loop->expects_own_lcore();
  clear_port_stats("");
  clear_forward_stats();
  clear_latency();
  baseline_.hcas.clear();
  baseline_.ethdev_xstats.clear();
  for (const auto& h : parts_.hcas) {
    baseline_.hcas.push_back(h->hca->drops().by_reason);
    baseline_.ethdev_xstats.push_back(h->ethdev_xstats());
  }
  baseline_.local = counters_.local_drops();
}

void NodeStatsImpl::clear_forward_stats() {
  parts_.loop->expects_own_lcore();
  baseline_.forward = counters_.traffics();
  baseline_.icmp_errors = parts_.punt->icmp_counters();
  baseline_.workers.clear();
  for (std::size_t i = 0; i < parts_.workers.all().size(); ++i)
    baseline_.workers.push_back(counters_.work(i));
}

void NodeStatsImpl::clear_port_stats(std::string_view name) {
  parts_.loop->expects_own_lcore();
  const std::vector<TrafficInfo> totals = counters_.traffics();
  baseline_.interfaces.resize(totals.size());
  for (const auto& slot : parts_.interfaces)
    if (name.empty() || slot->control->name() == name)
      baseline_.interfaces[slot->control->id()] = totals[slot->control->id()];
  if (name.empty()) {
    port_shown_ = totals;
    port_shown_at_ = parts_.now();
  }
  baseline_.ports.resize(parts_.ports.size());
  baseline_.port_xstats.resize(parts_.ports.size());
  for (std::size_t i = 0; i < parts_.ports.size(); ++i) {
    if (!name.empty() && parts_.ports[i]->config().name != name) continue;
    baseline_.ports[i] = device_stats(parts_.ports[i]->device());
    baseline_.port_xstats[i] = device_xstats(parts_.ports[i]->device());
  }
}

void NodeStatsImpl::clear_latency() {
  parts_.loop->expects_own_lcore();
  baseline_.latency = counters_.latency();
}

}  // namespace ipoib::mgmt
