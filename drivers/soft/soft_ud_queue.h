// SPDX-License-Identifier: BSD-3-Clause
// A UD queue pair of a software HCA: its keys, and the delivered packets that its worker has not
// taken yet. All of it is one worker's.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "drivers/soft/soft_frame.h"
#include "lib/base/contract.h"
#include "lib/fabric/hca.h"

namespace ipoib::soft {

class UdDatapath;

/// Worker lcore, except where a comment says otherwise.
class alignas(64) SoftUdQueue final : public fabric::UdQueue {
 public:
  /// Capacity for packets that wait for rx_burst; more are dropped (Drop::kIbNoBuffer).
  static constexpr std::uint32_t kRxRingSize = 256;

  /// `datapath`: that of its worker.
  SoftUdQueue(UdDatapath& datapath, std::uint32_t qpn, const fabric::UdQueueConfig& config);

  /// Any thread: the P_Key given at creation, even if the port's table lacks it now.
  [[nodiscard]] std::uint16_t partition() const noexcept { return partition_; }
  /// Any thread: the P_Key as the port's table has it. 0, which matches none: the table does not
  /// have it, or the port is not active.
  [[nodiscard]] std::uint16_t pkey() const noexcept {
    return pkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore. Packets in flight are checked against the old or the new P_Key.
  void set_pkey(std::uint16_t pkey) noexcept {
    expects_management();
    pkey_.store(pkey, std::memory_order_relaxed);
  }
  /// Any thread.
  [[nodiscard]] std::uint32_t qkey() const noexcept {
    return qkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore. Packets in flight are checked against the old or the new Q_Key.
  void set_qkey(std::uint32_t qkey) noexcept {
    expects_management();
    qkey_.store(qkey, std::memory_order_relaxed);
  }

  /// Counts a packet that was accepted but is not sent.
  void count_lost(std::uint32_t len) noexcept {
    expects_worker();
    tx_lost_.add(len);
  }
  [[nodiscard]] std::uint32_t next_psn() noexcept {
    expects_worker();
    return psn_++;
  }
  /// For the worker that writes whole frames.
  [[nodiscard]] std::uint32_t& psn() noexcept {
    expects_worker();
    return psn_;
  }
  /// Returns the PSN of a packet that was not sent.
  void give_back_psn() noexcept { --psn_; }

  /// Returns how many packets it took, from the front; the caller keeps the others.
  [[nodiscard]] std::size_t push(std::span<rte_mbuf* const> pkts) noexcept {
    expects_worker();
    if (empty()) head_ = tail_ = 0;  // slots that are in the cache already
    const std::size_t n = std::min<std::size_t>(pkts.size(), kRxRingSize - (tail_ - head_));
    const std::size_t at = tail_ % kRxRingSize;
    const std::size_t first = std::min(n, kRxRingSize - at);
    std::copy_n(pkts.data(), first, &rx_ring_[at]);
    std::copy_n(pkts.data() + first, n - first, rx_ring_.data());
    tail_ += static_cast<std::uint32_t>(n);
    return n;
  }
  /// The management lcore may also call it, for a queue that no worker uses any more.
  [[nodiscard]] std::uint16_t pop(rte_mbuf** pkts, std::uint16_t max) noexcept {
    const std::size_t n = std::min<std::size_t>(max, tail_ - head_);
    const std::size_t at = head_ % kRxRingSize;
    const std::size_t first = std::min(n, kRxRingSize - at);
    std::copy_n(&rx_ring_[at], first, pkts);
    std::copy_n(rx_ring_.data(), n - first, pkts + first);
    head_ += static_cast<std::uint32_t>(n);
    return static_cast<std::uint16_t>(n);
  }
  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  /// The first queue of its link.
  [[nodiscard]] const fabric::UdQueue& first() const noexcept {
    return first_ != nullptr ? *first_ : *this;
  }
  /// True if multicast of this queue need not return to `other`, because both are of one link.
  [[nodiscard]] bool spares(const SoftUdQueue& other) const noexcept {
    return &other.first() == &first();
  }
  /// Any thread: UdDatapathConfig::worker of its worker.
  [[nodiscard]] unsigned worker() const noexcept { return worker_; }

 private:
  static const fabric::UdFrames kFrames;
  static std::uint16_t rx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  static std::uint16_t tx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  static bool frame_keys(fabric::UdQueue& queue, fabric::FrameKeys& keys) noexcept;
  static bool frame_head(const fabric::UdQueue& queue, fabric::AhIndex ah,
                         fabric::FrameHead& head) noexcept;
  static std::uint16_t tx_frames(fabric::UdQueue& queue, rte_mbuf** frames,
                                 std::uint16_t n) noexcept;
  static const std::atomic<std::uint32_t>& heads_version(const fabric::UdQueue& queue) noexcept;

  UdDatapath& datapath_;
  std::uint16_t partition_;
  std::uint16_t worker_;
  const fabric::UdQueue* first_;  ///< The link's first queue; null: this one.
  std::atomic<std::uint16_t> pkey_{0};
  std::atomic<std::uint32_t> qkey_{0};
  std::uint32_t psn_ = 0;  ///< Only the low 24 bits are used.
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::array<rte_mbuf*, kRxRingSize> rx_ring_;
};

}  // namespace ipoib::soft
