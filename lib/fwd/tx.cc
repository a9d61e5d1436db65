// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/tx.h"

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ring.h>

#include <algorithm>
#include <bit>

#include "lib/base/contract.h"
#include "lib/fabric/packet_meta.h"
#include "lib/fabric/segments.h"

namespace ipoib::fwd {
namespace {

constexpr std::uint32_t link_header_len(InterfaceKind kind) {
  return kind == InterfaceKind::kEthernet ? RTE_ETHER_HDR_LEN : sizeof(wire::IpoibHdr);
}

std::uint64_t octets_of(std::span<rte_mbuf* const> pkts) {
  std::uint64_t octets = 0;
  for (const rte_mbuf* m : pkts) octets += m->pkt_len;
  return octets;
}

}  // namespace

Tx::Tx(const WorkerConfig& config, std::span<InterfaceCounters> counters, Tracer& trace)
    : number_{config.number}, counters_{counters}, pool_{config.fragment_pool}, trace_{trace} {
  queues_.reserve(config.interfaces.size() + config.handoff_out.size());
  connected_.reserve(config.interfaces.size());
  connected_of_.resize(config.interfaces.size());
  add_workers(config);
  for (std::size_t i = 0; i < config.interfaces.size(); ++i) {
    const InterfaceEntry& entry = config.interfaces[i];
    const InterfaceQueues& own = config.queues[i];
    if (own.receive != nullptr) {
      connected_of_[i] = &connected_.emplace_back();
      connected_of_[i]->iface = static_cast<table::InterfaceId>(i);
    }
    if (!own.eth_tx && own.ud == nullptr) {
      queue_of_.push_back(worker_of_[entry.owner]);
      continue;
    }
    Queue& q = queues_.emplace_back();
    q.kind = entry.kind == InterfaceKind::kEthernet ? Kind::kEthernet : Kind::kIpoib;
    q.iface = static_cast<table::InterfaceId>(i);
    q.interface = &entry;
    q.ethdev_queue = own.eth_tx.value_or(0);
    q.ud = own.ud;
    q.header = static_cast<std::uint8_t>(link_header_len(entry.kind));
    queue_of_.push_back(&q);
  }
}

/// Adds queues to the owners of interfaces and, if a link has connections, to all other workers.
void Tx::add_workers(const WorkerConfig& config) {
  worker_of_.resize(config.handoff_out.size());
  const bool connected = std::ranges::any_of(config.interfaces, &InterfaceEntry::connected);
  for (std::size_t worker = 0; worker < worker_of_.size(); ++worker) {
    const bool owns = std::ranges::count(config.interfaces, worker, &InterfaceEntry::owner) != 0;
    if (config.handoff_out[worker] == nullptr || !(owns || connected)) continue;
    Queue& q = queues_.emplace_back();
    q.worker = static_cast<std::uint8_t>(worker);
    q.ring = config.handoff_out[worker];
    worker_of_[worker] = &q;
  }
}

void Tx::name_interface(rte_mbuf* m, table::InterfaceId iface) noexcept {
  fabric::PacketMeta& meta = fabric::meta_of(m);
  meta.tx.iface = iface;
  meta.tx.connected = false;
}

void Tx::enqueue_connected(const table::Neighbour& to, table::NeighbourIndex index,
                           rte_mbuf* m) noexcept {
  expects(to.iface < queue_of_.size() && to.queue != nullptr, "the neighbour has a connection");
  expects(can_reach(to), "the connection is of this worker or of one with a ring");
  if (!has_connection(to)) {
    expects_no_batch(to.iface);
    fabric::PacketMeta& meta = fabric::meta_of(m);
    meta.tx.ah = index;
    meta.tx.iface = to.iface;
    meta.tx.connected = true;
    return push(*worker_of_[to.worker], m);
  }
  Connected& q = *connected_of_[to.iface];
  q.queues[q.n] = to.queue;
  q.pkts[q.n++] = m;
  if (q.n == kMaxBurst) [[unlikely]]
    flush(q);
}

template <class FabricQueue>
Tx::Outcome Tx::send(FabricQueue& queue, std::span<rte_mbuf*> pkts) noexcept {
  const fabric::TxLost before = queue.tx_lost();
  const std::uint16_t taken = queue.tx_burst(pkts.data(), static_cast<std::uint16_t>(pkts.size()));
  return {taken, queue.tx_lost().since(before)};
}

Tx::Outcome Tx::send(Queue& q) noexcept {
  switch (q.kind) {
    case Kind::kEthernet:
      if (q.interface->is_stopped()) [[unlikely]]
        return {};
      return {rte_eth_tx_burst(q.interface->ethdev_port, q.ethdev_queue, q.pkts.data(), q.n)};
    case Kind::kIpoib: return send_ud(q);
    case Kind::kHandoff: break;
  }
  // rte_ring takes one void* per packet.
  void* const* const objects = reinterpret_cast<void* const*>(q.pkts.data());
  return {static_cast<std::uint16_t>(rte_ring_sp_enqueue_burst(q.ring, objects, q.n, nullptr))};
}

bool Tx::read_keys(Queue& q) noexcept {
  fabric::UdQueue& queue = *q.ud;
  return queue.frames() != nullptr && queue.frames()->keys(queue, q.keys);
}

/// Sends runs of whole frames and of other packets in their order, until the device takes no more.
Tx::Outcome Tx::send_ud(Queue& q) noexcept {
  fabric::UdQueue& queue = *q.ud;
  Outcome sum;
  while (sum.taken < q.n) {
    const std::uint64_t rest = q.by_handle >> sum.taken;
    const bool frames = (rest & 1) == 0;
    const int run = frames ? std::countr_zero(rest) : std::countr_one(rest);
    const auto n = static_cast<std::uint16_t>(std::min(run, q.n - sum.taken));
    rte_mbuf** const pkts = q.pkts.data() + sum.taken;
    const Outcome one =
        frames ? Outcome{queue.frames()->tx_burst(queue, pkts, n)} : send(queue, {pkts, n});
    sum.taken = static_cast<std::uint16_t>(sum.taken + one.taken);
    sum.lost.packets += one.lost.packets;
    sum.lost.octets += one.lost.octets;
    if (one.taken < n) break;
  }
  return sum;
}

/// Octets of the packets from `first` on, without link headers.
std::uint64_t Tx::octets_from(const Queue& q, std::uint16_t first) noexcept {
  std::uint64_t octets = 0;
  for (std::uint16_t i = first; i < q.n; ++i) {
    const bool frame = q.kind == Kind::kIpoib && (q.by_handle >> i & 1) == 0;
    octets +=
        frame ? fabric::ip_len_of_frame(q.pkts[i]) : std::uint64_t{q.pkts[i]->pkt_len} - q.header;
  }
  return octets;
}

/// Copies chains that are too long for the ethdev; drops those that cannot be copied.
[[gnu::noinline]] void Tx::shorten_chains(Queue& q) noexcept {
  const unsigned max = q.interface->max_segments.load(std::memory_order_relaxed);
  std::uint16_t kept = 0;
  for (std::uint16_t i = 0; i < q.n; ++i) {
    Drop reason = Drop::kNone;
    rte_mbuf* const before = q.pkts[i];
    if (rte_mbuf* const m = fabric::with_few_segments(before, max, pool_, reason)) {
      if (m != before) {
        trace_.copied(before, m);
        trace_.discarded(before);
      }
      q.pkts[kept++] = m;
    } else {
      q.octets -= std::uint64_t{before->pkt_len} - q.header;
      counters_[q.iface].drops.add(reason);
      trace_.dropped(before, reason);
      rte_pktmbuf_free(before);
    }
  }
  q.n = kept;
}

void Tx::flush(Queue& q) noexcept {
  if (q.kind == Kind::kEthernet &&
      q.segments > q.interface->max_segments.load(std::memory_order_relaxed)) [[unlikely]]
    shorten_chains(q);
  const bool own = q.kind != Kind::kHandoff;
  trace_.leaving({q.pkts.data(), q.n}, !own);

  const Outcome outcome = send(q);

  const std::span<rte_mbuf*> unsent{q.pkts.data() + outcome.taken,
                                    static_cast<std::size_t>(q.n - outcome.taken)};
  if (own) count_sent(q.iface, q.header, q.octets - octets_from(q, outcome.taken), outcome);
  if (trace_.active()) [[unlikely]]
    trace_departure(q, outcome);
  if (!unsent.empty()) [[unlikely]] {
    count_unsent(q, outcome.taken);
    rte_pktmbuf_free_bulk(unsent.data(), static_cast<unsigned>(unsent.size()));
  }
  q.n = 0;
  q.octets = 0;
  q.segments = 0;
  q.by_handle = 0;
}

void Tx::trace_departure(const Queue& q, const Outcome& outcome) noexcept {
  trace_.left({.iface = q.iface,
               .mode = q.kind == Kind::kEthernet ? table::NeighbourMode::kEthernet
                                                 : table::NeighbourMode::kUd,
               .handoff = q.kind == Kind::kHandoff,
               .worker = q.worker,
               .taken = outcome.taken,
               .lost = static_cast<std::uint16_t>(outcome.lost.packets),
               .unsent = unsent_reason(q)});
}

/// Consecutive packets to one peer are one burst.
void Tx::flush(Connected& q) noexcept {
  for (std::uint16_t begin = 0, end = 0; begin < q.n; begin = end) {
    fabric::ConnectedQueue* const queue = q.queues[begin];
    while (end < q.n && q.queues[end] == queue) ++end;
    const std::span<rte_mbuf*> burst{&q.pkts[begin], static_cast<std::size_t>(end - begin)};
    const std::uint64_t octets = octets_of(burst);
    trace_.leaving(burst, false);
    const Outcome outcome = send(*queue, burst);
    const auto unsent = burst.subspan(outcome.taken);
    count_sent(q.iface, sizeof(wire::IpoibHdr),
               octets - octets_of(unsent) - outcome.taken * sizeof(wire::IpoibHdr), outcome);
    if (trace_.active()) [[unlikely]]
      trace_.left({.iface = q.iface,
                   .mode = table::mode_of(queue->transport()),
                   .taken = outcome.taken,
                   .lost = static_cast<std::uint16_t>(outcome.lost.packets),
                   .unsent = Drop::kIbTxFull});
    if (unsent.empty()) [[likely]]
      continue;
    counters_[q.iface].drops.add(Drop::kIbTxFull, unsent.size());
    rte_pktmbuf_free_bulk(unsent.data(), static_cast<unsigned>(unsent.size()));
  }
  q.n = 0;
}

/// `octets`: those of the taken packets, without link headers.
void Tx::count_sent(table::InterfaceId iface, std::uint32_t header, std::uint64_t octets,
                    const Outcome& outcome) noexcept {
  const fabric::TxLost& lost = outcome.lost;
  counters_[iface].tx_packets.add(outcome.taken - lost.packets);
  if (lost.packets != 0) [[unlikely]]
    counters_[iface].tx_lost.add(lost.packets);
  counters_[iface].tx_bytes.add(octets - (lost.octets - lost.packets * header));
}

Drop Tx::unsent_reason(const Queue& q) noexcept {
  switch (q.kind) {
    case Kind::kEthernet: return q.interface->is_stopped() ? Drop::kLinkDown : Drop::kEthTxFull;
    case Kind::kIpoib: return Drop::kIbTxFull;
    case Kind::kHandoff: break;
  }
  return Drop::kHandoffRingFull;
}

void Tx::count_unsent(const Queue& q, std::uint16_t sent) noexcept {
  const Drop reason = unsent_reason(q);
  if (q.kind != Kind::kHandoff)
    return counters_[q.iface].drops.add(reason, static_cast<std::uint64_t>(q.n - sent));
  for (std::uint16_t i = sent; i < q.n; ++i)
    counters_[fabric::meta_of(q.pkts[i]).tx.iface].drops.add(reason);
}

}  // namespace ipoib::fwd
