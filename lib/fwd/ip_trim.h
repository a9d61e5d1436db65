// SPDX-License-Identifier: BSD-3-Clause
// Cuts off the octets behind an IP packet: padding of the link.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "lib/base/contract.h"
#include "lib/wire/ip.h"

namespace ipoib::fwd {

/// Cuts the packet to `len` octets, which include the IP header in its first segment.
inline void trim(rte_mbuf* m, std::uint32_t len) noexcept {
  expects(len >= sizeof(wire::Ipv4Hdr) && len <= m->pkt_len, "the rest is within the packet");
  m->pkt_len = len;
  if (m->nb_segs == 1) [[likely]] {
    m->data_len = static_cast<std::uint16_t>(len);
    return;
  }
  rte_mbuf* last = m;
  std::uint16_t segments = 1;
  for (; len > last->data_len; last = last->next, ++segments) len -= last->data_len;
  last->data_len = static_cast<std::uint16_t>(len);
  if (last->next != nullptr) rte_pktmbuf_free(last->next);
  last->next = nullptr;
  m->nb_segs = segments;
}

}  // namespace ipoib::fwd
