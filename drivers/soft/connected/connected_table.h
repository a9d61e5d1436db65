// SPDX-License-Identifier: BSD-3-Clause
// The connected queue pairs of a port by QPN. The low bits of a QPN are a place in the tables, the
// high bits count the uses of that place: a lookup is one load, and a new connection changes
// nothing for the others. Each worker has a table of its own queue pairs, because it alone knows
// until when it uses one; all share the table of workers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "drivers/soft/connected/soft_connected_queue.h"
#include "lib/base/contract.h"

namespace ipoib::soft {

/// The queue pairs of one worker.
class ConnectedTable {
 public:
  static constexpr unsigned kPlaceBits = 14;
  static constexpr std::uint32_t kCapacity = 1U << kPlaceBits;
  static constexpr std::uint32_t kGenerations = 1U << (24 - kPlaceBits);

  [[nodiscard]] static constexpr std::uint32_t place(std::uint32_t qpn) noexcept {
    return qpn % kCapacity;
  }
  [[nodiscard]] static constexpr std::uint32_t qpn(std::uint32_t place,
                                                   std::uint32_t generation) noexcept {
    return generation % kGenerations << kPlaceBits | place;
  }

  /// Any thread; null: no such queue. The worker may use the queue until it has executed
  /// QueueCommand::Op::kClose.
  [[nodiscard]] SoftConnectedQueue* find(std::uint32_t qpn) const noexcept {
    // Pairs with the release store of set().
    SoftConnectedQueue* const q = queues_[place(qpn)].load(std::memory_order_acquire);
    return q != nullptr && q->qpn() == qpn ? q : nullptr;
  }
  /// Management lcore. Null removes the queue.
  void set(std::uint32_t place, SoftConnectedQueue* queue) noexcept {
    expects_management();
    expects(place < kCapacity, "the place is in the table");
    queues_[place].store(queue, std::memory_order_release);
  }

 private:
  using Queues = std::array<std::atomic<SoftConnectedQueue*>, kCapacity>;
  std::unique_ptr<Queues> owned_ = std::make_unique<Queues>();
  Queues& queues_ = *owned_;
};

/// The worker of the queue pair at each place. A place that is free keeps its last worker.
class ConnectedWorkers {
 public:
  /// Any thread.
  [[nodiscard]] unsigned worker_of(std::uint32_t qpn) const noexcept {
    return workers_[ConnectedTable::place(qpn)].load(std::memory_order_relaxed);
  }
  /// Management lcore.
  void set(std::uint32_t place, unsigned worker) noexcept {
    expects_management();
    expects(place < workers_.size() && worker <= 0xff, "the place is in the table");
    workers_[place].store(static_cast<std::uint8_t>(worker), std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint8_t>, ConnectedTable::kCapacity> workers_{};
};

}  // namespace ipoib::soft
