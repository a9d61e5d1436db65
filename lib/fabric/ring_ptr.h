// SPDX-License-Identifier: BSD-3-Clause
// An owned rte_ring, and the end of the mbufs in one.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <memory>

namespace ipoib::fabric {

struct RingDeleter {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};
using RingPtr = std::unique_ptr<rte_ring, RingDeleter>;

/// Frees the mbufs in a ring of which the caller is the only consumer.
inline void free_mbufs_in(rte_ring& ring) noexcept {
  void* m = nullptr;
  while (rte_ring_sc_dequeue(&ring, &m) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
}

}  // namespace ipoib::fabric
