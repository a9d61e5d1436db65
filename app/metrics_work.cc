// SPDX-License-Identifier: BSD-3-Clause
// Metrics of workers, and histograms.
#include <array>
#include <string>

#include "app/metric_table.h"
#include "app/metrics.h"

namespace ipoib::app {
namespace {

using fwd::Histogram;
using mgmt::LatencyTotals;
using mgmt::NodeTotals;
using mgmt::WorkerInfo;

constexpr std::array kWorkerColumns = {
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_loops_total", "Passes of the worker's loop.",
                             [](const auto& w) { return static_cast<double>(w.loops); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_busy_loops_total",
                             "Passes that found a packet or a message.",
                             [](const auto& w) { return static_cast<double>(w.busy_loops); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_busy_cycles_total",
                             "Cycles of the time-stamp counter spent in those passes.",
                             [](const auto& w) { return static_cast<double>(w.busy_cycles); }},
    MetricColumn<WorkerInfo>{
        kCounter, "ipoib_worker_cycles_total",
        "Cycles of the time-stamp counter since the process started, idle ones too.",
        [](const auto& w) { return static_cast<double>(w.cycles); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_receive_packets_total",
                             "Packets taken from queues.",
                             [](const auto& w) { return static_cast<double>(w.rx_packets); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_generated_packets_total",
                             "Packets that a forward mode made.",
                             [](const auto& w) { return static_cast<double>(w.generated); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_consumed_packets_total",
                             "Packets that ended here because the forward mode is a test.",
                             [](const auto& w) { return static_cast<double>(w.consumed); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_nombuf_total",
                             "Packets that a forward mode did not make for want of a buffer.",
                             [](const auto& w) { return static_cast<double>(w.no_mbuf); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_tcp_merged_segments_total",
                             "TCP segments sent as part of larger packets.",
                             [](const auto& w) { return static_cast<double>(w.tcp_merged); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_tcp_cut_packets_total",
                             "TCP packets sent in smaller segments.",
                             [](const auto& w) { return static_cast<double>(w.tcp_cut); }},
    MetricColumn<WorkerInfo>{kCounter, "ipoib_worker_punts_total",
                             "Packets and messages handed to the management lcore.",
                             [](const auto& w) { return static_cast<double>(w.punts); }},
};

/// Largest number of packets per receive call that each of WorkerInfo::bursts counts; the last one
/// has no bound.
constexpr std::array kBurstBounds = {0., 1., 3., 7., 15., 31., 63.};

/// Bounds of the latency histogram, seconds: 1, 2, 5 of each decade.
constexpr std::array kLatencyBounds = {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4,
                                       5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1,
                                       2e-1, 5e-1, 1.,   2.,   5.,   10.};

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

prometheus::ClientMetric burst_histogram(const WorkerInfo& worker) {
  prometheus::ClientMetric metric;
  metric.label = {{"worker", std::to_string(worker.number)}};
  auto& h = metric.histogram;
  for (std::size_t i = 0; i < worker.bursts.size(); ++i) {
    h.sample_count += worker.bursts[i];
    if (i < kBurstBounds.size()) h.bucket.push_back({h.sample_count, kBurstBounds[i]});
  }
  h.sample_sum = static_cast<double>(worker.rx_packets);
  return metric;
}

/// Merges fine buckets into coarse ones. A value counts as the middle of its fine bucket, which is
/// less than 1 % away.
prometheus::ClientMetric latency_histogram(const LatencyTotals& latency) {
  prometheus::ClientMetric metric;
  auto& h = metric.histogram;
  for (const double bound : kLatencyBounds) h.bucket.push_back({0, bound});
  for (std::size_t i = 0; i < latency.ns.size(); ++i) {
    const std::uint64_t n = latency.ns[i];
    if (n == 0) continue;
    const double middle = (seconds(Histogram::lowest(i)) + seconds(Histogram::highest(i))) / 2;
    h.sample_count += n;
    h.sample_sum += static_cast<double>(n) * middle;
    for (auto& bucket : h.bucket)
      if (middle <= bucket.upper_bound) bucket.cumulative_count += n;
  }
  return metric;
}

}  // namespace

void add_work(Metrics& metrics, const NodeTotals& totals) {
  const auto label = [](const WorkerInfo& w) {
    return Labels{{"worker", std::to_string(w.number)}};
  };
  auto& info = add_family(metrics, kGauge, "ipoib_worker_info", "1, with the worker's lcore.");
  for (const auto& w : totals.workers) {
    Labels labels = label(w);
    labels.push_back({"lcore", std::to_string(w.lcore)});
    add_series(info, std::move(labels), 1);
  }
  add_table(metrics, totals.workers, kWorkerColumns, label);
  auto& busy = add_family(metrics, kCounter, "ipoib_worker_busy_seconds_total",
                          "Time in passes of the loop that found something to do; its rate is the "
                          "share of the lcore that is used.");
  for (const auto& w : totals.workers)
    add_series(busy, label(w),
               static_cast<double>(w.busy_cycles) / static_cast<double>(totals.tsc_hz));
  auto& bursts = add_family(metrics, kHistogram, "ipoib_worker_receive_burst_packets",
                            "Receive calls by how many packets they gave.");
  for (const auto& w : totals.workers) bursts.metric.push_back(burst_histogram(w));

  const LatencyTotals& latency = totals.latency;
  const auto add = [&](auto type, const char* name, const char* help, std::uint64_t value) {
    add_series(add_family(metrics, type, name, help), {}, value);
  };
  add(kCounter, "ipoib_latency_sent_packets_total", "Packets sent with a time stamp.",
      latency.sent);
  add(kCounter, "ipoib_latency_received_packets_total",
      "Packets with a time stamp of this node that came back, each once.", latency.received());
  add(kCounter, "ipoib_latency_late_packets_total", "Of those: overtaken by another.",
      latency.late);
  add(kCounter, "ipoib_latency_duplicate_packets_total", "Packets that came again.",
      latency.duplicates);
  add(kGauge, "ipoib_latency_missing_packets", "Packets that have not come, while later ones have.",
      latency.missing());
  add_family(metrics, kHistogram, "ipoib_latency_seconds",
             "How long packets with a time stamp were under way; the sum is exact to 1 %.")
      .metric.push_back(latency_histogram(latency));
}

}  // namespace ipoib::app
