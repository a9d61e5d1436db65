// SPDX-License-Identifier: BSD-3-Clause
// Statistics as JSON.
#include <algorithm>
#include <array>
#include <cmath>

#include "app/export/render.h"
#include "lib/mgmt/device/xstats.h"
#include "lib/mgmt/node_stats.h"

namespace ipoib::app {
namespace {

constexpr std::array<const char*, 8> kBurstSizes = {"0",    "1",     "2-3",   "4-7",
                                                    "8-15", "16-31", "32-63", "64"};

struct Sums {
  std::uint64_t rx = 0, rx_dropped = 0, tx = 0, tx_dropped = 0;
};

Sums sums_of(const mgmt::TrafficInfo& traffic) {
  Sums s{traffic.rx_packets, 0, traffic.tx_packets, 0};
  for (std::size_t i = 0; i < kDropCount; ++i)
    (mgmt::is_transmit(static_cast<Drop>(i)) ? s.tx_dropped : s.rx_dropped) += traffic.drops[i];
  return s;
}

/// Received packets include those that were dropped.
Json fwd_numbers(const Sums& s) {
  return {{"RX-packets", s.rx - std::min(s.rx, s.rx_dropped)},
          {"RX-dropped", s.rx_dropped},
          {"RX-total", s.rx},
          {"TX-packets", s.tx},
          {"TX-dropped", s.tx_dropped},
          {"TX-total", s.tx + s.tx_dropped}};
}

double rounded(double value) {
  return std::round(value * 10) / 10;
}

}  // namespace

Json to_json(const mgmt::ForwardInfo& info) {
  return {{"mode", fwd::mode_name(info.mode)},
          {"forwarding", info.forwarding},
          {"burst", info.burst},
          {"exit", info.egress},
          {"exit_bps", info.egress_bps},
          {"first_bursts_waiting", info.first_bursts},
          {"generated", info.generated},
          {"consumed", info.consumed},
          {"no_mbuf", info.no_mbuf}};
}

Json to_json(const mgmt::ManagementInfo& info) {
  return {{"turns", info.turns},
          {"slow_turns", info.slow_turns},
          {"p50_ns", info.p50_ns},
          {"p99_ns", info.p99_ns},
          {"p99.9_ns", info.p999_ns},
          {"max_ns", info.max_ns},
          {"log_lines_lost", info.log_lines_lost}};
}

Json to_json(const mgmt::CaptureInfo& info) {
  return {{"state", mgmt::kCaptureStateNames[static_cast<std::size_t>(info.state)]},
          {"file", info.file},
          {"frames", info.frames},
          {"octets", info.octets},
          {"lost", info.lost},
          {"max_octets", info.max_octets},
          {"max_frames", info.max_frames},
          {"reason", info.reason}};
}

Json to_json(const mgmt::LatencyInfo& info) {
  return {{"sent", info.sent},        {"received", info.received},     {"lost", info.lost},
          {"late", info.late},        {"duplicates", info.duplicates}, {"min_ns", info.min_ns},
          {"p50_ns", info.p50_ns},    {"p90_ns", info.p90_ns},         {"p99_ns", info.p99_ns},
          {"p99.9_ns", info.p999_ns}, {"max_ns", info.max_ns}};
}

Json xstats_json(const std::vector<mgmt::Xstat>& xstats) {
  Json object = Json::object();
  for (const mgmt::Xstat& x : xstats) object[x.name] = x.value;
  return object;
}

Json port_stats_json(const mgmt::InterfaceStatsInfo& info) {
  const mgmt::TrafficInfo& t = info.traffic;
  return {{"name", info.name},           {"RX-packets", t.rx_packets},
          {"RX-missed", info.rx_missed}, {"RX-bytes", t.rx_bytes},
          {"RX-errors", info.rx_errors}, {"RX-nombuf", info.rx_nombuf},
          {"TX-packets", t.tx_packets},  {"TX-errors", sums_of(t).tx_dropped},
          {"TX-bytes", t.tx_bytes},      {"Rx-pps", info.rx_pps},
          {"Rx-bps", info.rx_bps},       {"Tx-pps", info.tx_pps},
          {"Tx-bps", info.tx_bps}};
}

Json fwd_stats_json(const mgmt::NodeStats& stats) {
  Json ports = Json::array();
  Sums all;
  for (const auto& i : stats.forward_stats()) {
    const Sums s = sums_of(i.traffic);
    all = {all.rx + s.rx, all.rx_dropped + s.rx_dropped, all.tx + s.tx,
           all.tx_dropped + s.tx_dropped};
    Json row = fwd_numbers(s);
    row["name"] = i.name;
    ports.push_back(std::move(row));
  }
  const auto [sent, suppressed] = stats.icmp_errors();
  return {{"ports", std::move(ports)},
          {"all", fwd_numbers(all)},
          {"icmp_errors", {{"sent", sent}, {"suppressed", suppressed}}},
          {"lcores", lcores_json(stats.workers())}};
}

Json lcores_json(const std::vector<mgmt::WorkerInfo>& workers) {
  Json rows = Json::array();
  for (const auto& w : workers) {
    Json bursts = Json::object();
    for (std::size_t i = 0; i < w.bursts.size(); ++i) bursts[kBurstSizes[i]] = w.bursts[i];
    const auto packets =
        static_cast<double>(std::max<std::uint64_t>(1, w.rx_packets + w.generated));
    const auto cycles = static_cast<double>(std::max<std::uint64_t>(1, w.cycles));
    const auto busy = static_cast<double>(w.busy_cycles);
    rows.push_back({{"worker", w.number},
                    {"lcore", w.lcore},
                    {"interfaces", w.interfaces},
                    {"rx_packets", w.rx_packets},
                    {"generated", w.generated},
                    {"consumed", w.consumed},
                    {"no_mbuf", w.no_mbuf},
                    {"gro_segments", w.gro_segments},
                    {"gso_packets", w.gso_packets},
                    {"cycles_per_packet", rounded(busy / packets)},
                    {"busy_percent", rounded(std::min(100.0, busy / cycles * 100))},
                    {"bursts", std::move(bursts)}});
  }
  return rows;
}

}  // namespace ipoib::app
