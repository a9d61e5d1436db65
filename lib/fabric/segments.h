// SPDX-License-Identifier: BSD-3-Clause
// Shortens chains of mbufs for devices that do not send long chains.
#pragma once

#include <rte_mbuf.h>

#include "lib/base/drop.h"

namespace ipoib::fabric {

/// with_few_segments() for a packet with more than `max` mbufs.
[[nodiscard]] rte_mbuf* copy_to_few_segments(rte_mbuf* m, unsigned max, rte_mempool* pool,
                                             Drop& reason) noexcept;

/// Returns the packet in at most `max` mbufs: `m` itself, or a copy in as few mbufs of `pool` as
/// possible, with the same flags and PacketMeta; then `m` is freed. Null: the caller keeps `m`, and
/// `reason` is the drop reason: kNoMbuf, or kTxSegments if a copy would need too many mbufs of this
/// size. Otherwise `reason` is unchanged.
[[nodiscard]] inline rte_mbuf* with_few_segments(rte_mbuf* m, unsigned max, rte_mempool* pool,
                                                 Drop& reason) noexcept {
  if (m->nb_segs <= max) [[likely]]
    return m;
  return copy_to_few_segments(m, max, pool, reason);
}

}  // namespace ipoib::fabric
