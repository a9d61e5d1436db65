// SPDX-License-Identifier: BSD-3-Clause
// Information about a running node.
#include <rte_cycles.h>

#include <algorithm>
#include <iterator>

#include "lib/mgmt/node_impl.h"
#include "lib/wire/iba.h"

namespace ipoib::mgmt {
namespace {

template <class Array>
Array difference(Array a, const Array& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

void add_rows(std::vector<DropInfo>& rows, const std::string& where,
              const std::array<std::uint64_t, kDropCount>& drops) {
  for (std::size_t i = 0; i < kDropCount; ++i)
    if (drops[i] != 0) rows.push_back({static_cast<Drop>(i), where, drops[i]});
}

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

}  // namespace

void add_drops(std::array<std::uint64_t, kDropCount>& sum, const DropCounters& drops) {
  for (std::size_t i = 0; i < kDropCount; ++i) sum[i] += drops.by_reason[i].get();
}

std::string_view kind_name(route::RouteKind kind) {
  switch (kind) {
    case route::RouteKind::kLocal: return "local";
    case route::RouteKind::kBroadcast: return "broadcast";
    case route::RouteKind::kConnected: return "connected";
    case route::RouteKind::kStatic: return "static";
    case route::RouteKind::kBlackhole: return "blackhole";
    case route::RouteKind::kRedirect: return "redirect";
    case route::RouteKind::kAdvertised: return "advertised";
  }
  return "";
}

TrafficInfo NodeImpl::total_traffic(table::InterfaceId id) const {
  TrafficInfo t;
  for (const WorkerHandle& w : workers_.all()) {
    const InterfaceCounters& c = w.worker->counters(id);
    t.rx_packets += c.rx_packets.get();
    t.tx_packets += c.tx_packets.get();
    t.rx_bytes += c.rx_bytes.get();
    t.tx_bytes += c.tx_bytes.get();
    add_drops(t.drops, c.drops);
  }
  add_drops(t.drops, interfaces_.find(id)->drops);
  return t;
}

std::vector<TrafficInfo> NodeImpl::total_traffics() const {
  std::vector<TrafficInfo> rows;
  for (const auto& slot : interfaces_) rows.push_back(total_traffic(slot->control->id()));
  return rows;
}

TrafficInfo NodeImpl::traffic(table::InterfaceId id) const {
  return traffic_since(id, baseline_.interfaces);
}

TrafficInfo NodeImpl::traffic_since(table::InterfaceId id,
                                    const std::vector<TrafficInfo>& baseline) const {
  TrafficInfo t = total_traffic(id);
  const TrafficInfo& from = baseline[id];
  t.rx_packets -= from.rx_packets;
  t.tx_packets -= from.tx_packets;
  t.rx_bytes -= from.rx_bytes;
  t.tx_bytes -= from.tx_bytes;
  t.drops = difference(t.drops, from.drops);
  return t;
}

NodeImpl::DropArray NodeImpl::total_local_drops() const {
  DropArray sum{};
  for (const WorkerHandle& w : workers_.all()) add_drops(sum, w.worker->local_counters().drops);
  add_drops(sum, punt_->drops());
  return sum;
}

WorkerInfo NodeImpl::total_work(std::size_t worker) const {
  const WorkerHandle& w = workers_.all()[worker];
  const fwd::WorkerStats& s = w.worker->stats();
  WorkerInfo info;
  info.number = static_cast<unsigned>(worker);
  info.lcore = w.lcore;
  info.loops = s.loops.get();
  info.busy_loops = s.busy_loops.get();
  info.busy_cycles = s.busy_cycles.get();
  info.rx_packets = s.rx_packets.get();
  info.punts = s.punts.get();
  info.cycles = tsc_() - epoch_tsc_;
  info.generated = s.generated.get();
  info.stamped = s.stamped.get();
  info.consumed = s.consumed.get();
  info.no_mbuf = s.no_mbuf.get();
  info.tcp_merged = s.tcp_merged.get();
  info.tcp_cut = s.tcp_cut.get();
  for (std::size_t i = 0; i < info.bursts.size(); ++i) info.bursts[i] = s.bursts[i].get();
  info.neighbours = neighbours_->in_use();
  for (const auto& slot : interfaces_)
    if (slot->owner == worker) info.interfaces.push_back(slot->control->name());
  return info;
}

void NodeImpl::clear_stats() {
  expects_own_lcore();
  clear_port_stats("");
  clear_forward_stats();
  clear_latency();
  baseline_.hcas.clear();
  baseline_.ethdev_xstats.clear();
  for (const auto& h : hcas_) {
    baseline_.hcas.emplace_back();
    add_drops(baseline_.hcas.back(), h->hca->drops());
    baseline_.ethdev_xstats.push_back(h->ethdev_xstats());
  }
  baseline_.local = total_local_drops();
}

void NodeImpl::clear_forward_stats() {
  expects_own_lcore();
  forward_baseline_ = total_traffics();
  baseline_.workers.clear();
  for (std::size_t i = 0; i < workers_.all().size(); ++i)
    baseline_.workers.push_back(total_work(i));
}

std::string NodeImpl::name_of(table::InterfaceId id) const {
  const InterfaceSlot* slot = interfaces_.find(id);
  return slot == nullptr ? std::string{} : slot->control->name();
}

std::vector<LinkInfo> NodeImpl::links() const {
  expects_own_lcore();
  std::vector<LinkInfo> rows;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const auto& l = links_[i];
    LinkInfo row;
    row.name = l->config().name;
    row.state = link::to_string(l->control().state());
    row.reason = reason_of(*l);
    row.hca = l->hca().config.name;
    row.lid = l->port().lid;
    row.gid = l->port().gid();
    row.qpn = l->qpn();
    row.pkey = l->config().pkey;
    row.mtu = l->control().mtu();
    row.mode = kLinkModeNames[static_cast<std::size_t>(config_.links[i].mode)];
    row.dialect = "rfc4391";
    row.parameters = l->control().parameters();
    row.counters = l->control().counters();
    if (const link::Connections* c = l->control().connections())
      row.connected = {config_.links[i].connected_mtu, c->size(), c->counters()};
    row.addresses = l->config().addresses;
    row.ip6 = ip6_of(l->control());
    row.traffic = traffic(l->config().id);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<PortInfo> NodeImpl::ports() const {
  expects_own_lcore();
  std::vector<PortInfo> rows;
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const PortInstance& p = *ports_[i];
    PortInfo row;
    row.name = p.config().name;
    row.device = config_.ports[i].device;
    row.driver = p.device().driver();
    row.state = link::to_string(p.control().state());
    row.started = p.device().started();
    row.mac = p.device().mac();
    row.mtu = p.control().mtu();
    row.link_speed_mbps = p.device().link_status().speed_mbps;
    row.socket = p.device().socket();
    row.promiscuous = p.device().promiscuous();
    row.capabilities = p.device().capabilities();
    if (p.device().closed())
      row.problem = "its device was removed; restart the node to use it again";
    row.counters = p.control().counters();
    row.addresses = p.config().addresses;
    row.ip6 = ip6_of(p.control());
    row.traffic = traffic(p.config().id);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<HcaInfo> NodeImpl::hcas() const {
  expects_own_lcore();
  std::vector<HcaInfo> rows;
  for (std::size_t i = 0; i < hcas_.size(); ++i) {
    const HcaInstance& h = *hcas_[i];
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
    add_drops(row.drops, h.hca->drops());
    row.drops = difference(row.drops, baseline_.hcas[i]);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<NeighbourKey> NodeImpl::neighbour_keys(std::string_view iface) const {
  expects_own_lcore();
  std::vector<NeighbourKey> keys;
  for (const auto& slot : interfaces_) {
    if (!iface.empty() && slot->control->name() != iface) continue;
    for (const wire::IpAddr& addr : slot->control->neighbour_addresses())
      keys.push_back({slot->control->id(), addr});
  }
  return keys;
}

std::optional<link::NeighbourInfo> NodeImpl::neighbour(const NeighbourKey& key) const {
  expects_own_lcore();
  const InterfaceSlot* slot = interfaces_.find(key.iface);
  if (slot == nullptr) return std::nullopt;
  auto row = slot->control->neighbour(key.addr, now());
  if (row) row->iface = slot->control->name();
  return row;
}

std::vector<RouteInfo> NodeImpl::routes(const std::optional<wire::IpPrefix>& after,
                                        std::size_t max_rows) const {
  expects_own_lcore();
  std::vector<RouteInfo> rows;
  const auto& all = routes_->routes();
  for (auto it = after ? all.upper_bound(*after) : all.begin();
       it != all.end() && rows.size() < max_rows; ++it)
    rows.push_back({it->first, std::string{kind_name(it->second.kind)}, name_of(it->second.iface),
                    it->second.via, routes_->dead_gateways(it->second)});
  return rows;
}

std::vector<link::ConnectionInfo> NodeImpl::connections(std::string_view link) const {
  expects_own_lcore();
  std::vector<link::ConnectionInfo> rows;
  for (const auto& l : links_) {
    const link::Connections* const connections = l->control().connections();
    if (connections == nullptr || (!link.empty() && l->config().name != link)) continue;
    for (link::ConnectionInfo& row : connections->list(now())) {
      row.iface = l->config().name;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<link::GroupInfo> NodeImpl::groups(std::string_view iface) const {
  expects_own_lcore();
  std::vector<link::GroupInfo> rows;
  for (const auto& slot : interfaces_) {
    if (!iface.empty() && slot->control->name() != iface) continue;
    auto of_one = slot->control->groups(now());
    std::move(of_one.begin(), of_one.end(), std::back_inserter(rows));
  }
  return rows;
}

std::vector<MulticastRouteInfo> NodeImpl::multicast_routes() const {
  expects_own_lcore();
  return multicast_->rows(now());
}

std::vector<WorkerInfo> NodeImpl::workers() const {
  expects_own_lcore();
  std::vector<WorkerInfo> rows;
  for (std::size_t i = 0; i < workers_.all().size(); ++i) {
    WorkerInfo row = total_work(i);
    const WorkerInfo& from = baseline_.workers[i];
    row.loops -= from.loops;
    row.busy_loops -= from.busy_loops;
    row.busy_cycles -= from.busy_cycles;
    row.rx_packets -= from.rx_packets;
    row.punts -= from.punts;
    row.cycles -= from.cycles;
    row.generated -= from.generated;
    row.stamped -= from.stamped;
    row.consumed -= from.consumed;
    row.no_mbuf -= from.no_mbuf;
    row.tcp_merged -= from.tcp_merged;
    row.tcp_cut -= from.tcp_cut;
    row.bursts = difference(row.bursts, from.bursts);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::uint64_t> NodeImpl::worker_loops() const {
  expects_own_lcore();
  std::vector<std::uint64_t> loops;
  for (const WorkerHandle& w : workers_.all()) loops.push_back(w.worker->stats().loops.get());
  return loops;
}

std::vector<DropInfo> NodeImpl::drops() const {
  expects_own_lcore();
  std::vector<DropInfo> rows;
  for (const auto& slot : interfaces_)
    add_rows(rows, slot->control->name(), traffic(slot->control->id()).drops);
  for (const HcaInfo& h : hcas()) add_rows(rows, h.name, h.drops);
  add_rows(rows, "node", difference(total_local_drops(), baseline_.local));
  return rows;
}

std::vector<SaInfo> NodeImpl::subnet_administration() const {
  expects_own_lcore();
  std::vector<SaInfo> rows;
  for (const auto& h : hcas_) {
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

}  // namespace ipoib::mgmt
