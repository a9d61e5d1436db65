// SPDX-License-Identifier: BSD-3-Clause
// Doorbell by which polling lcores wake a thread that sleeps on descriptors, without a system call
// while it is awake.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace ipoib {

/// One sleeper, any number of ringers. The data itself is in rings outside of this struct.
///
/// The sleeper calls arm(), checks every ring again, sleeps on the descriptor only if all rings are
/// empty, then calls disarm(). A ringer pushes, then calls ring(). Each side stores, passes a
/// sequentially consistent fence and only then loads the other side's store. The side whose fence
/// is second sees the other side's store, so the sleeper never sleeps while a ring has an entry.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> waiting{0};
  int eventfd = -1;  ///< Set, and closed, by the sleeper.

  void arm() noexcept {
    waiting.store(1, std::memory_order_relaxed);
    // Pairs with the fence of ring().
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void disarm() noexcept { waiting.store(0, std::memory_order_relaxed); }

  /// Costs a fence if the sleeper is awake, and a system call if it sleeps.
  void ring() noexcept {
    // Pairs with the fence of arm(): either the sleeper sees the pushed entry, or this load sees
    // the sleeper's store.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (waiting.load(std::memory_order_relaxed) == 0) return;
    // Only one of the ringers that see it set writes; the sleeper sets it before its next sleep.
    if (waiting.exchange(0, std::memory_order_relaxed) == 0) return;
    // write() fails only if the counter is at its maximum; then the descriptor is readable anyway.
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(eventfd, &one, sizeof(one));
  }
};

}  // namespace ipoib
