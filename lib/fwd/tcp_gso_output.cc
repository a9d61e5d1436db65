// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/tcp_gso_output.h"

#include "lib/base/contract.h"
#include "lib/fwd/link_output.h"
#include "lib/fwd/tcp_gso.h"

namespace ipoib::fwd {

bool tcp_gso_output(Context& c, const table::Neighbour& to, const InterfaceEntry& entry,
                    wire::EtherType type, rte_mbuf* m, std::uint16_t mtu, DropBin& bin) noexcept {
  expects(m->pkt_len > mtu, "the packet is too large");
  if (!entry.tcp_offload) return false;
  TcpGso gso{m, mtu, c.fragment_pool};
  if (!gso.possible()) return false;
  while (!gso.done()) {
    rte_mbuf* const segment = gso.next();
    if (segment == nullptr) {
      bin.add(m, Drop::kNoMbuf);
      return true;
    }
    c.trace.cut(m, {&segment, 1}, true, mtu);
    if (!gso.done()) c.stats.copies.add(1);  // the last one stands for the packet
    link_output(c, to, entry, type, segment, bin);
  }
  c.stats.gso_packets.add(1);
  c.trace.discarded(m);
  rte_pktmbuf_free(m);
  return true;
}

}  // namespace ipoib::fwd
