// SPDX-License-Identifier: BSD-3-Clause
#include "app/export/render.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <chrono>
#include <span>
#include <sstream>

#include "app/config/config.h"
#include "app/config/config_codec.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::app {
namespace {

template <class T>
Json texts(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& v : values) list.push_back(wire::to_string(v));
  return list;
}

/// Converts text to a key: "No answer" to "no_answer".
std::string key_of(std::string_view text) {
  std::string key;
  for (const char c : text)
    key += c == ' ' || c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return key;
}

/// Returns only reasons with packets: most have none.
Json drops_of(const std::array<std::uint64_t, kDropCount>& drops) {
  Json object = Json::object();
  for (std::size_t i = 0; i < kDropCount; ++i)
    if (drops[i] != 0) object[std::string{drop_name(static_cast<Drop>(i))}] = drops[i];
  return object;
}

void add_traffic(Json& object, const mgmt::TrafficInfo& traffic) {
  object["rx_packets"] = traffic.rx_packets;
  object["tx_packets"] = traffic.tx_packets;
  object["rx_bytes"] = traffic.rx_bytes;
  object["tx_bytes"] = traffic.tx_bytes;
  object["drops"] = drops_of(traffic.drops);
}

/// Returns the errors that occurred, by name. `counts`: indexed by Error.
template <class Error>
Json errors_json(std::span<const std::uint64_t> counts) {
  Json object = Json::object();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) object[std::string{wire::to_string(static_cast<Error>(i))}] = counts[i];
  return object;
}

Json capabilities_json(const fabric::Capabilities& able) {
  const bool any = able.max_segments == fabric::kAnySegments;
  return {{"max_segments", any ? Json{} : Json(able.max_segments)},
          {"receives_chains", able.receives_chains},
          {"multicast", to_string(able.multicast)},
          {"removal_events", able.removal_events}};
}

Json ip6_json(const mgmt::Ip6Info& ip6) {
  Json addresses = Json::array();
  for (const auto& a : ip6.addresses)
    addresses.push_back({{"address", wire::to_string(a.address)},
                         {"state", link::to_string(a.state)},
                         {"reason", a.reason}});
  return {{"mtu", ip6.mtu}, {"reason", ip6.reason}, {"addresses", std::move(addresses)}};
}

/// Adds the counters that links and ports share.
void add_resolution(Json& counters, const link::NdCounters& nd, const link::RarpCounters& rarp,
                    const link::NeighbourCounters& neighbours) {
  counters.update({{"nd_sent", nd.sent},
                   {"nd_received", nd.received},
                   {"nd_invalid", nd.invalid},
                   {"nd_errors", errors_json<wire::NdError>(nd.errors)},
                   {"nd_mtus_ignored", nd.mtus_ignored},
                   {"rarp_requests", rarp.requests},
                   {"rarp_answered", rarp.answered},
                   {"rarp_asked", rarp.asked},
                   {"rarp_invalid", rarp.invalid},
                   {"neighbours_evicted", neighbours.evicted},
                   {"neighbours_refused", neighbours.refused}});
}

void add_connections(Json& counters, const link::ConnectionCounters& c) {
  counters.update({{"connections_asked", c.asked},
                   {"connections_incoming", c.incoming},
                   {"connections_established", c.established},
                   {"connections_crossed", c.crossed},
                   {"connections_limited", c.limited},
                   {"connections_elsewhere", c.elsewhere},
                   {"connections_no_path", c.no_path},
                   {"connections_bad_private_data", c.bad_private_data},
                   {"connections_bad_transport", c.bad_transport},
                   {"connections_no_queue", c.no_queue},
                   {"connections_further", c.further},
                   {"connections_alternates", c.alternates},
                   {"connections_migrations", c.migrations}});
  for (std::size_t i = 0; i < c.ended.size(); ++i)
    counters[fmt::format("connections_ended_{}",
                         key_of(link::to_string(static_cast<link::ConnectionEnd>(i))))] =
        c.ended[i];
}

/// Adds the counts by kind of message that are not 0.
void add_by_message(Json& object, std::string_view what,
                    const std::array<std::uint64_t, wire::kCmAttrs>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto attr = static_cast<wire::CmAttr>(static_cast<std::size_t>(wire::CmAttr::kReq) + i);
    if (counts[i] != 0)
      object[fmt::format("{}_{}", what, key_of(wire::to_string(attr)))] = counts[i];
  }
}

}  // namespace

Json to_json(const cm::ManagerCounters& c) {
  Json object = {{"requests", c.requests},
                 {"incoming", c.incoming},
                 {"waited", c.waited},
                 {"waiting_full", c.waiting_full},
                 {"waited_too_long", c.waited_too_long},
                 {"not_admitted", c.not_admitted},
                 {"established", c.established},
                 {"established_by_traffic", c.by_traffic},
                 {"rejected_here", c.rejected_here},
                 {"disconnected", c.disconnected},
                 {"dreqs_unanswered", c.dreqs_unanswered},
                 {"send_failed", c.send_failed},
                 {"unknown_id", c.unknown_id},
                 {"wrong_peer", c.wrong_peer},
                 {"wrong_port", c.wrong_port},
                 {"unexpected", c.unexpected},
                 {"refused_service", c.refused_service},
                 {"refused_transport", c.refused_transport},
                 {"refused_fields", c.refused_fields},
                 {"refused_full", c.refused_full},
                 {"refused_stale", c.refused_stale},
                 {"laps_accepted", c.laps_accepted},
                 {"laps_refused", c.laps_refused},
                 {"laps_unanswered", c.laps_unanswered},
                 {"sidr_requests", c.sidr_requests},
                 {"sidr_answered", c.sidr_answered},
                 {"sidr_timed_out", c.sidr_timed_out},
                 {"sidr_served", c.sidr_served},
                 {"sidr_refused", c.sidr_refused}};
  add_by_message(object, "sent", c.sent);
  add_by_message(object, "repeated", c.repeated);
  add_by_message(object, "received", c.received);
  add_by_message(object, "duplicate", c.duplicates);
  for (std::size_t i = 0; i < c.malformed.size(); ++i)
    if (c.malformed[i] != 0)
      object[fmt::format("malformed_{}", wire::cm_error_name(static_cast<wire::CmError>(i)))] =
          c.malformed[i];
  for (std::size_t i = 0; i < c.closed.size(); ++i)
    object[fmt::format("closed_{}", key_of(cm::to_string(static_cast<cm::CloseReason>(i))))] =
        c.closed[i];
  return object;
}

std::string_view link_layer_name(fabric::LinkLayer layer) {
  return layer == fabric::LinkLayer::kEthernet ? "ethernet" : "infiniband";
}

std::string_view state_name(fabric::PortState state) {
  switch (state) {
    case fabric::PortState::kDown: return "down";
    case fabric::PortState::kInit: return "init";
    case fabric::PortState::kArmed: return "armed";
    case fabric::PortState::kActive: return "active";
  }
  return "unknown";
}

Json counters_json(const mgmt::LinkInfo& link) {
  const auto& c = link.counters;
  Json counters = {{"joins_sent", c.joins_sent},
                   {"joins_failed", c.joins_failed},
                   {"memberships_forgotten", c.memberships_forgotten},
                   {"path_queries", c.path_queries},
                   {"path_failures", c.path_failures},
                   {"path_records_refused", c.path_records_refused},
                   {"paths_left", c.paths_left},
                   {"paths_refused", c.paths_refused},
                   {"path_claims_refused", c.path_claims_refused},
                   {"arp_sent", c.arp_sent},
                   {"arp_received", c.arp_received},
                   {"arp_invalid", c.arp_invalid},
                   {"arp_unsent", c.arp_unsent},
                   {"nd_unsent", c.nd.unsent + c.nd_unsent},
                   {"address_conflicts", c.address_conflicts},
                   {"contradictions", c.contradictions},
                   {"group_queries", c.group_queries},
                   {"group_absent", c.group_absent},
                   {"group_joins_sent", c.group_joins_sent},
                   {"group_joins_failed", c.group_joins_failed},
                   {"group_moves_failed", c.group_moves_failed},
                   {"group_leaves_sent", c.group_leaves_sent},
                   {"group_leaves_failed", c.group_leaves_failed},
                   {"group_leaves_withheld", c.group_leaves_withheld},
                   {"group_lists_failed", c.group_lists_failed},
                   {"group_refused_local", c.group_refused_local},
                   {"group_reports", c.group_reports},
                   {"group_frames_unsent", c.group_frames_unsent},
                   {"via_all_routers", c.via_all_routers},
                   {"subscriptions_failed", c.subscriptions_failed},
                   {"neighbours_moved", c.neighbours_moved},
                   {"sidr_asked", c.sidr.asked},
                   {"sidr_answered", c.sidr.answered},
                   {"sidr_timed_out", c.sidr.timed_out},
                   {"sidr_refused", c.sidr.refused},
                   {"sidr_invalid", c.sidr.invalid},
                   {"sidr_errors", errors_json<wire::IbarpError>(c.sidr.errors)},
                   {"sidr_served", c.sidr.served}};
  add_resolution(counters, c.nd, c.rarp, c.neighbours);
  if (link.connected) add_connections(counters, link.connected->counters);
  return counters;
}

Json counters_json(const mgmt::EthernetPortInfo& port) {
  const auto& c = port.counters;
  Json counters = {{"arp_sent", c.arp.sent},
                   {"arp_received", c.arp.received},
                   {"arp_invalid", c.arp.invalid},
                   {"nd_unsent", c.nd.unsent},
                   {"address_conflicts", c.arp.conflicts + c.nd.conflicts},
                   {"contradictions", c.arp.contradictions + c.nd.contradictions}};
  add_resolution(counters, c.nd, c.rarp, c.neighbours);
  return counters;
}

Json to_json(const link::SharedGroupInfo& group) {
  Json members = Json::array();
  for (const auto& m : group.members)
    members.push_back(
        {{"gid", wire::to_string(m.gid)},
         {"lladdr", m.lladdr},
         {"self", m.self},
         {"state", m.state},
         {"age_ms", std::chrono::duration_cast<std::chrono::milliseconds>(m.age).count()},
         {"hosts", m.hosts}});
  const link::SharedCounters& c = group.counters;
  Json refused = Json::object();
  for (std::size_t i = 0; i < c.refused.size(); ++i)
    if (c.refused[i] != 0)
      refused[std::string{to_string(static_cast<link::SharedRefusal>(i))}] = c.refused[i];
  return {{"iface", group.iface},
          {"addresses", texts(group.addresses)},
          {"vrid", group.vrid},
          {"state", group.state},
          {"hosts", group.hosts},
          {"to_inform", group.to_inform},
          {"answered", c.answered},
          {"left", c.left},
          {"early", c.early},
          {"taken_over", c.taken_over},
          {"handed_over", c.handed_over},
          {"reminded", c.reminded},
          {"skipped", c.skipped},
          {"forgotten", c.forgotten},
          {"claims", c.claims},
          {"adverts_sent", c.adverts_sent},
          {"adverts_received", c.adverts_received},
          {"adverts_unsent", c.adverts_unsent},
          {"adverts_refused", std::move(refused)},
          {"members", std::move(members)}};
}

Json to_json(const mgmt::LinkInfo& link) {
  const auto& p = link.parameters;
  Json object = {{"name", link.name},
                 {"state", link.state},
                 {"reason", link.reason},
                 {"hca", link.hca},
                 {"lid", link.lid},
                 {"gid", wire::to_string(link.gid)},
                 {"qpn", link.qpn},
                 {"queues", link.queues},
                 {"pkey", link.pkey},
                 {"qkey", p.qkey},
                 {"mtu", link.mtu},
                 {"mode", link.mode},
                 {"dialect", link.dialect},
                 {"broadcast_mgid", wire::to_string(p.broadcast_mgid)},
                 {"broadcast_mlid", p.broadcast_mlid},
                 {"rate_mbps", wire::rate_mbps(p.rate)},
                 {"sl", p.sl},
                 {"addresses", texts(link.addresses)},
                 {"ipv6", ip6_json(link.ip6)},
                 {"port_shared", link.port_shared ? "yes" : "no"},
                 {"port_users", link.port_users}};
  if (link.connected) {
    object["connected_mtu"] = link.connected->mtu;
    object["connections"] = link.connected->connections;
  }
  add_traffic(object, link.traffic);
  object["counters"] = counters_json(link);
  return object;
}

Json to_json(const mgmt::EthernetPortInfo& port) {
  Json object = {{"name", port.name},
                 {"state", port.state},
                 {"device", port.device},
                 {"driver", port.driver},
                 {"mac", wire::to_string(port.mac)},
                 {"mtu", port.mtu},
                 {"link_speed_mbps", port.link_speed_mbps},
                 {"started", port.started},
                 {"rx_queues", port.rx_queues},
                 {"tx_queues", port.tx_queues},
                 {"workers", port.workers},
                 {"socket", port.socket < 0 ? Json{} : Json(port.socket)},
                 {"promiscuous", port.promiscuous},
                 {"capabilities", capabilities_json(port.capabilities)},
                 {"problem", port.problem},
                 {"addresses", texts(port.addresses)},
                 {"ipv6", ip6_json(port.ip6)}};
  add_traffic(object, port.traffic);
  object["counters"] = counters_json(port);
  return object;
}

Json to_json(const mgmt::HcaInfo& hca) {
  const auto& a = hca.attr;
  return {{"name", hca.name},
          {"state", state_name(a.state)},
          {"driver", hca.driver},
          {"wire", hca.wire},
          {"link_layer", link_layer_name(a.link_layer)},
          {"mad", to_string(hca.mad)},
          {"problem", hca.problem},
          {"capabilities", capabilities_json(hca.capabilities)},
          {"guid", fmt::format("{:#018x}", a.guid)},
          {"gid", wire::to_string(a.gid())},
          {"lid", a.lid},
          {"lmc", a.lmc},
          {"sm_lid", a.sm_lid},
          {"mtu", wire::mtu_octets(a.mtu)},
          {"rate_mbps", wire::rate_mbps(a.rate)},
          {"pkeys", a.pkeys},
          {"subnet_administrator", hca.subnet_administrator},
          {"drops", drops_of(hca.drops)},
          {"cm", to_json(hca.cm)}};
}

Json to_json(const mgmt::RouteInfo& route) {
  return {{"to", wire::to_string(route.to)},
          {"kind", route.kind},
          {"action", route.action},
          {"metric", route.metric},
          {"state", route.active ? "active" : "inactive"},
          {"iface", route.iface},
          {"via", texts(route.via)},
          {"weights", route.weights},
          {"dead", texts(route.dead)}};
}

Json to_json(const link::GroupInfo& g) {
  return {{"group", wire::to_string(g.group)},
          {"iface", g.iface},
          {"state", g.state},
          {"joins", g.joins},
          {"join_state", g.join_state},
          {"sending", g.sending},
          {"routed", g.routed},
          {"worker", g.worker ? Json(*g.worker) : Json("")},
          {"held", g.held},
          {"mlid", g.mlid},
          {"lladdr", g.lladdr},
          {"reason", g.reason},
          {"age_ms", std::chrono::duration_cast<std::chrono::milliseconds>(g.age).count()}};
}

Json to_json(const mgmt::QuerierInfo& q) {
  return {{"iface", q.iface},
          {"family", q.v4 ? "ipv4" : "ipv6"},
          {"querier", q.querier ? wire::to_string(*q.querier) : ""},
          {"role", q.role},
          {"forwarder", q.forwarder},
          {"age_ms", std::chrono::duration_cast<std::chrono::milliseconds>(q.age).count()}};
}

Json to_json(const link::ConnectionInfo& c) {
  const auto ms = [](Duration d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  };
  const auto& n = c.queue.counters;
  return {{"id", c.handle},
          {"iface", c.iface},
          {"neighbours", texts(c.neighbours)},
          {"lladdr", c.peer},
          {"transport", fabric::to_string(c.transport)},
          {"role", c.active ? "active" : "passive"},
          {"sending", c.sending},
          {"state", c.state},
          {"queue_state", fabric::to_string(c.queue.state)},
          {"queue_error", fabric::to_string(c.queue.error)},
          {"worker", c.worker},
          {"qpn", c.qpn},
          {"peer_qpn", c.peer_qpn},
          {"mtu", c.mtu},
          {"age_ms", ms(c.age)},
          {"idle_ms", ms(c.idle)},
          {"tx_packets", n.tx_messages},
          {"tx_bytes", n.tx_octets},
          {"rx_packets", n.rx_messages},
          {"rx_bytes", n.rx_octets},
          {"tx_done", n.tx_done},
          {"tx_flushed", n.tx_flushed},
          {"tx_repeated", n.tx_repeated},
          {"timeouts", n.timeouts},
          {"naks_received", n.naks_received},
          {"rnr_received", n.rnr_received},
          {"naks_sent", n.naks_sent},
          {"rnr_sent", n.rnr_sent},
          {"rx_duplicates", n.rx_duplicates},
          {"rx_out_of_order", n.rx_out_of_order}};
}

Json to_json(const mgmt::MulticastRouteInfo& route) {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(route.age);
  return {{"group", wire::to_string(route.group)},
          {"source", route.source ? wire::to_string(*route.source) : ""},
          {"in", route.in},
          {"out", route.out},
          {"left_to_other", route.left_to_other},
          {"local", route.local},
          {"origin", route.origin},
          {"age_ms", age.count()}};
}

Json to_json(const mgmt::WorkerInfo& worker) {
  return {{"worker", worker.number},
          {"lcore", worker.lcore},
          {"interfaces", worker.interfaces},
          {"neighbours", worker.neighbours},
          {"table_bytes", worker.table_octets},
          {"connections", worker.connections},
          {"rx_packets", worker.rx_packets},
          {"handed_on", worker.handed_on},
          {"spread_over", worker.spread_over},
          {"punts", worker.punts},
          {"answers", worker.answers},
          {"loops", worker.loops},
          {"busy_loops", worker.busy_loops},
          {"busy_cycles", worker.busy_cycles}};
}

Json to_json(const mgmt::DropInfo& drop) {
  return {{"reason", drop_name(drop.reason)}, {"where", drop.where}, {"packets", drop.packets}};
}

Json to_json(const sa::ClientCounters& c) {
  return {{"sent", c.sent},
          {"retried", c.retried},
          {"answered", c.answered},
          {"refused", c.refused},
          {"timed_out", c.timed_out},
          {"unmatched", c.unmatched},
          {"malformed", c.malformed},
          {"busy", c.busy},
          {"send_failed", c.send_failed},
          {"overflowed", c.overflowed},
          {"segments", c.segments},
          {"tables_stopped", c.tables_stopped},
          {"tables_given_up", c.tables_given_up},
          {"reports", c.reports},
          {"reports_repeated", c.reports_repeated},
          {"reports_garbled", c.reports_garbled},
          {"reports_foreign", c.reports_foreign}};
}

Json to_json(const sa::SmpCounters& c) {
  return {{"sent", c.sent},
          {"resent", c.resent},
          {"answered", c.answered},
          {"silent", c.silent},
          {"send_failed", c.send_failed}};
}

Json to_json(const mgmt::SaInfo& sa) {
  Json groups = Json::array();
  for (const auto& g : sa.groups) {
    Json members = Json::array();
    for (const auto& m : g.members)
      members.push_back({{"port_gid", wire::to_string(m.port_gid)}, {"join_state", m.join_state}});
    groups.push_back({{"mgid", wire::to_string(g.mgid)},
                      {"mlid", g.mlid},
                      {"pkey", g.pkey},
                      {"qkey", g.qkey},
                      {"mtu", g.mtu},
                      {"members", std::move(members)}});
  }
  Json ports = Json::array();
  for (const auto& p : sa.ports) ports.push_back({{"gid", wire::to_string(p.gid)}, {"lid", p.lid}});
  Json mads = Json::object();
  for (const auto& [name, value] : sa.mads) mads[std::string{name}] = value;
  return {{"hca", sa.hca},
          {"sm_lid", sa.sm_lid},
          {"problem", sa.problem},
          {"administrator", sa.administrator},
          {"client", to_json(sa.client)},
          {"mads", std::move(mads)},
          {"smps", to_json(sa.smps)},
          {"groups", std::move(groups)},
          {"ports", std::move(ports)}};
}

Json to_json(const mgmt::LinuxInfo& plane) {
  Json mirrors = Json::array();
  for (const auto& m : plane.mirrors)
    mirrors.push_back({{"iface", m.iface},
                       {"ifindex", m.ifindex},
                       {"enabled", m.enabled},
                       {"carrier", m.carrier},
                       {"to_linux", m.to_linux},
                       {"from_linux", m.from_linux},
                       {"addresses", m.addresses},
                       {"groups", m.groups}});
  return {{"namespace", plane.network_namespace},
          {"drain", mgmt::kDrainNames.at(static_cast<std::size_t>(plane.drain))},
          {"in_step", plane.in_step},
          {"snapshots", plane.snapshots},
          {"routes", plane.routes},
          {"routes_refused", plane.routes_refused},
          {"multicast_routes", plane.multicast_routes},
          {"multicast_routes_refused", plane.multicast_routes_refused},
          {"mirrors", std::move(mirrors)}};
}

Json to_json(const mgmt::ProxyInfo& proxy) {
  Json hosts = Json::array();
  for (const auto& h : proxy.hosts)
    hosts.push_back({{"address", wire::to_string(h.addr)},
                     {"iface", h.iface},
                     {"age_s", std::chrono::duration_cast<std::chrono::seconds>(h.age).count()}});
  const link::ProxyCounters& c = proxy.counters;
  return {{"group", proxy.group},
          {"interfaces", proxy.interfaces},
          {"hosts", std::move(hosts)},
          {"questions", proxy.questions},
          {"answered", c.answered},
          {"asked", c.asked},
          {"found", c.found},
          {"unanswered", c.unanswered},
          {"paced", c.paced},
          {"refused", c.refused},
          {"no_room", c.no_room},
          {"moved", c.moved},
          {"contradictions", c.contradictions},
          {"of_gateways", c.of_gateways},
          {"loops", c.loops},
          {"other_proxies", c.other_proxies}};
}

Json to_json(const link::NeighbourInfo& n) {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(n.age);
  Json paths = Json::array();
  for (const auto& path : n.paths) paths.push_back({{"slid", path.slid}, {"dlid", path.dlid}});
  return {{"address", wire::to_string(n.addr)},
          {"iface", n.iface},
          {"state", link::to_string(n.phase)},
          {"lladdr", n.lladdr},
          {"lid", n.lid},
          {"paths", std::move(paths)},
          {"qpn", n.qpn},
          {"sl", n.sl},
          {"worker", n.worker ? Json(*n.worker) : Json("")},
          {"mode", n.mtu != 0 ? table::to_string(n.mode) : ""},
          {"rate_mbps", wire::rate_mbps(n.rate)},
          {"mtu", n.mtu},
          {"held", n.held},
          {"age_ms", age.count()}};
}

Json to_json(const mgmt::NodeConfig& config) {
  std::ostringstream text;
  const toml::table tree = toml::parse(print_config(config));
  text << toml::json_formatter{tree};
  return Json::parse(text.str());
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ipoib::app
