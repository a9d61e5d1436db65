// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/worker_rings.h"

#include <bit>

#include "lib/fabric/ring_ptr.h"

namespace ipoib::soft {

Result<std::unique_ptr<WorkerRings>> WorkerRings::create(unsigned workers, unsigned places,
                                                         int socket) {
  if (workers == 0 || workers > kMaxWorkers)
    return fail(Errc::kInvalidArgument, "queue pairs of {} workers, allowed: 1-{}", workers,
                kMaxWorkers);
  const auto octets = static_cast<std::size_t>(rte_ring_get_memsize(places));
  std::unique_ptr<std::byte, RteFree> memory{static_cast<std::byte*>(
      rte_zmalloc_socket("worker_rings", octets * workers * workers, alignof(rte_ring), socket))};
  if (memory == nullptr)
    return fail(Errc::kNoResources, "no memory for the rings between {} workers", workers);
  std::unique_ptr<WorkerRings> rings{new WorkerRings{workers, octets, std::move(memory)}};
  for (unsigned from = 0; from < workers; ++from)
    for (unsigned to = 0; to < workers; ++to)
      if (rte_ring_init(rings->ring(from, to), "worker_ring", places,
                        RING_F_SP_ENQ | RING_F_SC_DEQ) != 0)
        return fail(Errc::kNoResources, "cannot make the rings between {} workers", workers);
  return rings;
}

WorkerRings::~WorkerRings() {
  for (unsigned from = 0; from < workers_; ++from)
    for (unsigned to = 0; to < workers_; ++to) fabric::free_mbufs_in(*ring(from, to));
}

std::size_t WorkerRings::take_waiting(unsigned to, std::span<rte_mbuf*> frames) noexcept {
  Arrivals& a = arrivals_[to];
  a.waiting |= a.from.exchange(0, std::memory_order_acquire);
  std::size_t n = 0;
  while (a.waiting != 0 && n < frames.size()) {
    const std::uint64_t in_turn = a.waiting >> a.next << a.next;
    const auto from = static_cast<unsigned>(std::countr_zero(in_turn != 0 ? in_turn : a.waiting));
    const auto room = static_cast<unsigned>(frames.size() - n);
    const unsigned taken = rte_ring_sc_dequeue_burst(
        ring(from, to), reinterpret_cast<void**>(frames.data() + n), room, nullptr);
    n += taken;
    if (taken < room) a.waiting &= ~(std::uint64_t{1} << from);
    a.next = (from + 1) % kMaxWorkers;
  }
  return n;
}

}  // namespace ipoib::soft
