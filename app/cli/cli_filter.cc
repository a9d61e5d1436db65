// SPDX-License-Identifier: BSD-3-Clause
// Commands for packet filters and the check of sources.
#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "app/config/filter_text.h"
#include "app/export/render.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_control.h"
#include "lib/mgmt/node_view.h"

namespace ipoib::app {
namespace {

/// The value of a parameter; none: the line lacks it. The grammar has checked its form.
template <class T>
std::optional<T> value_of(const Match& match, std::string_view parameter, const TextForm<T>& form) {
  const auto text = match.get(parameter);
  return text ? form.parse(*text) : std::nullopt;
}

}  // namespace

Result<Output> filter_add(const mgmt::NodeFaces& node, const Match& match) {
  mgmt::FilterConfig filter;
  filter.iface = match.get("IFACE").value_or("");
  fwd::FilterRule& rule = filter.rule;
  rule.direction = match.has("out") ? fwd::FilterDirection::kOut : fwd::FilterDirection::kIn;
  rule.action = match.has("accept") ? fwd::FilterAction::kAccept : fwd::FilterAction::kDrop;
  rule.source = value_of(match, "SRC", filter_prefix_form());
  rule.destination = value_of(match, "DST", filter_prefix_form());
  rule.protocol = value_of(match, "PROTO", protocol_form());
  rule.source_ports = value_of(match, "SPORTS", port_range_form());
  rule.destination_ports = value_of(match, "DPORTS", port_range_form());
  std::optional<std::size_t> place;
  if (match.get("RULE")) place = number(match, "RULE");
  return done(node.control.add_filter(filter, place));
}

Result<Output> filter_del(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.remove_filter(number(match, "RULE")));
}

Result<Output> show_filter(const mgmt::NodeFaces& node, const Match& match) {
  auto next = [rows = node.view.filters(), at = std::size_t{0}]() mutable {
    Json piece = Json::array();
    for (; at < rows.size() && piece.size() < kRowsInPiece; ++at)
      piece.push_back(to_json(rows[at]));
    return piece;
  };
  return list_in_pieces(match,
                        {{"RULE", "number"},
                         {"STATE", "state"},
                         {"IFACE", "interface"},
                         {"DIRECTION", "direction"},
                         {"ACTION", "action"},
                         {"SOURCE", "source"},
                         {"DESTINATION", "destination"},
                         {"PROTOCOL", "protocol"},
                         {"SOURCE PORTS", "source_ports"},
                         {"DESTINATION PORTS", "destination_ports"},
                         {"PACKETS", "packets"}},
                        std::move(next));
}

Result<Output> set_source_check(const mgmt::NodeFaces& node, const Match& match) {
  const auto check = match.has("strict")  ? fwd::SourceCheck::kStrict
                     : match.has("loose") ? fwd::SourceCheck::kLoose
                                          : fwd::SourceCheck::kOff;
  return done(node.control.set_source_check(match.get("IFACE").value_or(""), check));
}

Result<Output> set_directed_broadcast(const mgmt::NodeFaces& node, const Match& match) {
  const auto which = match.has("all-subnets") ? fwd::DirectedBroadcast::kAllSubnets
                     : match.has("subnet")    ? fwd::DirectedBroadcast::kSubnet
                                              : fwd::DirectedBroadcast::kOff;
  return done(node.control.set_directed_broadcast(match.get("IFACE").value_or(""), which));
}

}  // namespace ipoib::app
