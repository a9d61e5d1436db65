// SPDX-License-Identifier: BSD-3-Clause
// Mbufs for control frames: ACKs, NAKs and MADs. They must be available even if packets have used
// up every mbuf, because an ACK lets the peer free its own.
#pragma once

#include <rte_mbuf.h>

namespace ipoib::soft {

/// Allocates from `pool` or, while that is empty, from `reserve`; null: both are empty.
[[nodiscard]] inline rte_mbuf* alloc_control(rte_mempool* pool, rte_mempool* reserve) noexcept {
  if (rte_mbuf* const m = rte_pktmbuf_alloc(pool); m != nullptr) [[likely]]
    return m;
  return reserve != pool ? rte_pktmbuf_alloc(reserve) : nullptr;
}

}  // namespace ipoib::soft
