// SPDX-License-Identifier: BSD-3-Clause
// The mbufs of a packet: recognises packets in one mbuf without other owners, shortens chains for
// devices that do not send long ones, and shares a budget of mbufs among queues.
#pragma once

#include <rte_mbuf.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/drop.h"

namespace ipoib::fabric {

/// True if the packet is one direct mbuf with one reference, which is the common case: no other
/// owner reads its data.
[[nodiscard]] inline bool is_sole_mbuf(const rte_mbuf* m) noexcept {
  // In the last octet: a test of all eight needs a constant in a register.
  constexpr auto kForeign =
      static_cast<std::uint8_t>((RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL) >> 56);
  static_assert(std::endian::native == std::endian::little);
  const auto* const flags = reinterpret_cast<const std::uint8_t*>(&m->ol_flags);
  static_assert(offsetof(rte_mbuf, nb_segs) == offsetof(rte_mbuf, refcnt) + sizeof(m->refcnt));
  constexpr std::uint32_t kSingle = 1U << 16 | 1;  // one segment, one reference
  std::uint32_t segs_refs;
  std::memcpy(&segs_refs, &m->refcnt, sizeof(segs_refs));
  return segs_refs == kSingle && (flags[7] & kForeign) == 0;
}

/// True if another owner reads the data of the first mbuf, or has any of the mbufs.
[[nodiscard]] inline bool is_shared(const rte_mbuf* m) noexcept {
  if (RTE_MBUF_CLONED(m)) return true;
  if (RTE_MBUF_HAS_EXTBUF(m) && rte_mbuf_ext_refcnt_read(m->shinfo) != 1) return true;
  for (; m != nullptr; m = m->next)
    if (rte_mbuf_refcnt_read(m) != 1) return true;
  return false;
}

/// with_few_segments() for a packet with more than `max` mbufs.
[[nodiscard]] rte_mbuf* copy_to_few_segments(rte_mbuf* m, unsigned max, rte_mempool* pool,
                                             Drop& reason) noexcept;

/// Returns the packet in at most `max` mbufs: `m` itself, or a copy in as few mbufs of `pool` as
/// possible, with the same flags and PacketMeta; then `m` is freed. Null: the caller keeps `m`, and
/// `reason` is the drop reason: kNoMbuf, or kTxSegments if a copy would need too many mbufs of this
/// size. Otherwise `reason` is unchanged.
[[nodiscard]] inline rte_mbuf* with_few_segments(rte_mbuf* m, unsigned max, rte_mempool* pool,
                                                 Drop& reason) noexcept {
  if (m->nb_segs <= max) [[likely]]
    return m;
  return copy_to_few_segments(m, max, pool, reason);
}

/// Mbufs of messages that wait to be sent or acknowledged.
struct MessageBudget {
  std::uint32_t limit;  ///< All connected queue pairs together.
  std::uint32_t left;
};

/// True if a queue pair that holds `held` mbufs, to a port for which all queue pairs hold
/// `held_for_port`, may keep a message of `mbufs` more. The messages to a port hold no more than they
/// leave to other ports, and a queue pair no more than it leaves to the others of its port. The last
/// quarter is for ports without messages. So a port that stays silent, with one connection or many,
/// leaves a share to ports that answer.
[[nodiscard]] constexpr bool may_keep(const MessageBudget& budget, std::uint32_t held_for_port,
                                      std::uint32_t held, std::uint32_t mbufs) noexcept {
  if (held_for_port == 0) return mbufs <= budget.left;
  return held_for_port + held + mbufs + budget.limit / 4 <= budget.left;
}

}  // namespace ipoib::fabric
