// SPDX-License-Identifier: BSD-3-Clause
// Chains of mbufs made short enough for a device that does not send long ones.
#pragma once

#include <rte_mbuf.h>

#include "lib/base/drop.h"

namespace ipoib::fabric {

/// with_few_segments() of a packet that has more than `most`.
[[nodiscard]] rte_mbuf* copy_to_few_segments(rte_mbuf* m, unsigned most, rte_mempool* pool,
                                             Drop& reason) noexcept;

/// The packet in at most `most` mbufs: itself, or a copy in as few mbufs of `pool` as hold it, with
/// the flags and PacketMeta that it had; then `m` is freed. Null: `m` stays the caller's, and
/// `reason` says what it is to be counted as: kNoMbuf, or kTxSegments when mbufs of this size would
/// still be too many. Else `reason` stays as it was.
[[nodiscard]] inline rte_mbuf* with_few_segments(rte_mbuf* m, unsigned most, rte_mempool* pool,
                                                 Drop& reason) noexcept {
  if (m->nb_segs <= most) [[likely]]
    return m;
  return copy_to_few_segments(m, most, pool, reason);
}

}  // namespace ipoib::fabric
