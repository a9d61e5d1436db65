// SPDX-License-Identifier: BSD-3-Clause
// Packets in mbufs, made of octets and read back as octets.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace ipoib::test {

using Bytes = std::vector<std::byte>;

/// Returns a packet of these octets in segments of at most `segment` octets. Throws if the pool has
/// no mbuf left or if a segment does not fit one.
inline rte_mbuf* mbuf_of(rte_mempool* pool, std::span<const std::byte> octets,
                         std::size_t segment = SIZE_MAX) {
  rte_mbuf* first = nullptr;
  do {
    const auto part = octets.first(std::min(segment, octets.size()));
    octets = octets.subspan(part.size());
    rte_mbuf* const m = rte_pktmbuf_alloc(pool);
    char* const data =
        m == nullptr ? nullptr : rte_pktmbuf_append(m, static_cast<std::uint16_t>(part.size()));
    if (data == nullptr) throw std::runtime_error("no mbuf for a packet");
    std::ranges::copy(part, reinterpret_cast<std::byte*>(data));
    if (first == nullptr)
      first = m;
    else if (rte_pktmbuf_chain(first, m) != 0)
      throw std::runtime_error("too many segments");
  } while (!octets.empty());
  return first;
}

/// Returns the octets of all segments. Throws if the packet has another length.
inline Bytes bytes_of(const rte_mbuf* packet) {
  Bytes bytes;
  for (const rte_mbuf* m = packet; m != nullptr; m = m->next) {
    const auto* const data = rte_pktmbuf_mtod(m, const std::byte*);
    bytes.insert(bytes.end(), data, data + m->data_len);
  }
  if (bytes.size() != packet->pkt_len) throw std::runtime_error("pkt_len is wrong");
  return bytes;
}

/// Returns the octets of the packet, and frees it.
inline Bytes take(rte_mbuf* m) {
  Bytes bytes = bytes_of(m);
  rte_pktmbuf_free(m);
  return bytes;
}

/// Frees the packets and returns their number.
inline std::size_t free_all(std::span<rte_mbuf* const> pkts) {
  for (rte_mbuf* m : pkts) rte_pktmbuf_free(m);
  return pkts.size();
}

/// Returns the next packet of a ring, or null if it is empty.
inline rte_mbuf* next_of(rte_ring* ring) {
  void* m = nullptr;
  return rte_ring_dequeue(ring, &m) == 0 ? static_cast<rte_mbuf*>(m) : nullptr;
}

/// Takes all packets from a ring.
inline std::vector<Bytes> take_all(rte_ring* ring) {
  std::vector<Bytes> packets;
  while (rte_mbuf* const m = next_of(ring)) packets.push_back(take(m));
  return packets;
}

/// Frees all packets of a ring.
inline void empty(rte_ring* ring) {
  while (rte_mbuf* const m = next_of(ring)) rte_pktmbuf_free(m);
}

}  // namespace ipoib::test
