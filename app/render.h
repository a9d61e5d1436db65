// SPDX-License-Identifier: BSD-3-Clause
// A node's rows as JSON, one function an object: what `show ... json` prints and telemetry answers.
// Numbers are numbers in host order, addresses the text people write.
#pragma once

#include <string_view>
#include <vector>

#include "app/json.h"
#include "lib/mgmt/device_stats.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_info.h"

namespace ipoib::app {

[[nodiscard]] Json to_json(const mgmt::LinkInfo& link);
[[nodiscard]] Json to_json(const mgmt::PortInfo& port);
[[nodiscard]] Json to_json(const mgmt::HcaInfo& hca);
[[nodiscard]] Json to_json(const mgmt::RouteInfo& route);
[[nodiscard]] Json to_json(const link::GroupInfo& group);
[[nodiscard]] Json to_json(const link::ConnectionInfo& connection);
[[nodiscard]] Json to_json(const mgmt::MulticastRouteInfo& route);
[[nodiscard]] Json to_json(const mgmt::WorkerInfo& worker);
[[nodiscard]] Json to_json(const mgmt::DropInfo& drop);
[[nodiscard]] Json to_json(const mgmt::SaInfo& sa);
[[nodiscard]] Json to_json(const sa::ClientCounters& counters);
[[nodiscard]] Json to_json(const link::NeighbourInfo& neighbour);
/// Messages of the communication manager by kind, and what else it met.
[[nodiscard]] Json to_json(const cm::ManagerCounters& counters);
/// What the control plane of an interface counted since the start: numbers, and "nd_errors" by
/// error.
[[nodiscard]] Json counters_json(const mgmt::LinkInfo& link);
[[nodiscard]] Json counters_json(const mgmt::PortInfo& port);
[[nodiscard]] std::string_view state_name(fabric::PortState state);
[[nodiscard]] std::string_view link_layer_name(fabric::LinkLayer layer);
// render_stats.cc
[[nodiscard]] Json to_json(const mgmt::ForwardInfo& info);
[[nodiscard]] Json to_json(const mgmt::LatencyInfo& info);
/// Name -> value.
[[nodiscard]] Json xstats_json(const std::vector<mgmt::Xstat>& xstats);
/// With dpdk-testpmd's names of numbers, as the next one.
[[nodiscard]] Json port_stats_json(const mgmt::InterfaceStatsInfo& info);
/// "ports", "all" and "lcores".
[[nodiscard]] Json fwd_stats_json(const std::vector<mgmt::InterfaceStatsInfo>& interfaces,
                                  const std::vector<mgmt::WorkerInfo>& workers);
/// How busy each worker was, and with bursts of what size.
[[nodiscard]] Json lcores_json(const std::vector<mgmt::WorkerInfo>& workers);

/// Sections and keys of the configuration file.
[[nodiscard]] Json to_json(const mgmt::NodeConfig& config);

template <class Row>
[[nodiscard]] Json to_json(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  return list;
}

/// One line. Octets that are not UTF-8 become the replacement character.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace ipoib::app
