// SPDX-License-Identifier: BSD-3-Clause
// An owned rte_ring, the end of the mbufs in one, and a place in one, to learn when all elements
// before it have been taken.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstdint>
#include <memory>

namespace ipoib::fabric {

struct RingDeleter {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};
using RingPtr = std::unique_ptr<rte_ring, RingDeleter>;

/// Frees the mbufs in a ring of which the caller is the only consumer.
inline void free_mbufs_in(rte_ring& ring) noexcept {
  void* m = nullptr;
  while (rte_ring_sc_dequeue(&ring, &m) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
}

/// Any thread may set a mark, and the same thread asks for it: it reads the places of the ring only.
class RingMark {
 public:
  explicit RingMark(const rte_ring& ring) noexcept : ring_{&ring} {}

  /// Marks the place behind the last element.
  void set() noexcept { end_ = place(ring_->prod.tail); }
  /// True if everything before the mark is off the ring. Places wrap at 2^32, so one that is far
  /// ahead may look as if it were behind; but an empty ring has passed everything.
  [[nodiscard]] bool has_passed() const noexcept {
    const std::uint32_t begin = place(ring_->cons.tail);
    return static_cast<std::int32_t>(begin - end_) >= 0 || begin == place(ring_->prod.tail);
  }

 private:
  /// Acquire: pairs with the release with which the ring moves its places.
  static std::uint32_t place(const volatile std::uint32_t& of_ring) noexcept {
    return __atomic_load_n(&of_ring, __ATOMIC_ACQUIRE);
  }

  const rte_ring* ring_;
  std::uint32_t end_ = 0;
};

}  // namespace ipoib::fabric
