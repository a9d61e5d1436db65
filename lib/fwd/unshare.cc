// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/unshare.h"

#include "lib/base/contract.h"
#include "lib/fabric/segments.h"

namespace ipoib::fwd {

rte_mbuf* unshare(Context& c, rte_mbuf* m, DropBin& bin) noexcept {
  expects(m->pkt_len != 0, "the packet is not empty");
  if (!fabric::is_shared(m)) return m;
  rte_mbuf* const own = rte_pktmbuf_copy(m, c.fragment_pool, 0, UINT32_MAX);
  if (own == nullptr) {
    bin.add(m, Drop::kNoMbuf);
    return nullptr;
  }
  c.trace.copied(m, own);
  c.trace.discarded(m);
  rte_pktmbuf_free(m);
  return own;
}

}  // namespace ipoib::fwd
