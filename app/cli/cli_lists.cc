// SPDX-License-Identifier: BSD-3-Clause
// Commands that show lists which may be long: neighbours, routes, groups, queriers, connections,
// multicast routes.
#include <utility>

#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "app/export/render.h"
#include "lib/mgmt/node_view.h"

namespace ipoib::app {
namespace {

/// Converts existing rows to JSON, one piece per call.
template <class Row>
std::function<Json()> pieces_of(std::vector<Row> rows) {
  return [rows = std::move(rows), at = std::size_t{0}]() mutable {
    Json piece = Json::array();
    for (; at < rows.size() && piece.size() < kRowsInPiece; ++at)
      piece.push_back(to_json(rows[at]));
    return piece;
  };
}

template <class Row>
void keep_only(std::vector<Row>& rows, std::string Row::*key,
               const std::optional<std::string>& name) {
  if (name) std::erase_if(rows, [&](const Row& row) { return row.*key != *name; });
}

}  // namespace

Result<Output> show_neigh(const mgmt::NodeFaces& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node.view)); !s)
    return tl::make_unexpected(s.error());
  auto next = [&node, keys = node.view.neighbour_keys(iface.value_or("")),
               at = std::size_t{0}]() mutable {
    Json piece = Json::array();
    for (; at < keys.size() && piece.size() < kRowsInPiece; ++at)
      if (const auto row = node.view.neighbour(keys[at])) piece.push_back(to_json(*row));
    return piece;
  };
  return list_in_pieces(match,
                        {{"ADDRESS", "address"},
                         {"IFACE", "iface"},
                         {"STATE", "state"},
                         {"LID", "lid"},
                         {"PATHS", "paths"},
                         {"SL", "sl"},
                         {"WORKER", "worker"},
                         {"MODE", "mode"},
                         {"MTU", "mtu"},
                         {"HELD", "held"},
                         {"AGE MS", "age_ms"},
                         {"LINK-LAYER ADDRESS", "lladdr"}},
                        std::move(next));
}

Result<Output> show_route(const mgmt::NodeFaces& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node.view)); !s)
    return tl::make_unexpected(s.error());
  auto next = [&node, iface, after = std::optional<wire::IpPrefix>{}]() mutable {
    std::vector<mgmt::RouteInfo> rows;
    do {
      rows = node.view.routes(after, kRowsInPiece);
      if (rows.empty()) break;
      after = rows.back().to;
      keep_only(rows, &mgmt::RouteInfo::iface, iface);
    } while (rows.empty());
    return to_json(rows);
  };
  return list_in_pieces(match,
                        {{"TO", "to"},
                         {"KIND", "kind"},
                         {"ACTION", "action"},
                         {"METRIC", "metric"},
                         {"STATE", "state"},
                         {"IFACE", "iface"},
                         {"VIA", "via"},
                         {"WEIGHTS", "weights"},
                         {"DEAD", "dead"}},
                        std::move(next));
}

Result<Output> show_group(const mgmt::NodeFaces& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node.view)); !s)
    return tl::make_unexpected(s.error());
  return list_in_pieces(match,
                        {{"GROUP", "group"},
                         {"IFACE", "iface"},
                         {"STATE", "state"},
                         {"JOINS", "joins"},
                         {"SENDING", "sending"},
                         {"MLID", "mlid"},
                         {"WORKER", "worker"},
                         {"LINK-LAYER ADDRESS", "lladdr"},
                         {"REASON", "reason"}},
                        pieces_of(node.view.groups(iface.value_or(""))));
}

Result<Output> show_querier(const mgmt::NodeFaces& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node.view)); !s)
    return tl::make_unexpected(s.error());
  return list_in_pieces(match,
                        {{"IFACE", "iface"},
                         {"FAMILY", "family"},
                         {"QUERIER", "querier"},
                         {"ROLE", "role"},
                         {"FORWARDER", "forwarder"},
                         {"AGE MS", "age_ms"}},
                        pieces_of(node.view.queriers(iface.value_or(""))));
}

Result<Output> show_connection(const mgmt::NodeFaces& node, const Match& match) {
  const auto link = match.get("LINK");
  if (auto s = require(link, link_names(node.view)); !s) return tl::make_unexpected(s.error());
  return list_in_pieces(match,
                        {{"ID", "id"},
                         {"LINK", "iface"},
                         {"NEIGHBOURS", "neighbours"},
                         {"TYPE", "transport"},
                         {"ROLE", "role"},
                         {"STATE", "state"},
                         {"SENDING", "sending"},
                         {"WORKER", "worker"},
                         {"QPN", "qpn"},
                         {"PEER QPN", "peer_qpn"},
                         {"MTU", "mtu"},
                         {"TX PACKETS", "tx_packets"},
                         {"RX PACKETS", "rx_packets"},
                         {"AGE MS", "age_ms"}},
                        pieces_of(node.view.connections(link.value_or(""))));
}

Result<Output> show_mroute(const mgmt::NodeFaces& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node.view)); !s)
    return tl::make_unexpected(s.error());
  auto rows = node.view.multicast_routes();
  keep_only(rows, &mgmt::MulticastRouteInfo::in, iface);
  return list_in_pieces(match,
                        {{"GROUP", "group"},
                         {"SOURCE", "source"},
                         {"IN", "in"},
                         {"OUT", "out"},
                         {"LEFT TO OTHER", "left_to_other"},
                         {"LOCAL", "local"},
                         {"ORIGIN", "origin"},
                         {"AGE MS", "age_ms"}},
                        pieces_of(std::move(rows)));
}

}  // namespace ipoib::app
