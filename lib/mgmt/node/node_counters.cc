// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/node_counters.h"

#include <rte_cycles.h>
#include <rte_mempool.h>

#include <algorithm>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/mgmt/device/device_readings.h"
#include "lib/mgmt/node/flow_spread.h"
#include "lib/mgmt/node/node_parts.h"
#include "lib/mgmt/worker/placement.h"

namespace ipoib::mgmt {
namespace {

HcaTotals hca_totals(const HcaInstance& hca) {
  HcaTotals t;
  t.name = hca.config.name;
  t.drops = hca.hca->drops().by_reason;
  t.client = hca.client.counters();
  t.mads = hca.mad_counters();
  t.administrator = hca.administrator.has_value();
  if (!hca.administrator) return t;
  t.groups = hca.administrator->groups().size();
  t.ports = hca.administrator->ports().size();
  t.smps = hca.administrator->smps().counters();
  return t;
}

}  // namespace

void add_drops(DropArray& sum, const DropCounters& drops) {
  for (std::size_t i = 0; i < kDropCount; ++i) sum[i] += drops.by_reason[i].get();
}

std::string_view kind_name(route::RouteKind kind) {
  switch (kind) {
    case route::RouteKind::kLocal: return "local";
    case route::RouteKind::kBroadcast:
    case route::RouteKind::kNetBroadcast: return "broadcast";
    case route::RouteKind::kConnected: return "connected";
    case route::RouteKind::kStatic: return "static";
    case route::RouteKind::kKernel: return "kernel";
    case route::RouteKind::kProxied: return "proxied";
    case route::RouteKind::kRedirect: return "redirect";
    case route::RouteKind::kAdvertised: return "advertised";
  }
  return "";
}

std::string_view action_name(route::RouteAction action) {
  switch (action) {
    case route::RouteAction::kForward: return "forward";
    case route::RouteAction::kBlackhole: return "blackhole";
    case route::RouteAction::kUnreachable: return "unreachable";
    case route::RouteAction::kProhibit: return "prohibit";
  }
  return "";
}

TrafficInfo NodeCounters::traffic(table::InterfaceId id) const {
  expects_management();
  TrafficInfo t;
  for (const WorkerHandle& w : parts_.workers.all()) {
    const InterfaceCounters& c = w.worker->counters(id);
    t.rx_packets += c.rx_packets.get();
    t.tx_packets += c.tx_packets.get();
    t.rx_bytes += c.rx_bytes.get();
    t.tx_bytes += c.tx_bytes.get();
    add_drops(t.drops, c.drops);
  }
  add_drops(t.drops, parts_.interfaces.find(id)->drops);
  return t;
}

std::vector<TrafficInfo> NodeCounters::traffics() const {
  expects_management();
  std::vector<TrafficInfo> rows;
  for (const auto& slot : parts_.interfaces) rows.push_back(traffic(slot->control->id()));
  return rows;
}

DropArray NodeCounters::local_drops() const {
  expects_management();
  DropArray sum{};
  for (const WorkerHandle& w : parts_.workers.all())
    add_drops(sum, w.worker->local_counters().drops);
  add_drops(sum, parts_.punt->drops());
  add_drops(sum, parts_.injector->drops());
  return sum;
}

WorkerInfo NodeCounters::work(std::size_t worker) const {
  expects_management();
  const WorkerHandle& w = parts_.workers.all()[worker];
  const fwd::WorkerStats& s = w.worker->stats();
  WorkerInfo info;
  info.number = static_cast<unsigned>(worker);
  info.lcore = w.lcore;
  info.loops = s.loops.get();
  info.busy_loops = s.busy_loops.get();
  info.busy_cycles = s.busy_cycles.get();
  info.rx_packets = s.rx_packets.get();
  info.punts = s.punts.get();
  info.answers = s.answers.get();
  info.cycles = parts_.clock.cycles();
  info.generated = s.generated.get();
  info.stamped = s.stamped.get();
  info.consumed = s.consumed.get();
  info.no_mbuf = s.no_mbuf.get();
  info.gro_segments = s.gro_segments.get();
  info.gso_packets = s.gso_packets.get();
  info.handed_on = s.handed_on.get();
  info.spread_over = worker_numbers(w.worker->spreads_over());
  for (std::size_t i = 0; i < info.bursts.size(); ++i) info.bursts[i] = s.bursts[i].get();
  info.neighbours = parts_.neighbours->in_use();
  info.table_octets = w.worker->table_octets();
  for (const auto& h : parts_.hcas) info.connections += h->connected_queues[worker];
  for (const auto& slot : parts_.interfaces)
    if (std::count(slot->receivers.begin(), slot->receivers.end(), worker) != 0)
      info.interfaces.push_back(slot->control->name());
  return info;
}

LatencyTotals NodeCounters::latency() const {
  expects_management();
  LatencyTotals totals;
  for (const WorkerHandle& w : parts_.workers.all()) {
    totals.sent += w.worker->stats().stamped.get();
    const fwd::LatencyRecorder& recorder = w.worker->latency();
    recorder.histogram().add_to(totals.ns);
    for (std::size_t i = 0; i < totals.streams.size(); ++i) {
      const auto& stream = recorder.stream(i);
      totals.streams[i].received += stream.received.get();
      totals.streams[i].next = std::max(totals.streams[i].next, stream.next.get());
      totals.late += stream.late.get();
      totals.duplicates += stream.duplicates.get();
    }
  }
  return totals;
}

InterfaceTotals NodeCounters::interface_totals(const InterfaceSlot& slot) const {
  const link::Interface& control = *slot.control;
  InterfaceTotals t;
  t.name = control.name();
  t.place = parts_.tables.entries[control.id()].kind == fwd::InterfaceKind::kEthernet
                ? Place::kPort
                : Place::kLink;
  t.state = control.state();
  t.mtu = control.mtu();
  t.speed_bps = parts_.speed_bps(control.id());
  t.traffic = traffic(control.id());
  t.neighbours = control.neighbour_phases();
  for (const link::GroupInfo& g : control.groups(parts_.now())) ++t.groups[g.state];
  t.membership = membership_messages(control.id());
  return t;
}

/// Counts the host's part, which every interface has, and the router's part.
std::map<std::string_view, std::uint64_t> NodeCounters::membership_messages(
    table::InterfaceId iface) const {
  std::map<std::string_view, std::uint64_t> n;
  const route::MulticastRouter& router = parts_.multicast->router();
  for (const auto family : {route::IpFamily::kIpv4, route::IpFamily::kIpv6}) {
    if (const auto* host = router.reporter(iface, family)) {
      n["reports_sent"] += host->counters().reports_sent;
      n["leaves_sent"] += host->counters().leaves_sent;
      n["queries_heard"] += host->counters().queries_heard;
      n["queries_ignored"] += host->counters().queries_ignored;
    }
    if (const auto* members = router.membership(iface, family)) {
      n["queries_sent"] += members->counters().queries_sent;
      n["reports_received"] += members->counters().reports_received;
    }
  }
  n["foreign"] = router.foreign_messages(iface);
  return n;
}

std::vector<QueueTotals> NodeCounters::queue_totals() const {
  std::vector<QueueTotals> rows;
  const auto add = [&](const link::Interface& control, unsigned queue, unsigned worker) {
    const InterfaceCounters& c = parts_.workers.all()[worker].worker->counters(control.id());
    rows.push_back({control.name(), queue, worker, c.rx_packets.get(), c.tx_packets.get(),
                    c.rx_bytes.get(), c.tx_bytes.get()});
  };
  const auto workers = static_cast<unsigned>(parts_.workers.all().size());
  for (const auto& p : parts_.ports)
    for (unsigned worker = 0; worker < workers; ++worker) {
      const fwd::InterfaceQueues& own = p->queues_of(worker);
      if (own.eth_tx)
        add(p->control(), *own.eth_tx, worker);
      else if (!own.eth_rx.empty())
        add(p->control(), own.eth_rx.front(), worker);
    }
  for (const auto& l : parts_.links)
    for (unsigned q = 0; q < l->queue_pairs(); ++q) add(l->control(), q, l->worker_of(q));
  return rows;
}

std::map<std::string_view, std::uint64_t> NodeCounters::membership_refused() const {
  route::MembershipCounters sum;
  for (const auto& slot : parts_.interfaces)
    for (const auto family : {route::IpFamily::kIpv4, route::IpFamily::kIpv6})
      if (const auto* m = parts_.multicast->router().membership(slot->control->id(), family)) {
        const route::MembershipCounters& c = m->counters();
        sum.groups_refused += c.groups_refused;
        sum.host_groups_refused += c.host_groups_refused;
        sum.sources_refused += c.sources_refused;
        sum.over_budget += c.over_budget;
      }
  return {{"groups", sum.groups_refused},
          {"host_groups", sum.host_groups_refused},
          {"sources", sum.sources_refused},
          {"over_budget", sum.over_budget},
          {"entries", parts_.multicast->router().table().counters().entries_refused},
          {"contests", parts_.multicast->router().table().election_counters().refused}};
}

NodeTotals NodeCounters::totals() const {
  expects_management();
  NodeTotals t;
  t.uptime = parts_.now() - TimePoint{};
  t.tsc_hz = rte_get_tsc_hz();
  t.log_lines_lost = log_lines_lost();
  t.mbufs = parts_.buffers.size();
  t.mbufs_free = parts_.buffers.available();
  t.reserve_mbufs = parts_.buffers.reserve()->size;
  t.reserve_mbufs_free = rte_mempool_avail_count(parts_.buffers.reserve());
  for (const auto& slot : parts_.interfaces) t.interfaces.push_back(interface_totals(*slot));
  t.queues = queue_totals();
  for (const auto& p : parts_.ports)
    t.interfaces[p->config().id].errors = device_stats(p->device());
  for (const auto& h : parts_.hcas) t.hcas.push_back(hca_totals(*h));
  for (std::size_t i = 0; i < parts_.workers.all().size(); ++i) t.workers.push_back(work(i));
  t.drops = local_drops();
  const auto& in_effect = parts_.routes->in_effect();
  for (std::size_t kind = 0; kind < in_effect.size(); ++kind)
    if (in_effect[kind] != 0)
      t.routes[kind_name(static_cast<route::RouteKind>(kind))] += in_effect[kind];
  t.multicast_routes = parts_.multicast->rows(parts_.now()).size();
  t.membership_refused = membership_refused();
  const auto& elections = parts_.multicast->router().table().election_counters();
  t.forwarder_changes = {{"taken_over", elections.taken_over}, {"given_way", elections.given_way}};
  t.icmp_errors = parts_.punt->icmp_counters();
  t.latency = latency();
  parts_.turn_times.histogram().add_to(t.turn_ns);
  return t;
}

PacketBalance NodeCounters::packet_balance() const {
  expects_management();
  PacketBalance b;
  const auto add_losses = [&b](const DropCounters& drops) {
    for (const Counter& reason : drops.by_reason) b.dropped += reason.get();
  };
  for (const WorkerHandle& w : parts_.workers.all()) {
    const fwd::WorkerStats& s = w.worker->stats();
    b.generated += s.generated.get();
    b.copies += s.copies.get();
    b.joined += s.joined.get();
    b.consumed += s.consumed.get();
    add_losses(w.worker->local_counters().drops);
    for (const auto& slot : parts_.interfaces) {
      const InterfaceCounters& c = w.worker->counters(slot->control->id());
      b.received += c.rx_packets.get();
      b.sent += c.tx_packets.get();
      b.lost += c.tx_lost.get();
      add_losses(c.drops);
    }
  }
  for (const auto& slot : parts_.interfaces) add_losses(slot->drops);
  for (const auto& p : parts_.ports) b.received += p->device().drained();
  add_losses(parts_.punt->drops());
  add_losses(parts_.injector->drops());
  const PuntCounters& punt = parts_.punt->counters();
  b.originated = parts_.injector->originated();
  b.joined += punt.joined;
  b.delivered = punt.arp + punt.nd + punt.membership + punt.adverts + punt.answered +
                punt.to_linux + parts_.punt->waiting_fragments();
  return b;
}

Unfinished NodeCounters::unfinished() const {
  expects_management();
  Unfinished u;
  u.held = parts_.punt->held();
  const auto count_timer = [&u](const std::optional<TimePoint>& deadline) {
    u.timers += deadline.has_value();
  };
  for (const auto& h : parts_.hcas) {
    u.sa_requests += h->client.outstanding() + h->client.waiting();
    u.connections += h->connections.size();
    count_timer(h->client.next_deadline());
    count_timer(h->connections.next_deadline());
  }
  u.neighbours = parts_.neighbours->in_use();
  u.next_hops = parts_.routes->next_hops();
  u.fragments = parts_.punt->waiting_fragments();
  u.multicast = parts_.multicast->router().table().entries();
  return u;
}

}  // namespace ipoib::mgmt
