// SPDX-License-Identifier: BSD-3-Clause
// How polling lcores wake a thread that sleeps on descriptors, without a system call while it is
// awake.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace ipoib {

/// One sleeper, any number of ringers. What they hand over lies elsewhere, in rings.
///
/// Sleeper, before it sleeps: arm(), look at every ring once more, and only when all are empty
/// sleep on the descriptor; then disarm(). Ringer: push, then ring(). Each side stores, passes a
/// sequentially consistent fence and only then loads what the other side stores. Whichever fence
/// comes second sees the other side's store, so nothing that was pushed is slept on.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> waiting{0};
  int eventfd = -1;  ///< Set, and closed, by the sleeper.

  void arm() noexcept {
    waiting.store(1, std::memory_order_relaxed);
    // Pairs with the fence of ring().
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void disarm() noexcept { waiting.store(0, std::memory_order_relaxed); }

  /// Costs a fence when the sleeper is awake, a system call when it is not.
  void ring() noexcept {
    // Pairs with the fence of arm(): either the sleeper sees what was pushed, or its store is seen
    // here.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (waiting.load(std::memory_order_relaxed) == 0) return;
    // One ringer of all that see it writes; the sleeper sets it again before its next sleep.
    if (waiting.exchange(0, std::memory_order_relaxed) == 0) return;
    // Cannot fail but with the counter at its maximum, and then the descriptor is readable anyway.
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(eventfd, &one, sizeof(one));
  }
};

}  // namespace ipoib
