// SPDX-License-Identifier: BSD-3-Clause
// Stage unshare: the stages behind it write headers into the first mbuf of a packet and change the
// lengths and links of all its mbufs. An Ethernet port may deliver mbufs that another owner reads too,
// for example copies of one packet from a bonding or ring device: such a packet is copied first. The
// cable of a software HCA must deliver mbufs of its own, because its driver strips headers before.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// False if every packet is one direct mbuf with one reference, which is the common case: one load
/// of flags and one of counts per packet, from the cache line that input reads next.
[[nodiscard]] inline bool may_be_shared(std::span<rte_mbuf* const> pkts) noexcept {
  static_assert(offsetof(rte_mbuf, nb_segs) == offsetof(rte_mbuf, refcnt) + sizeof(std::uint16_t));
  constexpr std::uint32_t kSingle = 1U << 16 | 1;  // one segment, one reference
  constexpr std::uint64_t kForeign = RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
  std::uint64_t unusual = 0;
  for (const rte_mbuf* m : pkts) {
    std::uint32_t segs_refs;
    std::memcpy(&segs_refs, &m->refcnt, sizeof(segs_refs));
    unusual |= (segs_refs ^ kSingle) | (m->ol_flags & kForeign);
  }
  return unusual != 0;
}

/// Replaces packets of which another owner has the data of the first mbuf, or any mbuf itself, by
/// copies in the same place. Later mbufs may share their data, which no stage writes. A link's packet
/// keeps its GRH.
///
/// Errors: kNoMbuf.
void unshare(Context& c, const Ingress& in, Burst& pkts) noexcept;

}  // namespace ipoib::fwd
