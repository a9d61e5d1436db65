// SPDX-License-Identifier: BSD-3-Clause
// A UD queue pair of a software HCA: its keys, and the packets sorted to it that its worker has
// not taken yet.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "drivers/soft/frame.h"
#include "lib/base/contract.h"
#include "lib/fabric/hca.h"

namespace ipoib::soft {

class Datapath;

/// Worker lcore, but what is said to be otherwise.
class alignas(64) SoftUdQueue final : public fabric::UdQueue {
 public:
  /// Packets that wait for rx_burst; more are lost (Drop::kIbNoBuffer).
  static constexpr std::uint32_t kStaged = 256;

  SoftUdQueue(Datapath& datapath, std::uint32_t qpn, std::uint16_t partition);

  /// Any thread: P_Key it was made for, whether or not the port's table has it now.
  [[nodiscard]] std::uint16_t partition() const noexcept { return partition_; }
  /// Any thread: as in the port's table; 0, which matches none: not there, or the port is not
  /// active.
  [[nodiscard]] std::uint16_t pkey() const noexcept {
    return pkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore. As set_qkey().
  void set_pkey(std::uint16_t pkey) noexcept {
    expects_management();
    pkey_.store(pkey, std::memory_order_relaxed);
  }
  /// Any thread.
  [[nodiscard]] std::uint32_t qkey() const noexcept {
    return qkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore. Packets in flight are checked against the old or the new key.
  void set_qkey(std::uint32_t qkey) noexcept {
    expects_management();
    qkey_.store(qkey, std::memory_order_relaxed);
  }

  /// A packet was taken and is not sent.
  void count_lost(std::uint32_t len) noexcept {
    expects_worker();
    tx_lost_.add(len);
  }
  [[nodiscard]] std::uint32_t next_psn() noexcept {
    expects_worker();
    return psn_++;
  }
  /// For a packet that did not leave.
  void give_back_psn() noexcept { --psn_; }

  /// How many of the packets there was room for, from the front; the others stay the caller's.
  [[nodiscard]] std::size_t push(std::span<rte_mbuf* const> pkts) noexcept {
    expects_worker();
    if (empty()) head_ = tail_ = 0;  // where the cache has it already
    const std::size_t n = std::min<std::size_t>(pkts.size(), kStaged - (tail_ - head_));
    const std::size_t at = tail_ % kStaged;
    const std::size_t first = std::min(n, kStaged - at);
    std::copy_n(pkts.data(), first, &staged_[at]);
    std::copy_n(pkts.data() + first, n - first, staged_.data());
    tail_ += static_cast<std::uint32_t>(n);
    return n;
  }
  /// Management lcore too, of a queue that no worker uses any more.
  [[nodiscard]] std::uint16_t pop(rte_mbuf** pkts, std::uint16_t most) noexcept {
    const std::size_t n = std::min<std::size_t>(most, tail_ - head_);
    const std::size_t at = head_ % kStaged;
    const std::size_t first = std::min(n, kStaged - at);
    std::copy_n(&staged_[at], first, pkts);
    std::copy_n(staged_.data(), n - first, pkts + first);
    head_ += static_cast<std::uint32_t>(n);
    return static_cast<std::uint16_t>(n);
  }
  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }

 private:
  static std::uint16_t rx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  static std::uint16_t tx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;

  Datapath& datapath_;
  std::uint16_t partition_;
  std::atomic<std::uint16_t> pkey_{0};
  std::atomic<std::uint32_t> qkey_{0};
  std::uint32_t psn_ = 0;  ///< Low 24 bits count.
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::array<rte_mbuf*, kStaged> staged_;
};

}  // namespace ipoib::soft
