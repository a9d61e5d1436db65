// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/node_view_impl.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "lib/mgmt/capture/capture.h"
#include "lib/mgmt/device/device_readings.h"
#include "lib/mgmt/linux/linux_plane.h"
#include "lib/mgmt/node/node_counters.h"
#include "lib/mgmt/node/node_parts.h"
#include "lib/mgmt/node/node_stats_impl.h"
#include "lib/mgmt/node/test_traffic_impl.h"
#include "lib/wire/iba.h"

namespace ipoib::mgmt {
namespace {

void describe(const sa::Administrator& administrator, SaInfo& row) {
  for (const auto& [mgid, group] : administrator.groups()) {
    SaInfo::Group g{mgid,
                    group.record.mlid.host(),
                    group.record.pkey.host(),
                    group.record.qkey.host(),
                    static_cast<std::uint16_t>(wire::mtu_octets(wire::value_of(group.record.mtu))),
                    {}};
    for (const auto& [port, join_state] : group.members) g.members.push_back({port, join_state});
    row.groups.push_back(std::move(g));
  }
  row.smps = administrator.smps().counters();
  for (const auto& [gid, port] : administrator.ports()) row.ports.push_back({gid, port.lid});
}

Ip6Info ip6_of(const link::Interface& control) {
  return {control.addresses6(), control.mtu6(), control.reason6()};
}

/// Reason why a link is not up, with the problem of its port, for which it may be waiting.
std::string reason_of(const LinkInstance& link) {
  std::string reason = link.control().reason();
  const std::string problem = link.hca().hca->problem();
  if (reason.empty() || problem.empty()) return reason;
  return fmt::format("{} ({}: {})", reason, link.hca().config.name, problem);
}

std::string_view forwarder_of(const route::QuerierState& state) {
  if (state.forwarder == route::Forwarder::kUnknown) return "listening";
  return state.forwarder == route::Forwarder::kOther ? "other" : "self";
}

QuerierInfo row_of(const std::string& iface, route::IpFamily family,
                   const route::QuerierState& state) {
  const std::string_view role = state.other ? "other" : "self";
  return {iface,
          family == route::IpFamily::kIpv4,
          state.querier,
          state.querier ? role : "none",
          forwarder_of(state),
          state.age};
}

}  // namespace

const NodeConfig& NodeViewImpl::config() const {
  parts_.loop->expects_own_lcore();
  return parts_.config;
}

std::vector<LinkInfo> NodeViewImpl::links() const {
  parts_.loop->expects_own_lcore();
  std::vector<LinkInfo> rows;
  for (std::size_t i = 0; i < parts_.links.size(); ++i) {
    const auto& l = parts_.links[i];
    LinkInfo row;
    row.name = l->config().name;
    row.state = link::to_string(l->control().state());
    row.reason = reason_of(*l);
    row.hca = l->hca().config.name;
    row.lid = l->port().lid;
    row.gid = l->port().gid();
    row.qpn = l->qpn(0);
    row.queues = l->control().queues();
    row.pkey = l->config().pkey;
    row.mtu = l->control().mtu();
    row.mode = kLinkModeNames[static_cast<std::size_t>(parts_.config.links[i].mode)];
    row.dialect = kLinkDialectNames[static_cast<std::size_t>(parts_.config.links[i].dialect)];
    row.parameters = l->control().parameters();
    row.counters = l->control().counters();
    row.port_shared = link::shares_port(l->config(), *l);
    for (const KernelInterface& user : l->port_users())
      row.port_users.push_back(fmt::format("{} {}", user.name, user.up ? "up" : "down"));
    if (const link::Connections* c = l->control().connections())
      row.connected = {parts_.config.links[i].connected_mtu, c->size(), c->counters()};
    row.addresses = l->control().addresses();
    row.ip6 = ip6_of(l->control());
    row.traffic = stats_.traffic(l->config().id);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<EthernetPortInfo> NodeViewImpl::ports() const {
  parts_.loop->expects_own_lcore();
  std::vector<EthernetPortInfo> rows;
  for (std::size_t i = 0; i < parts_.ports.size(); ++i) {
    const PortInstance& p = *parts_.ports[i];
    EthernetPortInfo row;
    row.name = p.config().name;
    row.device = parts_.config.ports[i].device;
    row.driver = p.device().driver();
    row.state = link::to_string(p.control().state());
    row.started = p.device().started();
    row.mac = p.device().mac();
    row.mtu = p.control().mtu();
    row.link_speed_mbps = link_status(p.device()).speed_mbps;
    row.rx_queues = p.device().queues().rx;
    row.tx_queues = p.device().queues().tx;
    row.workers = parts_.interfaces.find(p.config().id)->receivers;
    row.socket = p.device().socket();
    row.promiscuous = p.device().promiscuous();
    row.capabilities = p.device().capabilities();
    if (p.device().closed())
      row.problem = "its device was removed; restart the node to use it again";
    row.counters = p.control().counters();
    row.addresses = p.control().addresses();
    row.ip6 = ip6_of(p.control());
    row.traffic = stats_.traffic(p.config().id);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<HcaInfo> NodeViewImpl::hcas() const {
  parts_.loop->expects_own_lcore();
  std::vector<HcaInfo> rows;
  for (std::size_t i = 0; i < parts_.hcas.size(); ++i) {
    const HcaInstance& h = *parts_.hcas[i];
    HcaInfo row;
    row.name = h.config.name;
    row.driver = kHcaDriverNames[static_cast<std::size_t>(h.config.driver)];
    const bool soft = h.config.driver == HcaDriver::kSoft;
    row.wire = soft ? h.config.wire : fmt::format("{}:{}", h.config.device, h.config.port);
    row.mad = soft ? h.config.mad : MadConfig{h.config.device, h.config.port};
    row.attr = h.hca->attr();
    row.capabilities = h.capabilities();
    row.problem = h.hca->problem();
    row.subnet_administrator = h.administrator.has_value();
    row.cm = h.connections.counters();
    row.drops = stats_.hca_drops(i);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<NeighbourKey> NodeViewImpl::neighbour_keys(std::string_view iface) const {
  parts_.loop->expects_own_lcore();
  std::vector<NeighbourKey> keys;
  for (const auto& slot : parts_.interfaces) {
    if (!iface.empty() && slot->control->name() != iface) continue;
    for (const wire::IpAddr& addr : slot->control->neighbour_addresses())
      keys.push_back({slot->control->id(), addr});
  }
  return keys;
}

std::optional<link::NeighbourInfo> NodeViewImpl::neighbour(const NeighbourKey& key) const {
  parts_.loop->expects_own_lcore();
  const InterfaceSlot* slot = parts_.interfaces.find(key.iface);
  if (slot == nullptr) return std::nullopt;
  auto row = slot->control->neighbour(key.addr, parts_.now());
  if (!row) return row;
  row->iface = slot->control->name();
  const auto hw = wire::parse_hw_addr(row->lladdr);
  if (const LinkInstance* const link = find_link(key.iface); link && hw && hw->is_plausible())
    row->worker = link->worker_of(link->control().served_by(*hw));
  return row;
}

const LinkInstance* NodeViewImpl::find_link(table::InterfaceId iface) const {
  const auto link = std::find_if(parts_.links.begin(), parts_.links.end(),
                                 [iface](const auto& l) { return l->config().id == iface; });
  return link != parts_.links.end() ? link->get() : nullptr;
}

std::vector<RouteInfo> NodeViewImpl::routes(const std::optional<wire::IpPrefix>& after,
                                            std::size_t max_rows) const {
  parts_.loop->expects_own_lcore();
  std::vector<RouteInfo> rows;
  const auto& active = parts_.routes->routes();
  const auto& waiting = parts_.routes->waiting();
  auto one = after ? active.upper_bound(*after) : active.begin();
  auto others = after ? waiting.upper_bound(*after) : waiting.begin();
  while (rows.size() < max_rows && (one != active.end() || others != waiting.end())) {
    const bool has_others =
        others != waiting.end() && (one == active.end() || others->first <= one->first);
    if (!has_others || (one != active.end() && one->first == others->first)) {
      rows.push_back(route_row(one->first, one->second, true));
      ++one;
    }
    if (!has_others) continue;
    for (const route::Route& route : others->second)
      rows.push_back(route_row(others->first, route, false));
    ++others;
  }
  return rows;
}

RouteInfo NodeViewImpl::route_row(const wire::IpPrefix& to, const route::Route& route,
                                  bool active) const {
  RouteInfo row{to, std::string{kind_name(route.kind)}, parts_.interfaces.name_of(route.iface), {}};
  row.dead = parts_.routes->dead_gateways(route);
  row.action = action_name(route.action);
  row.metric = route.metric;
  row.active = active;
  const auto paths = parts_.routes->paths(route);
  if (paths.size() == 1 && !paths.front().via) return row;
  for (const route::RoutePath& path : paths) {
    row.via.push_back(path.via.value_or(to.addr.is_v4() ? wire::IpAddr::v4(0) : wire::IpAddr{}));
    row.weights.push_back(path.weight);
  }
  if (std::ranges::count(row.weights, 1U) == std::ssize(row.weights)) row.weights.clear();
  return row;
}

std::vector<link::ConnectionInfo> NodeViewImpl::connections(std::string_view link) const {
  parts_.loop->expects_own_lcore();
  std::vector<link::ConnectionInfo> rows;
  for (const auto& l : parts_.links) {
    const link::Connections* const connections = l->control().connections();
    if (connections == nullptr || (!link.empty() && l->config().name != link)) continue;
    for (link::ConnectionInfo& row : connections->list(parts_.now())) {
      row.iface = l->config().name;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<link::GroupInfo> NodeViewImpl::groups(std::string_view iface) const {
  parts_.loop->expects_own_lcore();
  std::vector<link::GroupInfo> rows;
  for (const auto& slot : parts_.interfaces) {
    if (!iface.empty() && slot->control->name() != iface) continue;
    auto of_one = slot->control->groups(parts_.now());
    if (const LinkInstance* const link = find_link(slot->control->id()))
      for (link::GroupInfo& row : of_one)
        if (row.queue_pair) row.worker = link->worker_of(*row.queue_pair);
    std::move(of_one.begin(), of_one.end(), std::back_inserter(rows));
  }
  return rows;
}

std::vector<link::SharedGroupInfo> NodeViewImpl::shared_groups(std::string_view link) const {
  parts_.loop->expects_own_lcore();
  std::vector<link::SharedGroupInfo> rows;
  for (const auto& l : parts_.links) {
    if (!link.empty() && l->config().name != link) continue;
    auto of_one = l->control().shared_groups(parts_.now());
    std::move(of_one.begin(), of_one.end(), std::back_inserter(rows));
  }
  return rows;
}

std::vector<QuerierInfo> NodeViewImpl::queriers(std::string_view iface) const {
  parts_.loop->expects_own_lcore();
  std::vector<QuerierInfo> rows;
  const route::MulticastRouter& router = parts_.multicast->router();
  for (const auto& slot : parts_.interfaces) {
    const std::string& name = slot->control->name();
    if (!iface.empty() && name != iface) continue;
    for (const auto family : {route::IpFamily::kIpv4, route::IpFamily::kIpv6})
      if (const auto* m = router.membership(slot->control->id(), family))
        rows.push_back(row_of(name, family, m->querier_state(parts_.now())));
  }
  return rows;
}

std::vector<MulticastRouteInfo> NodeViewImpl::multicast_routes() const {
  parts_.loop->expects_own_lcore();
  return parts_.multicast->rows(parts_.now());
}

std::vector<FilterInfo> NodeViewImpl::filters() const {
  parts_.loop->expects_own_lcore();
  return parts_.filters->rows();
}

LinuxInfo NodeViewImpl::linux_plane() const {
  expects_management();
  return linux_plane_.info();
}

std::vector<ProxyInfo> NodeViewImpl::proxies() const {
  expects_management();
  std::vector<ProxyInfo> rows;
  for (const auto& p : parts_.proxies)
    rows.push_back(
        {p->group(), p->side_names(), p->hosts(parts_.now()), p->questions(), p->counters()});
  return rows;
}

std::vector<SaInfo> NodeViewImpl::subnet_administration() const {
  parts_.loop->expects_own_lcore();
  std::vector<SaInfo> rows;
  for (const auto& h : parts_.hcas) {
    SaInfo row;
    row.hca = h->config.name;
    row.sm_lid = h->hca->attr().sm_lid;
    row.problem = h->hca->problem();
    row.mads = h->mad_counters();
    row.client = h->client.counters();
    row.administrator = h->administrator.has_value();
    if (h->administrator) describe(*h->administrator, row);
    rows.push_back(std::move(row));
  }
  return rows;
}

CaptureInfo NodeViewImpl::capture() const {
  parts_.loop->expects_own_lcore();
  return capture_.info();
}

ForwardInfo NodeViewImpl::forward_info() const {
  parts_.loop->expects_own_lcore();
  const fwd::Settings& settings = parts_.tables.settings;
  ForwardInfo info;
  info.mode = settings.mode.load(std::memory_order_relaxed);
  info.forwarding = settings.forwarding.load(std::memory_order_relaxed);
  info.burst = settings.burst.load(std::memory_order_relaxed);
  const table::InterfaceId id = traffic_.egress();
  info.egress = parts_.interfaces.name_of(id);
  info.egress_bps = parts_.speed_bps(id);
  info.first_bursts = traffic_.waiting_bursts();
  for (const WorkerInfo& w : stats_.workers()) {
    info.generated += w.generated;
    info.consumed += w.consumed;
    info.no_mbuf += w.no_mbuf;
  }
  return info;
}

}  // namespace ipoib::mgmt
