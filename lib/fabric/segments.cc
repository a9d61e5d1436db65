// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fabric/segments.h"

#include <cstdint>

namespace ipoib::fabric {

rte_mbuf* copy_to_few_segments(rte_mbuf* m, unsigned max, rte_mempool* pool,
                               Drop& reason) noexcept {
  const std::uint32_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
  if (room == 0 || (m->pkt_len + room - 1) / room > max) {
    reason = Drop::kTxSegments;
    return nullptr;
  }
  rte_mbuf* const copy = rte_pktmbuf_copy(m, pool, 0, UINT32_MAX);
  if (copy == nullptr) {
    reason = Drop::kNoMbuf;
    return nullptr;
  }
  rte_pktmbuf_free(m);
  return copy;
}

}  // namespace ipoib::fabric
