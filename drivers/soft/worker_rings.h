// SPDX-License-Identifier: BSD-3-Clause
// Rings by which the workers of a port pass frames to each other: from each worker to each other
// one, with one producer and one consumer.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/rte_free.h"

namespace ipoib::soft {

class WorkerRings {
 public:
  static constexpr unsigned kMaxWorkers = 64;

  /// `places`: of a ring, a power of two. One of them stays free. `socket`: NUMA node.
  /// kInvalidArgument: more than kMaxWorkers; kNoResources: no memory.
  static Result<std::unique_ptr<WorkerRings>> create(unsigned workers, unsigned places, int socket);
  /// No worker may use the rings any more. Frees the frames in them.
  ~WorkerRings();
  WorkerRings(const WorkerRings&) = delete;
  WorkerRings& operator=(const WorkerRings&) = delete;

  [[nodiscard]] unsigned workers() const noexcept { return workers_; }

  /// Worker `from`. Returns how many frames fit, from the front; the caller keeps the others.
  [[nodiscard]] std::size_t pass(unsigned from, unsigned to,
                                 std::span<rte_mbuf* const> frames) noexcept {
    const unsigned n =
        rte_ring_sp_enqueue_burst(ring(from, to), reinterpret_cast<void* const*>(frames.data()),
                                  static_cast<unsigned>(frames.size()), nullptr);
    // Release: the worker that sees the bit finds the frames.
    if (n != 0) arrivals_[to].from.fetch_or(std::uint64_t{1} << from, std::memory_order_release);
    return n;
  }
  /// Worker `to`: takes frames, those of each worker in order. Does not look into rings to which no
  /// frame came.
  [[nodiscard]] std::size_t take(unsigned to, std::span<rte_mbuf*> frames) noexcept {
    Arrivals& a = arrivals_[to];
    if ((a.waiting | a.from.load(std::memory_order_relaxed)) == 0) [[likely]]
      return 0;
    return take_waiting(to, frames);
  }

 private:
  struct alignas(64) Arrivals {
    std::atomic<std::uint64_t> from{0};  ///< Bit of each worker that has passed frames.
    // The worker's own.
    alignas(64) std::uint64_t waiting = 0;  ///< Bits of workers whose frames wait.
    unsigned next = 0;                      ///< The worker whose frames are first in turn.
  };

  WorkerRings(unsigned workers, std::size_t ring_octets, std::unique_ptr<std::byte, RteFree> memory)
      : workers_{workers},
        ring_octets_{ring_octets},
        memory_{std::move(memory)},
        arrivals_(workers) {}
  std::size_t take_waiting(unsigned to, std::span<rte_mbuf*> frames) noexcept;
  [[nodiscard]] rte_ring* ring(unsigned from, unsigned to) const noexcept {
    return reinterpret_cast<rte_ring*>(memory_.get() + (to * workers_ + from) * ring_octets_);
  }

  unsigned workers_;
  std::size_t ring_octets_;
  std::unique_ptr<std::byte, RteFree> memory_;
  std::vector<Arrivals> arrivals_;  ///< Indexed by the worker that takes.
};

}  // namespace ipoib::soft
