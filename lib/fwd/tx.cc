#include "lib/fwd/tx.h"

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ring.h>

#include <map>

#include "lib/fabric/packet_meta.h"

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

Tx::Tx(const WorkerConfig& config, std::span<InterfaceCounters> counters) : counters_{counters} {
  queues_.reserve(config.interfaces.size());
  std::map<unsigned, Queue*> queue_of_worker;
  for (std::size_t i = 0; i < config.interfaces.size(); ++i) {
    const InterfaceEntry& entry = config.interfaces[i];
    if (entry.owner == config.number) {
      Queue& q = queues_.emplace_back();
      q.kind = entry.kind == InterfaceKind::kEthernet ? Kind::kEthernet : Kind::kIpoib;
      q.iface = static_cast<table::InterfaceId>(i);
      q.interface = &entry;
      queue_of_.push_back(&q);
      continue;
    }
    Queue*& q = queue_of_worker[entry.owner];
    if (q == nullptr) {
      q = &queues_.emplace_back();
      q->ring = config.handoff_out[entry.owner];
    }
    queue_of_.push_back(q);
  }
}

void Tx::name_interface(rte_mbuf* m, table::InterfaceId iface) noexcept {
  fabric::meta_of(m).tx.iface = iface;
}

std::uint16_t Tx::send(Queue& q) noexcept {
  switch (q.kind) {
    case Kind::kEthernet:
      if (q.interface->is_stopped()) [[unlikely]]
        return 0;
      return rte_eth_tx_burst(q.interface->ethdev_port, q.interface->ethdev_queue, q.pkts.data(),
                              q.n);
    case Kind::kIpoib: return q.interface->ud_queue->tx_burst(q.pkts.data(), q.n);
    case Kind::kHandoff: break;
  }
  // A void* a packet, as rte_ring has it.
  void* const* const objects = reinterpret_cast<void* const*>(q.pkts.data());
  return static_cast<std::uint16_t>(rte_ring_sp_enqueue_burst(q.ring, objects, q.n, nullptr));
}

void Tx::flush(Queue& q) noexcept {
  // Lengths are read before the packets are the device's.
  const bool own = q.kind != Kind::kHandoff;
  std::uint64_t octets = own ? octets_of({q.pkts.data(), q.n}) : 0;

  const std::uint16_t sent = send(q);

  const std::span<rte_mbuf*> unsent{&q.pkts[sent], static_cast<std::size_t>(q.n - sent)};
  if (own) {
    octets -= octets_of(unsent) + sent * link_header_len(q.interface->kind);
    counters_[q.iface].tx_packets.add(sent);
    counters_[q.iface].tx_bytes.add(octets);
  }
  if (!unsent.empty()) [[unlikely]] {
    count_unsent(q, sent);
    rte_pktmbuf_free_bulk(unsent.data(), static_cast<unsigned>(unsent.size()));
  }
  q.n = 0;
}

void Tx::count_unsent(const Queue& q, std::uint16_t sent) noexcept {
  const auto unsent = static_cast<std::uint64_t>(q.n - sent);
  switch (q.kind) {
    case Kind::kEthernet:
      counters_[q.iface].drops.add(q.interface->is_stopped() ? Drop::kLinkDown : Drop::kEthTxFull,
                                   unsent);
      break;
    case Kind::kIpoib: counters_[q.iface].drops.add(Drop::kIbTxFull, unsent); break;
    case Kind::kHandoff:
      for (std::uint16_t i = sent; i < q.n; ++i)
        counters_[fabric::meta_of(q.pkts[i]).tx.iface].drops.add(Drop::kHandoffRingFull);
      break;
  }
}

}  // namespace ipoib::fwd
