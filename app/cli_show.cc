// Commands that show something: as JSON with `json`, else as text made from the same JSON.
#include <algorithm>

#include "app/cli_commands.h"
#include "app/config.h"
#include "app/render.h"
#include "app/text_table.h"

namespace ipoib::app {
namespace {

Result<std::string> list(const Match& match, const Json& rows, const std::vector<Column>& columns) {
  return match.has("json") ? dump(rows) + "\n" : list_text(rows, columns);
}

std::string lower(std::string_view text) {
  std::string result{text};
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

/// All objects as a list, or the one named in full.
Result<std::string> list_or_one(const Match& match, const Json& rows, const char* key,
                                std::string_view parameter, const std::vector<Column>& columns) {
  const auto wanted = match.get(parameter);
  if (!wanted) return list(match, rows, columns);
  std::string known;
  for (const Json& row : rows) {
    const Json& value = row.at(key);
    const std::string name = value.is_string() ? value.get<std::string>() : value.dump();
    if (name == *wanted) return match.has("json") ? dump(row) + "\n" : object_text(row);
    known += (known.empty() ? "" : ", ") + name;
  }
  return fail(Errc::kNotFound, "no {} {}; there is {}", lower(parameter), *wanted,
              known.empty() ? "none" : known);
}

/// Those rows whose `key` is the name given; all when none is.
Json only(const Json& rows, const char* key, const std::optional<std::string>& name) {
  if (!name) return rows;
  Json result = Json::array();
  for (const Json& row : rows)
    if (row.at(key) == *name) result.push_back(row);
  return result;
}

std::vector<std::string> interface_names(const mgmt::Node& node) {
  std::vector<std::string> names;
  for (const auto& l : node.config().links) names.push_back(l.name);
  for (const auto& p : node.config().ports) names.push_back(p.name);
  return names;
}

/// A name that is none of these is an error, not an empty list.
Status require(const std::optional<std::string>& name, const std::vector<std::string>& known) {
  if (!name || std::find(known.begin(), known.end(), *name) != known.end()) return {};
  return fail(Errc::kNotFound, "no {}; there is {}", *name,
              known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

}  // namespace

Result<std::string> show_link(mgmt::Node& node, const Match& match) {
  return list_or_one(match, to_json(node.links()), "name", "LINK",
                     {{"LINK", "name"},
                      {"STATE", "state"},
                      {"HCA", "hca"},
                      {"LID", "lid"},
                      {"P_KEY", "pkey"},
                      {"QPN", "qpn"},
                      {"MTU", "mtu"},
                      {"ADDRESSES", "addresses"},
                      {"RX", "rx_packets"},
                      {"TX", "tx_packets"},
                      {"REASON", "reason"}});
}

Result<std::string> show_port(mgmt::Node& node, const Match& match) {
  return list_or_one(match, to_json(node.ports()), "name", "PORT",
                     {{"PORT", "name"},
                      {"STATE", "state"},
                      {"DEVICE", "device"},
                      {"DRIVER", "driver"},
                      {"MAC", "mac"},
                      {"MTU", "mtu"},
                      {"ADDRESSES", "addresses"},
                      {"RX", "rx_packets"},
                      {"TX", "tx_packets"}});
}

Result<std::string> show_hca(mgmt::Node& node, const Match& match) {
  return list_or_one(match, to_json(node.hcas()), "name", "HCA",
                     {{"HCA", "name"},
                      {"STATE", "state"},
                      {"DRIVER", "driver"},
                      {"WIRE", "wire"},
                      {"MAD", "mad"},
                      {"GUID", "guid"},
                      {"LID", "lid"},
                      {"SM LID", "sm_lid"},
                      {"MTU", "mtu"},
                      {"P_KEYS", "pkeys"},
                      {"ADMINISTRATOR", "subnet_administrator"},
                      {"PROBLEM", "problem"}});
}

Result<std::string> show_sa(mgmt::Node& node, const Match& match) {
  const Json rows = to_json(node.subnet_administration());
  auto text = list_or_one(match, rows, "hca", "HCA",
                          {{"HCA", "hca"},
                           {"SM LID", "sm_lid"},
                           {"SENT", "client.sent"},
                           {"RETRIED", "client.retried"},
                           {"ANSWERED", "client.answered"},
                           {"REFUSED", "client.refused"},
                           {"TIMED OUT", "client.timed_out"},
                           {"ADMINISTRATOR", "administrator"},
                           {"PROBLEM", "problem"}});
  if (!text || match.has("json") || match.get("HCA")) return text;
  for (const Json& row : rows) {
    if (row.at("groups").empty()) continue;
    *text += fmt::format("\ngroups of the administrator on {}\n", row.at("hca").get<std::string>());
    *text += list_text(row.at("groups"), {{"MGID", "mgid"},
                                          {"MLID", "mlid"},
                                          {"P_KEY", "pkey"},
                                          {"Q_KEY", "qkey"},
                                          {"MTU", "mtu"},
                                          {"MEMBERS", "members"}});
  }
  return text;
}

Result<std::string> show_worker(mgmt::Node& node, const Match& match) {
  return list_or_one(match, to_json(node.workers()), "worker", "WORKER",
                     {{"WORKER", "worker"},
                      {"LCORE", "lcore"},
                      {"INTERFACES", "interfaces"},
                      {"NEIGHBOURS", "neighbours"},
                      {"RX", "rx_packets"},
                      {"PUNTS", "punts"},
                      {"LOOPS", "loops"},
                      {"BUSY LOOPS", "busy_loops"}});
}

Result<std::string> show_neigh(mgmt::Node& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node)); !s) return tl::make_unexpected(s.error());
  return list(match, to_json(node.neighbours(iface.value_or(""))),
              {{"ADDRESS", "address"},
               {"IFACE", "iface"},
               {"STATE", "state"},
               {"LID", "lid"},
               {"SL", "sl"},
               {"MTU", "mtu"},
               {"HELD", "held"},
               {"AGE MS", "age_ms"},
               {"LINK-LAYER ADDRESS", "lladdr"}});
}

Result<std::string> show_route(mgmt::Node& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node)); !s) return tl::make_unexpected(s.error());
  return list(match, only(to_json(node.routes()), "iface", iface),
              {{"TO", "to"}, {"KIND", "kind"}, {"IFACE", "iface"}, {"VIA", "via"}});
}

Result<std::string> show_group(mgmt::Node& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node)); !s) return tl::make_unexpected(s.error());
  return list(match, to_json(node.groups(iface.value_or(""))),
              {{"GROUP", "group"},
               {"IFACE", "iface"},
               {"STATE", "state"},
               {"JOINS", "joins"},
               {"SENDING", "sending"},
               {"MLID", "mlid"},
               {"LINK-LAYER ADDRESS", "lladdr"},
               {"REASON", "reason"}});
}

Result<std::string> show_mroute(mgmt::Node& node, const Match& match) {
  const auto iface = match.get("IFACE");
  if (auto s = require(iface, interface_names(node)); !s) return tl::make_unexpected(s.error());
  return list(match, only(to_json(node.multicast_routes()), "in", iface),
              {{"GROUP", "group"},
               {"SOURCE", "source"},
               {"IN", "in"},
               {"OUT", "out"},
               {"LOCAL", "local"},
               {"ORIGIN", "origin"},
               {"AGE MS", "age_ms"}});
}

Result<std::string> show_drops(mgmt::Node& node, const Match& match) {
  const auto where = match.get("WHERE");
  auto known = interface_names(node);
  for (const auto& h : node.config().hcas) known.push_back(h.name);
  if (auto s = require(where, known); !s) return tl::make_unexpected(s.error());
  return list(match, only(to_json(node.drops()), "where", where),
              {{"REASON", "reason"}, {"WHERE", "where"}, {"PACKETS", "packets"}});
}

Result<std::string> show_config(mgmt::Node& node, const Match& match) {
  return match.has("json") ? dump(to_json(node.config())) + "\n" : print_config(node.config());
}

}  // namespace ipoib::app
