// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/unshare.h"

#include <cstring>

#include "lib/fabric/packet_meta.h"
#include "lib/wire/iba.h"

namespace ipoib::fwd {
namespace {

bool is_shared(const rte_mbuf* m) noexcept {
  if (RTE_MBUF_CLONED(m)) return true;
  if (RTE_MBUF_HAS_EXTBUF(m) && rte_mbuf_ext_refcnt_read(m->shinfo) != 1) return true;
  for (; m != nullptr; m = m->next)
    if (rte_mbuf_refcnt_read(m) != 1) return true;
  return false;
}

/// Copies the GRH, which is in the headroom. For Ethernet ports the field's content is undefined.
void copy_grh(const InterfaceEntry& entry, const rte_mbuf* from, rte_mbuf* to) noexcept {
  if (entry.kind != InterfaceKind::kIpoib) return;
  const std::uint8_t at = fabric::meta_of(to).rx.grh_offset;
  if (at < sizeof(wire::Grh) || at > from->data_off || at > to->data_off) return;
  std::memcpy(rte_pktmbuf_mtod(to, std::byte*) - at, rte_pktmbuf_mtod(from, const std::byte*) - at,
              sizeof(wire::Grh));
}

}  // namespace

void unshare(Context& c, const Ingress& in, Burst& pkts) noexcept {
  DropBin bin{in.counters.drops};
  std::uint16_t n = 0;
  for (rte_mbuf* m : pkts.span()) {
    if (!is_shared(m)) {
      pkts.pkts[n++] = m;
      continue;
    }
    rte_mbuf* const own = rte_pktmbuf_copy(m, c.fragment_pool, 0, UINT32_MAX);
    if (own == nullptr) {
      bin.add(m, Drop::kNoMbuf);
      continue;
    }
    copy_grh(c.interfaces[in.iface], m, own);
    rte_pktmbuf_free(m);
    pkts.pkts[n++] = own;
  }
  pkts.n = n;
}

}  // namespace ipoib::fwd
