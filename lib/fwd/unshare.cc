// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/unshare.h"

#include "lib/base/contract.h"

namespace ipoib::fwd {
namespace {

bool is_shared(const rte_mbuf* m) noexcept {
  if (RTE_MBUF_CLONED(m)) return true;
  if (RTE_MBUF_HAS_EXTBUF(m) && rte_mbuf_ext_refcnt_read(m->shinfo) != 1) return true;
  for (; m != nullptr; m = m->next)
    if (rte_mbuf_refcnt_read(m) != 1) return true;
  return false;
}

}  // namespace

rte_mbuf* unshare(Context& c, rte_mbuf* m, DropBin& bin) noexcept {
  expects(m->pkt_len != 0, "the packet is not empty");
  if (!is_shared(m)) return m;
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
