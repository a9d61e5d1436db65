// SPDX-License-Identifier: BSD-3-Clause
// Commands that change the node.
#include <charconv>

#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "app/export/render.h"
#include "lib/mgmt/management_loop.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_control.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_view.h"
#include "lib/wire/ip_prefix.h"

namespace ipoib::app {
namespace {

wire::IpAddr address(const Match& match) {
  return wire::parse_ip(match.get("ADDR").value_or("")).value_or(wire::IpAddr{});
}

wire::IpAddr group(const Match& match) {
  return wire::parse_ip(match.get("GROUP").value_or("")).value_or(wire::IpAddr{});
}

wire::IpPrefix prefix(const Match& match) {
  return wire::parse_prefix(match.get("PREFIX").value_or("")).value_or(wire::IpPrefix{});
}

wire::IpPrefix own_address(const Match& match) {
  return wire::parse_prefix(match.get("OWN").value_or("")).value_or(wire::IpPrefix{});
}

std::vector<wire::IpAddr> addresses(std::string_view list) {
  std::vector<wire::IpAddr> result;
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (const auto addr = wire::parse_ip(list.substr(0, comma))) result.push_back(*addr);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return result;
}

std::vector<std::uint16_t> pkeys(std::string_view list) {
  std::vector<std::uint16_t> result;
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (const auto pkey = parse_hex(list.substr(0, comma), 4))
      result.push_back(static_cast<std::uint16_t>(*pkey));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return result;
}

/// A single group is a prefix of full length.
wire::IpPrefix group_prefix(const Match& match) {
  const std::string text = match.get("GROUPS").value_or("");
  if (const auto group = wire::parse_ip(text)) return wire::host_prefix(*group);
  return wire::parse_prefix(text).value_or(wire::IpPrefix{});
}

mgmt::MulticastRouteConfig multicast_route(const Match& match) {
  mgmt::MulticastRouteConfig route;
  route.groups = group_prefix(match);
  route.source = wire::parse_ip(match.get("SOURCE").value_or("")).value_or(wire::IpAddr{});
  route.in = match.get("IFACE").value_or("");
  std::string names = match.get("IFACES").value_or("");
  for (std::string_view rest = names; !rest.empty();) {
    const auto comma = rest.find(',');
    route.out.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return route;
}

}  // namespace

Result<Output> done(const Status& status) {
  if (!status) return tl::make_unexpected(status.error());
  return "";
}

unsigned number(const Match& match, std::string_view parameter) {
  const std::string text = match.get(parameter).value_or("0");
  unsigned value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Result<Output> quit(const mgmt::NodeFaces& node, const Match&) {
  node.loop.request_stop();
  return "";
}

Result<Output> clear_stats(const mgmt::NodeFaces& node, const Match&) {
  node.stats.clear_stats();
  return "";
}

std::optional<std::uint64_t> parse_hex(std::string_view word, std::size_t digits) {
  if (!word.starts_with("0x")) return std::nullopt;
  word.remove_prefix(2);
  if (word.empty() || word.size() > digits) return std::nullopt;
  std::uint64_t value = 0;
  const char* end = word.data() + word.size();
  const auto result = std::from_chars(word.data(), end, value, 16);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return value;
}

Result<Output> set_hca(const mgmt::NodeFaces& node, const Match& match) {
  fabric::PortChange change;
  if (match.has("lid")) change.lid = static_cast<std::uint16_t>(number(match, "PORTLID"));
  if (match.has("sm-lid")) change.sm_lid = static_cast<std::uint16_t>(number(match, "SMLID"));
  if (const auto list = match.get("PKEYS")) change.pkeys = pkeys(*list);
  if (const auto word = match.get("PREFIX64")) change.gid_prefix = parse_hex(*word, 16);
  if (match.has("state")) change.up = match.has("up");
  change.reregister = match.has("reregister");
  return done(node.control.change_hca(match.get("HCA").value_or(""), change));
}

Result<Output> set_node(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.set_draining(match.has("drain")));
}

Result<Output> link_state(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.set_interface_up(match.get("IFACE").value_or(""), match.has("up")));
}

Result<Output> address_add(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.add_address(match.get("IFACE").value_or(""), own_address(match)));
}

Result<Output> address_del(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.remove_address(match.get("IFACE").value_or(""), own_address(match)));
}

Result<Output> neigh_add(const mgmt::NodeFaces& node, const Match& match) {
  mgmt::NeighbourEntryConfig entry;
  entry.iface = match.get("IFACE").value_or("");
  entry.addr = address(match);
  entry.lladdr = match.get("LLADDR").value_or("");
  entry.lid = static_cast<std::uint16_t>(number(match, "LID"));
  entry.sl = static_cast<std::uint8_t>(number(match, "SL"));
  return done(node.control.add_neighbour(entry));
}

Result<Output> neigh_del(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.remove_neighbour(match.get("IFACE").value_or(""), address(match)));
}

Result<Output> neigh_flush(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.flush_neighbours(match.get("IFACE").value_or("")));
}

Result<Output> route_add(const mgmt::NodeFaces& node, const Match& match) {
  mgmt::RouteConfig route{prefix(match), addresses(match.get("ADDRS").value_or("")),
                          match.has("blackhole")};
  if (const auto iface = match.get("IFACE")) route.iface = std::string{*iface};
  return done(node.control.add_route(route));
}

Result<Output> route_del(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.remove_route(prefix(match)));
}

Result<Output> group_join(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.join_group(match.get("IFACE").value_or(""), group(match)));
}

Result<Output> group_leave(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.leave_group(match.get("IFACE").value_or(""), group(match)));
}

Result<Output> connection_close(const mgmt::NodeFaces& node, const Match& match) {
  const std::string link = match.get("LINK").value_or("");
  if (match.get("CONNECTION"))
    return done(node.control.close_connection(link, number(match, "CONNECTION")));
  if (auto s = require(link, link_names(node.view)); !s) return done(s);
  for (const auto& c : node.view.connections(link)) {
    // A connection that ended in the meantime is closed.
    if (auto s = node.control.close_connection(link, c.handle);
        !s && s.error().code != Errc::kNotFound)
      return done(s);
  }
  return "";
}

Result<Output> mroute_add(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.add_multicast_route(multicast_route(match)));
}

Result<Output> mroute_del(const mgmt::NodeFaces& node, const Match& match) {
  return done(node.control.remove_multicast_route(multicast_route(match)));
}

Result<Output> capture_start(const mgmt::NodeFaces& node, const Match& match) {
  constexpr std::uint64_t kMegabyte = 1'000'000;
  mgmt::CaptureRequest request;
  request.file = match.get("FILE").value_or("");
  if (match.has("limit")) request.max_octets = number(match, "MEGABYTES") * kMegabyte;
  request.max_frames = number(match, "FRAMES");
  request.replace = match.has("replace");
  return done(node.control.capture_start(request));
}

Result<Output> capture_stop(const mgmt::NodeFaces& node, const Match&) {
  const auto info = node.control.capture_stop();
  if (!info) return tl::make_unexpected(info.error());
  return fmt::format("{} frames are written so far; the file is being completed\n", info->frames);
}

Result<Output> show_capture(const mgmt::NodeFaces& node, const Match& match) {
  return object(match, to_json(node.view.capture()));
}

}  // namespace ipoib::app
