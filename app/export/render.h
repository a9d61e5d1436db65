// SPDX-License-Identifier: BSD-3-Clause
// Converts a node's rows to JSON, one function per type, for `show ... json` and telemetry. Numbers
// are JSON numbers in host order; addresses are text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/export/json.h"
#include "lib/mgmt/capture_info.h"
#include "lib/mgmt/device/device_stats.h"
#include "lib/mgmt/filter_config.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_info.h"
#include "lib/mgmt/trace.h"

namespace ipoib::mgmt {
class NodeStats;
}

namespace ipoib::app {

[[nodiscard]] Json to_json(const mgmt::LinkInfo& link);
[[nodiscard]] Json to_json(const mgmt::EthernetPortInfo& port);
[[nodiscard]] Json to_json(const mgmt::HcaInfo& hca);
[[nodiscard]] Json to_json(const mgmt::RouteInfo& route);
[[nodiscard]] Json to_json(const link::GroupInfo& group);
[[nodiscard]] Json to_json(const link::ConnectionInfo& connection);
[[nodiscard]] Json to_json(const link::SharedGroupInfo& group);
[[nodiscard]] Json to_json(const mgmt::QuerierInfo& querier);
[[nodiscard]] Json to_json(const mgmt::MulticastRouteInfo& route);
[[nodiscard]] Json to_json(const mgmt::FilterInfo& filter);
[[nodiscard]] Json to_json(const mgmt::WorkerInfo& worker);
[[nodiscard]] Json to_json(const mgmt::DropInfo& drop);
[[nodiscard]] Json to_json(const mgmt::LinuxInfo& plane);
[[nodiscard]] Json to_json(const mgmt::ProxyInfo& proxy);
[[nodiscard]] Json to_json(const mgmt::SaInfo& sa);
[[nodiscard]] Json to_json(const sa::ClientCounters& counters);
[[nodiscard]] Json to_json(const sa::SmpCounters& counters);
[[nodiscard]] Json to_json(const link::NeighbourInfo& neighbour);
/// Messages of the communication manager by kind, and its other events.
[[nodiscard]] Json to_json(const cm::ManagerCounters& counters);
/// Counters of an interface's control plane since the start: numbers, and "nd_errors" and
/// "sidr_errors" by error.
[[nodiscard]] Json counters_json(const mgmt::LinkInfo& link);
[[nodiscard]] Json counters_json(const mgmt::EthernetPortInfo& port);
[[nodiscard]] std::string_view state_name(fabric::PortState state);
[[nodiscard]] std::string_view link_layer_name(fabric::LinkLayer layer);
// render_stats.cc
[[nodiscard]] Json to_json(const mgmt::ForwardInfo& info);
[[nodiscard]] Json to_json(const mgmt::ManagementInfo& info);
[[nodiscard]] Json to_json(const mgmt::LatencyInfo& info);
[[nodiscard]] Json to_json(const mgmt::CaptureInfo& info);
/// Name -> value.
[[nodiscard]] Json xstats_json(const std::vector<mgmt::Xstat>& xstats);
/// Uses dpdk-testpmd's names of counters, as does fwd_stats_json().
[[nodiscard]] Json port_stats_json(const mgmt::InterfaceStatsInfo& info);
/// Returns "ports", "all", "icmp_errors" and "lcores".
[[nodiscard]] Json fwd_stats_json(const mgmt::NodeStats& stats);
/// Returns the load and the burst sizes of each worker.
[[nodiscard]] Json lcores_json(const std::vector<mgmt::WorkerInfo>& workers);

// render_trace.cc
/// The verdict lists each end once: packets that were copied or cut have several.
[[nodiscard]] Json to_json(const mgmt::TracedPacket& packet);
[[nodiscard]] Json to_json(const mgmt::TraceInfo& info, std::size_t recorded);
/// Returns a line or two on the trace.
[[nodiscard]] std::string trace_text(const mgmt::TraceInfo& info, std::size_t recorded);
/// Returns a line on the packet and one for each step.
[[nodiscard]] std::string trace_text(const mgmt::TracedPacket& packet, std::size_t number);

/// Returns the sections and keys of the configuration file.
[[nodiscard]] Json to_json(const mgmt::NodeConfig& config);

template <class Row>
[[nodiscard]] Json to_json(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  return list;
}

/// Returns one line. Octets that are not UTF-8 become the replacement character.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace ipoib::app
