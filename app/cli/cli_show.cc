// SPDX-License-Identifier: BSD-3-Clause
// Commands that show something: as JSON with `json`, otherwise as text made from the same JSON.
#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "app/config/config.h"
#include "app/export/render.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_view.h"

namespace ipoib::app {
Result<Output> show_link(const mgmt::NodeFaces& node, const Match& match) {
  return list_or_one(match, to_json(node.view.links()), "name", "LINK",
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

Result<Output> show_port(const mgmt::NodeFaces& node, const Match& match) {
  return list_or_one(match, to_json(node.view.ports()), "name", "PORT",
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

Result<Output> show_hca(const mgmt::NodeFaces& node, const Match& match) {
  return list_or_one(match, to_json(node.view.hcas()), "name", "HCA",
                     {{"HCA", "name"},
                      {"STATE", "state"},
                      {"DRIVER", "driver"},
                      {"WIRE", "wire"},
                      {"MAD", "mad"},
                      {"GUID", "guid"},
                      {"LID", "lid"},
                      {"LMC", "lmc"},
                      {"SM LID", "sm_lid"},
                      {"MTU", "mtu"},
                      {"P_KEYS", "pkeys"},
                      {"ADMINISTRATOR", "subnet_administrator"},
                      {"PROBLEM", "problem"}});
}

Result<Output> show_sa(const mgmt::NodeFaces& node, const Match& match) {
  const Json rows = to_json(node.view.subnet_administration());
  auto shown = list_or_one(match, rows, "hca", "HCA",
                           {{"HCA", "hca"},
                            {"SM LID", "sm_lid"},
                            {"SENT", "client.sent"},
                            {"RETRIED", "client.retried"},
                            {"ANSWERED", "client.answered"},
                            {"REFUSED", "client.refused"},
                            {"TIMED OUT", "client.timed_out"},
                            {"ADMINISTRATOR", "administrator"},
                            {"PROBLEM", "problem"}});
  if (!shown || match.has("json") || match.get("HCA")) return shown;
  std::string text = std::move(*shown).all();
  for (const Json& row : rows) {
    if (row.at("groups").empty()) continue;
    text += fmt::format("\ngroups of the administrator on {}\n", row.at("hca").get<std::string>());
    text += list_text(row.at("groups"), {{"MGID", "mgid"},
                                         {"MLID", "mlid"},
                                         {"P_KEY", "pkey"},
                                         {"Q_KEY", "qkey"},
                                         {"MTU", "mtu"},
                                         {"MEMBERS", "members"}});
  }
  return text;
}

Result<Output> show_shared(const mgmt::NodeFaces& node, const Match& match) {
  const auto name = match.get("LINK");
  if (auto s = require(name, link_names(node.view)); !s) return tl::make_unexpected(s.error());
  Json groups = to_json(node.view.shared_groups(name.value_or("")));
  if (match.has("json")) return dump(groups) + "\n";
  std::string text;
  for (Json& group : groups) {
    const Json members = group.at("members");
    group.erase("members");
    text += object_text(group) + "\n" +
            list_text(members, {{"MEMBER", "gid"},
                                {"SELF", "self"},
                                {"STATE", "state"},
                                {"HOSTS", "hosts"},
                                {"AGE MS", "age_ms"},
                                {"LINK-LAYER ADDRESS", "lladdr"}}) +
            "\n";
  }
  return text;
}

Result<Output> show_mirror(const mgmt::NodeFaces& node, const Match& match) {
  Json plane = to_json(node.view.linux_plane());
  if (match.has("json")) return dump(plane) + "\n";
  const Json mirrors = plane.at("mirrors");
  plane.erase("mirrors");
  return object_text(plane) + "\n" +
         list_text(mirrors, {{"MIRROR", "iface"},
                             {"IFINDEX", "ifindex"},
                             {"ENABLED", "enabled"},
                             {"CARRIER", "carrier"},
                             {"TO LINUX", "to_linux"},
                             {"FROM LINUX", "from_linux"},
                             {"ADDRESSES", "addresses"},
                             {"GROUPS", "groups"}});
}

Result<Output> show_proxy(const mgmt::NodeFaces& node, const Match& match) {
  const Json proxies = to_json(node.view.proxies());
  if (match.has("json")) return dump(proxies) + "\n";
  std::string text;
  for (Json proxy : proxies) {
    const Json hosts = proxy.at("hosts");
    proxy["hosts"] = hosts.size();
    text += object_text(proxy) + "\n" +
            list_text(hosts, {{"HOST", "address"}, {"INTERFACE", "iface"}, {"SECONDS", "age_s"}});
  }
  return text;
}

Result<Output> show_worker(const mgmt::NodeFaces& node, const Match& match) {
  return list_or_one(match, to_json(node.stats.workers()), "worker", "WORKER",
                     {{"WORKER", "worker"},
                      {"LCORE", "lcore"},
                      {"INTERFACES", "interfaces"},
                      {"NEIGHBOURS", "neighbours"},
                      {"TABLE BYTES", "table_bytes"},
                      {"CONNECTIONS", "connections"},
                      {"RX", "rx_packets"},
                      {"HANDED ON", "handed_on"},
                      {"SPREAD OVER", "spread_over"},
                      {"PUNTS", "punts"},
                      {"ANSWERS", "answers"},
                      {"LOOPS", "loops"},
                      {"BUSY LOOPS", "busy_loops"}});
}

Result<Output> show_drops(const mgmt::NodeFaces& node, const Match& match) {
  const auto where = match.get("WHERE");
  auto available = interface_names(node.view);
  for (const auto& h : node.view.config().hcas) available.push_back(h.name);
  if (auto s = require(where, available); !s) return tl::make_unexpected(s.error());
  return list(match, only(to_json(node.stats.drops()), "where", where),
              {{"REASON", "reason"}, {"WHERE", "where"}, {"PACKETS", "packets"}});
}

Result<Output> show_config(const mgmt::NodeFaces& node, const Match& match) {
  return match.has("json") ? dump(to_json(node.view.config())) + "\n"
                           : print_config(node.view.config());
}

}  // namespace ipoib::app
