// SPDX-License-Identifier: BSD-3-Clause
// Port commands in the style of dpdk-testpmd. They also apply to links if these have the feature.
#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "app/export/render.h"
#include "lib/mgmt/node_control.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_view.h"
#include "lib/wire/iba.h"

namespace ipoib::app {
namespace {

/// Returns the interface that the line names, or all of `all`. Errors: kNotFound if `all` lacks it.
Result<std::vector<std::string>> meant(const Match& match, std::vector<std::string> all) {
  std::optional<std::string> name;
  for (const char* parameter : {"IFACE", "PORT", "LINK"})
    if (!name) name = match.get(parameter);
  if (auto s = require(name, all); !s) return tl::make_unexpected(s.error());
  if (name) return std::vector{*name};
  return all;
}

/// Calls `change` for each name, even after an error. Errors: the first one, with its name if there
/// are several names.
template <class Change>
Result<Output> for_each(const Result<std::vector<std::string>>& names, Change change) {
  if (!names) return tl::make_unexpected(names.error());
  Status result;
  for (const std::string& name : *names)
    if (auto s = change(name); !s && result)
      result = names->size() == 1 ? s : fail(s.error().code, "{}: {}", name, s.error().what);
  return done(result);
}

}  // namespace

Result<Output> port_state(const mgmt::NodeFaces& node, const Match& match) {
  return for_each(meant(match, interface_names(node.view)), [&](const std::string& name) {
    return node.control.set_port_started(name, match.has("start"));
  });
}

Result<Output> set_promisc(const mgmt::NodeFaces& node, const Match& match) {
  return for_each(meant(match, port_names(node.view)), [&](const std::string& name) {
    return node.control.set_promiscuous(name, match.has("on"));
  });
}

Result<Output> set_mtu(const mgmt::NodeFaces& node, const Match& match) {
  auto names = interface_names(node.view);
  if (match.get("LINK")) names = link_names(node.view);
  if (match.get("PORT")) names = port_names(node.view);
  return for_each(meant(match, std::move(names)), [&](const std::string& name) {
    return node.control.set_mtu(name, static_cast<std::uint16_t>(number(match, "MTU")));
  });
}

Result<Output> set_queues(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.set_queues(match.get("LINK").value_or(""),
                                      static_cast<unsigned>(number(match, "QUEUES"))));
}

Result<Output> show_port_info(const mgmt::NodeFaces& node, const Match& match) {
  const auto wanted = match.get("IFACE");
  if (auto s = require(wanted, interface_names(node.view)); !s)
    return tl::make_unexpected(s.error());
  Json rows = to_json(node.view.ports());
  for (Json& row : to_json(node.view.links())) rows.push_back(std::move(row));
  rows = only(rows, "name", wanted);
  if (match.has("json")) return dump(rows) + "\n";
  std::string text;
  for (const Json& row : rows)
    text += ruler('*', "Infos for " + row.at("name").get<std::string>()) + object_text(row) + '\n';
  return text;
}

Result<Output> show_port_summary(const mgmt::NodeFaces& node, const Match& match) {
  Json rows = Json::array();
  for (const auto& p : node.view.ports())
    rows.push_back({{"name", p.name},
                    {"lladdr", wire::to_string(p.mac)},
                    {"device", p.device},
                    {"driver", p.driver},
                    {"state", p.state},
                    {"mtu", p.mtu},
                    {"speed_mbps", p.link_speed_mbps}});
  for (const auto& l : node.view.links())
    rows.push_back({{"name", l.name},
                    {"lladdr", wire::to_string(l.gid)},
                    {"device", l.hca},
                    {"driver", "ipoib"},
                    {"state", l.state},
                    {"mtu", l.mtu},
                    {"speed_mbps", wire::rate_mbps(l.parameters.rate)}});
  return list(match, rows,
              {{"NAME", "name"},
               {"MAC OR GID", "lladdr"},
               {"DEVICE", "device"},
               {"DRIVER", "driver"},
               {"STATE", "state"},
               {"MTU", "mtu"},
               {"MBPS", "speed_mbps"}});
}

Result<Output> show_port_xstats(const mgmt::NodeFaces& node, const Match& match) {
  const auto names = meant(match, interface_names(node.view));
  if (!names) return tl::make_unexpected(names.error());
  Json rows = Json::array();
  std::string text;
  for (const std::string& name : *names) {
    const auto counters = node.stats.xstats(name);
    rows.push_back({{"name", name}, {"xstats", xstats_json(counters)}});
    text += ruler('#', "NIC extended statistics for " + name);
    for (const mgmt::Xstat& x : counters) text += fmt::format("{}: {}\n", x.name, x.value);
  }
  return match.has("json") ? dump(rows) + "\n" : text;
}

Result<Output> clear_port_stats(const mgmt::NodeFaces& node, const Match& match) {
  const auto name = match.get("IFACE");
  if (auto s = require(name, interface_names(node.view)); !s) return tl::make_unexpected(s.error());
  node.stats.clear_port_stats(name.value_or(""));
  return "";
}

}  // namespace ipoib::app
