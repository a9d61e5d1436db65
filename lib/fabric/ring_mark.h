// SPDX-License-Identifier: BSD-3-Clause
// A place in a ring, to learn when all elements before it have been taken.
#pragma once

#include <rte_ring.h>

#include <cstdint>

namespace ipoib::fabric {

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
