// SPDX-License-Identifier: BSD-3-Clause
// The answers of telemetry, as JSON.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "app/export/render.h"
#include "app/export/telemetry.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_view.h"
#include "lib/mgmt/trace.h"

namespace ipoib::app {
namespace {

/// Octets per piece: telemetry truncates an answer at 16 KiB. Further entries are in the next
/// piece.
constexpr std::size_t kPieceOctets = 12 * 1024;
/// Entries per piece: telemetry takes at most 256 per object.
constexpr std::size_t kPieceEntries = 200;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

/// Returns the part of a list from `first` on that fits one answer. `row` makes the row of an
/// index.
template <class MakeRow>
Json piece_of(std::size_t total, std::size_t first, MakeRow row) {
  Json entries = Json::object();
  std::size_t octets = 0;
  for (std::size_t i = first; i < total && entries.size() < kPieceEntries; ++i) {
    Json entry = row(i);
    octets += dump(entry).size() + 8;
    if (octets > kPieceOctets) break;
    entries[std::to_string(i)] = std::move(entry);
  }
  return {{"total", total}, {"first", first}, {"entries", std::move(entries)}};
}

template <class Row>
Json piece(const std::vector<Row>& rows, std::size_t first) {
  return piece_of(rows.size(), first, [&](std::size_t i) { return to_json(rows[i]); });
}

Json piece(const Json& rows, std::size_t first) {
  return piece_of(rows.size(), first, [&](std::size_t i) { return rows[i]; });
}

/// Returns 0 if the text does not start with a number.
std::size_t number_of(std::string_view text) {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Splits "ib0,100". The number is 0 if it is missing or not a number.
std::pair<std::string_view, std::size_t> split(std::string_view parameters) {
  const auto comma = parameters.find(',');
  if (comma == std::string_view::npos) return {parameters, 0};
  return {parameters.substr(0, comma), number_of(parameters.substr(comma + 1))};
}

template <class Row>
Json names_of(const std::vector<Row>& rows) {
  Json names = Json::array();
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

template <class Row>
Json named(const std::vector<Row>& rows, std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return to_json(row);
  return nullptr;
}

Json xstats(const mgmt::NodeFaces& node, std::string_view name) {
  const auto rows = node.stats.xstats(name);
  return rows.empty() ? Json{} : xstats_json(rows);
}

/// True for a link, a port, or an empty name, which stands for all.
bool is_interface(const mgmt::NodeFaces& node, std::string_view name) {
  const auto& config = node.view.config();
  const auto named = [name](const auto& entry) { return entry.name == name; };
  return name.empty() || std::any_of(config.links.begin(), config.links.end(), named) ||
         std::any_of(config.ports.begin(), config.ports.end(), named);
}

Json neighbours(const mgmt::NodeFaces& node, std::string_view parameters) {
  const auto [name, first] = split(parameters);
  if (!is_interface(node, name)) return nullptr;
  const auto keys = node.view.neighbour_keys(name);
  return piece_of(keys.size(), first,
                  [&](std::size_t i) { return to_json(node.view.neighbour(keys[i]).value()); });
}

Json groups(const mgmt::NodeFaces& node, std::string_view parameters) {
  const auto [name, first] = split(parameters);
  if (!is_interface(node, name)) return nullptr;
  return piece(node.view.groups(name), first);
}

Json queriers(const mgmt::NodeFaces& node, std::string_view parameters) {
  const auto [name, first] = split(parameters);
  if (!is_interface(node, name)) return nullptr;
  return piece(node.view.queriers(name), first);
}

Json connections(const mgmt::NodeFaces& node, std::string_view parameters) {
  const auto [name, first] = split(parameters);
  if (!is_interface(node, name)) return nullptr;
  return piece(node.view.connections(name), first);
}

/// Returns the rows keyed by their names.
Json by_name(const Json& rows, const char* key) {
  Json object = Json::object();
  for (const Json& row : rows) object[row.at(key).get<std::string>()] = row;
  return object;
}

/// Returns the "groups" or "ports" of the administrator on an hca, which may be long.
Json kept(const mgmt::NodeFaces& node, const char* what, std::string_view parameters) {
  const auto [name, first] = split(parameters);
  for (const Json& row : to_json(node.view.subnet_administration()))
    if (row.at("hca") == name) return piece(row.at(what), first);
  return nullptr;
}

/// Returns the rows without groups and ports.
Json sa_of(const mgmt::NodeFaces& node) {
  Json rows = to_json(node.view.subnet_administration());
  for (Json& row : rows) {
    row.erase("groups");
    row.erase("ports");
  }
  return rows;
}

/// Returns group -> row, without the hosts.
Json proxies(const mgmt::NodeFaces& node) {
  Json rows = to_json(node.view.proxies());
  for (Json& row : rows) row["hosts"] = row.at("hosts").size();
  return by_name(rows, "group");
}

Json proxied_hosts(const mgmt::NodeFaces& node) {
  Json hosts = Json::array();
  Json all = to_json(node.view.proxies());
  for (Json& proxy : all)
    for (Json& host : proxy.at("hosts")) {
      host["group"] = proxy.at("group");
      hosts.push_back(std::move(host));
    }
  return hosts;
}

/// Returns the names of the sections, or one section; lists of tables come in pieces.
Json config(const mgmt::NodeFaces& node, std::string_view parameters) {
  const Json all = to_json(node.view.config());
  if (parameters.empty()) {
    Json names = Json::array();
    for (const auto& [name, section] : all.items()) names.push_back(name);
    return names;
  }
  const auto [name, first] = split(parameters);
  const auto section = all.find(std::string{name});
  if (section == all.end()) return nullptr;
  return section->is_array() ? piece(*section, first) : *section;
}

/// Returns interface or hca -> reason -> packets.
Json drops(const mgmt::NodeFaces& node) {
  Json object = Json::object();
  for (const auto& d : node.stats.drops())
    object[d.where][std::string{drop_name(d.reason)}] = d.packets;
  return object;
}

/// Returns the state of the trace and a piece of its packets.
Json trace_and_packets(const mgmt::NodeFaces& node, std::string_view parameters) {
  const auto& packets = node.trace.packets();
  Json object = to_json(node.trace.info(), packets.size());
  object.update(piece(packets, number_of(parameters)));
  return object;
}

}  // namespace

Json telemetry_answer(const mgmt::NodeFaces& node, std::string_view command,
                      std::string_view parameters) {
  if (command == "/ipoib/links") return names_of(node.view.links());
  if (command == "/ipoib/link") return named(node.view.links(), parameters);
  if (command == "/ipoib/ports") return names_of(node.view.ports());
  if (command == "/ipoib/port") return named(node.view.ports(), parameters);
  if (command == "/ipoib/xstats") return xstats(node, parameters);
  if (command == "/ipoib/neighbours") return neighbours(node, parameters);
  if (command == "/ipoib/groups") return groups(node, parameters);
  if (command == "/ipoib/queriers") return queriers(node, parameters);
  if (command == "/ipoib/connections") return connections(node, parameters);
  if (command == "/ipoib/routes")
    return piece(node.view.routes(std::nullopt, kAll), number_of(parameters));
  if (command == "/ipoib/multicast_routes")
    return piece(node.view.multicast_routes(), number_of(parameters));
  if (command == "/ipoib/filters") return piece(node.view.filters(), number_of(parameters));
  if (command == "/ipoib/hcas") return by_name(to_json(node.view.hcas()), "name");
  if (command == "/ipoib/sa") return by_name(sa_of(node), "hca");
  if (command == "/ipoib/mirrors") return to_json(node.view.linux_plane());
  if (command == "/ipoib/proxies") return proxies(node);
  if (command == "/ipoib/proxy_hosts") return piece(proxied_hosts(node), number_of(parameters));
  if (command == "/ipoib/shared") return to_json(node.view.shared_groups(""));
  if (command == "/ipoib/sa_groups") return kept(node, "groups", parameters);
  if (command == "/ipoib/sa_ports") return kept(node, "ports", parameters);
  if (command == "/ipoib/workers") return to_json(node.stats.workers());
  if (command == "/ipoib/forward") return to_json(node.view.forward_info());
  if (command == "/ipoib/forward_stats") return fwd_stats_json(node.stats);
  if (command == "/ipoib/management") return to_json(node.stats.management());
  if (command == "/ipoib/latency") return to_json(node.stats.latency());
  if (command == "/ipoib/trace") return trace_and_packets(node, parameters);
  if (command == "/ipoib/capture") return to_json(node.view.capture());
  if (command == "/ipoib/drops") return drops(node);
  if (command == "/ipoib/config") return config(node, parameters);
  return nullptr;
}

}  // namespace ipoib::app
