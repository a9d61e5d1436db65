// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/modes/io_forward.h"

#include <rte_ether.h>

#include <algorithm>
#include <atomic>

#include "lib/base/contract.h"

namespace ipoib::fwd {
namespace {

/// Returns the reason to drop the whole burst, or kNone.
Drop obstacle(const Context& c, table::InterfaceId peer, bool forwarding) noexcept {
  if (!forwarding) return Drop::kForwardingStopped;
  if (peer == table::kNoInterface) return Drop::kNoForwardPeer;
  if (!c.interfaces[peer].is_up()) return Drop::kLinkDown;
  return Drop::kNone;
}

}  // namespace

std::vector<table::InterfaceId> io_peers(std::span<const InterfaceEntry> interfaces) {
  std::vector<table::InterfaceId> peers(interfaces.size(), table::kNoInterface);
  table::InterfaceId waiting = table::kNoInterface;
  for (std::size_t i = 0; i < interfaces.size(); ++i) {
    if (interfaces[i].kind != InterfaceKind::kEthernet) continue;
    const auto id = static_cast<table::InterfaceId>(i);
    if (waiting == table::kNoInterface) {
      waiting = id;
    } else {
      peers[id] = waiting;
      peers[waiting] = id;
      waiting = table::kNoInterface;
    }
  }
  return peers;
}

void io_forward(Context& c, const Ingress& in, std::span<rte_mbuf* const> pkts,
                table::InterfaceId peer, bool forwarding) noexcept {
  expects(
      in.iface < c.interfaces.size() && (peer < c.interfaces.size() || peer == table::kNoInterface),
      "both interfaces exist");
  const bool ethernet = c.interfaces[in.iface].kind == InterfaceKind::kEthernet;
  const std::uint32_t header = ethernet ? RTE_ETHER_HDR_LEN : sizeof(wire::IpoibHdr);
  std::uint64_t octets = 0;
  for (const rte_mbuf* m : pkts) octets += m->pkt_len - std::min(header, m->pkt_len);
  in.counters.rx_bytes.add(octets);

  if (const Drop reason = obstacle(c, peer, forwarding); reason != Drop::kNone) {
    DropBin{c.trace, in.counters.drops}.add(pkts, reason);
    return;
  }
  for (rte_mbuf* m : pkts) c.tx.enqueue(peer, m);
}

}  // namespace ipoib::fwd
