// SPDX-License-Identifier: BSD-3-Clause
// Mbufs for frames that carry no payload: ACKs, NAKs and MADs. They go on when packets have used
// every mbuf up: an ACK is what makes the peer free its own.
#pragma once

#include <rte_mbuf.h>

namespace ipoib::soft {

/// One of `pool` or, while that is empty, of `reserve`; null: neither has one.
[[nodiscard]] inline rte_mbuf* alloc_control(rte_mempool* pool, rte_mempool* reserve) noexcept {
  if (rte_mbuf* const m = rte_pktmbuf_alloc(pool); m != nullptr) [[likely]]
    return m;
  return reserve != pool ? rte_pktmbuf_alloc(reserve) : nullptr;
}

}  // namespace ipoib::soft
