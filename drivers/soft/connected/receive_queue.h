// SPDX-License-Identifier: BSD-3-Clause
// The shared receive queue of a software HCA: complete messages of connected queue pairs that the
// worker has not taken yet, and the number of free buffers for more.
#pragma once

#include <rte_mbuf.h>

#include <bit>
#include <cstdint>
#include <memory>

#include "lib/base/contract.h"
#include "lib/fabric/connected.h"

namespace ipoib::soft {

class ConnectedPort;

/// Worker lcore, except the constructor, the destructor, port(), max_message() and `users`. The
/// management lcore may call give_back_buffer() when no worker uses the HCA any more.
class alignas(64) SoftReceiveQueue final : public fabric::ReceiveQueue {
 public:
  SoftReceiveQueue(ConnectedPort& port, const fabric::ReceiveQueueConfig& config)
      : ReceiveQueue{&SoftReceiveQueue::rx},
        port_{port},
        max_message_{config.max_message},
        free_{config.depth},
        mask_{std::bit_ceil(config.depth) - 1},
        whole_{std::make_unique<rte_mbuf*[]>(mask_ + 1)} {}
  ~SoftReceiveQueue() {
    while (!empty()) rte_pktmbuf_free(whole_[head_++ & mask_]);
  }

  [[nodiscard]] ConnectedPort& port() const noexcept { return port_; }
  [[nodiscard]] std::uint32_t max_message() const noexcept { return max_message_; }

  [[nodiscard]] bool has_buffer() const noexcept { return free_ != 0; }
  /// Takes the buffer of one message. Shape: has_buffer().
  void take_buffer() noexcept {
    expects_worker();
    expects(has_buffer(), "a buffer is left");
    --free_;
  }
  /// Returns the buffer of a message that was never completed.
  void give_back_buffer() noexcept {
    expects(free_ + (tail_ - head_) <= mask_, "a buffer was taken");
    ++free_;
  }
  /// Enqueues a message for which a buffer was taken.
  void push(rte_mbuf* message) noexcept {
    expects_worker();
    expects(free_ + (tail_ - head_) <= mask_, "a buffer was taken");
    whole_[tail_++ & mask_] = message;
  }
  [[nodiscard]] std::uint16_t pop(rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_worker();
    std::uint16_t i = 0;
    for (; i < n && head_ != tail_; ++i) pkts[i] = whole_[head_++ & mask_];
    free_ += i;
    return i;
  }
  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }

  /// Number of attached connected queues. Management lcore.
  unsigned users = 0;

 private:
  static std::uint16_t rx(fabric::ReceiveQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;

  ConnectedPort& port_;
  std::uint32_t max_message_;
  std::uint32_t free_;
  std::uint32_t mask_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::unique_ptr<rte_mbuf*[]> whole_;
};

}  // namespace ipoib::soft
