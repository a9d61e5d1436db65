// SPDX-License-Identifier: BSD-3-Clause
// Statistics in the style of dpdk-testpmd, with its names of counters, for ports and links.
#include <algorithm>

#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "app/export/render.h"
#include "lib/mgmt/node_stats.h"

namespace ipoib::app {
namespace {

/// Prints "NAME: value" in columns.
std::string numbers(const Json& row, std::initializer_list<std::string_view> keys) {
  std::string line = " ";
  for (const auto key : keys) {
    const auto value = row.at(std::string{key}).get<std::uint64_t>();
    line += fmt::format(" {:<25}", fmt::format("{}: {}", key, value));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string fwd_numbers(const Json& row) {
  return numbers(row, {"RX-packets", "RX-dropped", "RX-total"}) +
         numbers(row, {"TX-packets", "TX-dropped", "TX-total"});
}

}  // namespace

Result<Output> show_port_stats(const mgmt::NodeFaces& node, const Match& match) {
  const auto wanted = match.get("IFACE");
  Json rows = Json::array();
  std::string available;
  for (const mgmt::InterfaceStatsInfo& info : node.stats.port_stats()) {
    available += (available.empty() ? "" : ", ") + info.name;
    if (!wanted || info.name == *wanted) rows.push_back(port_stats_json(info));
  }
  if (wanted && rows.empty())
    return fail(Errc::kNotFound, "no {}; available: {}", *wanted,
                available.empty() ? "none" : available);
  if (match.has("json")) return dump(rows) + "\n";
  std::string text;
  for (const Json& row : rows) {
    text += ruler('#', "NIC statistics for " + row.at("name").get<std::string>());
    text += numbers(row, {"RX-packets", "RX-missed", "RX-bytes"});
    text += numbers(row, {"RX-errors"}) + numbers(row, {"RX-nombuf"});
    text += numbers(row, {"TX-packets", "TX-errors", "TX-bytes"});
    text += "\n  Throughput (since last show)\n";
    text += numbers(row, {"Rx-pps", "Rx-bps"}) + numbers(row, {"Tx-pps", "Tx-bps"});
    text += ruler('#');
  }
  return text;
}

Result<Output> show_fwd_stats(const mgmt::NodeFaces& node, const Match& match) {
  const Json report = fwd_stats_json(node.stats);
  if (match.has("json")) return dump(report) + "\n";
  std::string text;
  for (const Json& row : report.at("ports"))
    text += ruler('-', "Forward statistics for " + row.at("name").get<std::string>()) +
            fwd_numbers(row) + ruler('-') + '\n';
  text += ruler('+', "Accumulated forward statistics for all ports") +
          fwd_numbers(report.at("all")) + ruler('+') + '\n';
  text += ruler('+', "ICMP errors") + numbers(report.at("icmp_errors"), {"sent", "suppressed"}) +
          ruler('+') + '\n';
  return text + list_text(report.at("lcores"), {{"WORKER", "worker"},
                                                {"LCORE", "lcore"},
                                                {"RX", "rx_packets"},
                                                {"GENERATED", "generated"},
                                                {"CONSUMED", "consumed"},
                                                {"NO MBUF", "no_mbuf"},
                                                {"GRO SEGMENTS", "gro_segments"},
                                                {"GSO PACKETS", "gso_packets"},
                                                {"CYCLES/PACKET", "cycles_per_packet"},
                                                {"BUSY %", "busy_percent"},
                                                {"0", "bursts.0"},
                                                {"1", "bursts.1"},
                                                {"2-3", "bursts.2-3"},
                                                {"4-7", "bursts.4-7"},
                                                {"8-15", "bursts.8-15"},
                                                {"16-31", "bursts.16-31"},
                                                {"32-63", "bursts.32-63"},
                                                {"64", "bursts.64"}});
}

Result<Output> show_management(const mgmt::NodeFaces& node, const Match& match) {
  return object(match, to_json(node.stats.management()));
}

Result<Output> show_latency(const mgmt::NodeFaces& node, const Match& match) {
  return object(match, to_json(node.stats.latency()));
}

Result<Output> clear_fwd_stats(const mgmt::NodeFaces& node, const Match&) {
  node.stats.clear_forward_stats();
  return "";
}

Result<Output> clear_latency(const mgmt::NodeFaces& node, const Match&) {
  node.stats.clear_latency();
  return "";
}

}  // namespace ipoib::app
