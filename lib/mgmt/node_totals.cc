// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node_totals.h"

#include <rte_cycles.h>
#include <rte_mempool.h>

#include <algorithm>

#include "lib/mgmt/node_impl.h"

namespace ipoib::mgmt {

std::uint64_t LatencyTotals::received() const {
  std::uint64_t sum = 0;
  for (const Stream& s : streams) sum += s.received;
  return sum;
}

std::uint64_t LatencyTotals::missing() const {
  std::uint64_t sum = 0;
  for (const Stream& s : streams) sum += s.next - std::min(s.next, s.received);
  return sum;
}

LatencyTotals NodeImpl::total_latency() const {
  LatencyTotals totals;
  for (const WorkerHandle& w : workers_.all()) {
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

InterfaceTotals NodeImpl::interface_totals(const InterfaceSlot& slot) const {
  const link::Interface& control = *slot.control;
  InterfaceTotals t;
  t.name = control.name();
  t.place =
      entries_[control.id()].kind == fwd::InterfaceKind::kEthernet ? Place::kPort : Place::kLink;
  t.state = control.state();
  t.worker = slot.owner;
  t.mtu = control.mtu();
  t.speed_bps = speed_bps(control.id());
  t.traffic = total_traffic(control.id());
  t.neighbours = control.neighbour_phases();
  for (const link::GroupInfo& g : control.groups(now())) ++t.groups[g.state];
  return t;
}

HcaTotals NodeImpl::hca_totals(const HcaInstance& hca) {
  HcaTotals t;
  t.name = hca.config.name;
  add_drops(t.drops, hca.hca->drops());
  t.client = hca.client.counters();
  t.mads = hca.mad_counters();
  t.administrator = hca.administrator.has_value();
  if (!hca.administrator) return t;
  t.groups = hca.administrator->groups().size();
  t.ports = hca.administrator->ports().size();
  return t;
}

NodeTotals NodeImpl::totals() const {
  expects_own_lcore();
  NodeTotals t;
  t.uptime = now() - TimePoint{};
  t.tsc_hz = rte_get_tsc_hz();
  t.mbufs = buffers_.size();
  t.mbufs_free = buffers_.available();
  t.reserve_mbufs = buffers_.reserve()->size;
  t.reserve_mbufs_free = rte_mempool_avail_count(buffers_.reserve());
  for (const auto& slot : interfaces_) t.interfaces.push_back(interface_totals(*slot));
  for (const auto& p : ports_) t.interfaces[p->config().id].errors = p->device().stats();
  for (const auto& h : hcas_) t.hcas.push_back(hca_totals(*h));
  for (std::size_t i = 0; i < workers_.all().size(); ++i) t.workers.push_back(total_work(i));
  t.drops = total_local_drops();
  for (const auto& [prefix, route] : routes_->routes()) ++t.routes[kind_name(route.kind)];
  t.multicast_routes = multicast_->rows(now()).size();
  t.latency = total_latency();
  return t;
}

PacketBalance NodeImpl::packet_balance() const {
  PacketBalance b;
  const auto add_losses = [&b](const DropCounters& drops) {
    for (const Counter& reason : drops.by_reason) b.dropped += reason.get();
  };
  for (const WorkerHandle& w : workers_.all()) {
    const fwd::WorkerStats& s = w.worker->stats();
    b.generated += s.generated.get();
    b.copies += s.copies.get();
    b.joined += s.joined.get();
    b.consumed += s.consumed.get();
    add_losses(w.worker->local_counters().drops);
    for (const auto& slot : interfaces_) {
      const InterfaceCounters& c = w.worker->counters(slot->control->id());
      b.received += c.rx_packets.get();
      b.sent += c.tx_packets.get();
      b.lost += c.tx_lost.get();
      add_losses(c.drops);
    }
  }
  for (const auto& slot : interfaces_) add_losses(slot->drops);
  for (const auto& p : ports_) b.received += p->device().drained();
  add_losses(punt_->drops());
  const PuntCounters& punt = punt_->counters();
  b.originated = punt.originated;
  b.delivered = punt.arp + punt.nd + punt.membership + punt.answered;
  return b;
}

Unfinished NodeImpl::unfinished() const {
  Unfinished u;
  u.held = punt_->held();
  const auto count_timer = [&u](const std::optional<TimePoint>& deadline) {
    u.timers += deadline.has_value();
  };
  for (const auto& h : hcas_) {
    u.asked += h->client.outstanding() + h->client.waiting();
    u.connections += h->connections.size();
    count_timer(h->client.next_deadline());
    count_timer(h->connections.next_deadline());
  }
  u.neighbours = neighbours_->in_use();
  u.next_hops = routes_->next_hops();
  return u;
}

}  // namespace ipoib::mgmt
