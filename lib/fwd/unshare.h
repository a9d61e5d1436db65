// SPDX-License-Identifier: BSD-3-Clause
// The stages behind the input write headers into the first mbuf of a packet and change the lengths and
// links of all its mbufs. An Ethernet port may deliver mbufs that another owner reads too, for example
// copies of one packet from a bonding or ring device: such a packet is copied first. Receive queues of
// HCAs deliver mbufs of their own.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/fwd/burst.h"
#include "lib/fwd/context.h"

namespace ipoib::fwd {

/// False if the packet is one direct mbuf with one reference, which is the common case.
[[nodiscard]] inline bool may_be_shared(const rte_mbuf* m) noexcept {
  constexpr std::uint64_t kForeign = RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
  static_assert(offsetof(rte_mbuf, nb_segs) == offsetof(rte_mbuf, refcnt) + sizeof(m->refcnt));
  constexpr std::uint32_t kSingle = 1U << 16 | 1;  // one reference, one segment
  std::uint32_t refs_segs;
  std::memcpy(&refs_segs, &m->refcnt, sizeof(refs_segs));
  return refs_segs != kSingle || (m->ol_flags & kForeign) != 0;
}

/// Returns the packet, or a copy in its place if another owner has the data of the first mbuf, or any
/// mbuf itself. Later mbufs may share their data, which no stage writes. Shape: the packet is not
/// empty.
///
/// Errors: null, and the packet is dropped with kNoMbuf.
[[nodiscard]] rte_mbuf* unshare(Context& c, rte_mbuf* m, DropBin& bin) noexcept;

}  // namespace ipoib::fwd
