// A UD queue pair of a software HCA: its keys, and the packets sorted to it that its worker has
// not taken yet.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "drivers/soft/frame.h"
#include "lib/fabric/hca.h"

namespace ipoib::soft {

class Datapath;

/// Worker lcore, but set_qkey() and set_pkey().
class alignas(64) SoftUdQueue final : public fabric::UdQueue {
 public:
  /// Packets that wait for rx_burst; more are lost (Drop::kIbNoBuffer).
  static constexpr std::uint32_t kStaged = 256;

  SoftUdQueue(Datapath& datapath, std::uint32_t qpn, std::uint16_t partition);

  /// P_Key it was made for, whether or not the port's table has it now.
  [[nodiscard]] std::uint16_t partition() const noexcept { return partition_; }
  /// As in the port's table; 0, which matches none: not there, or the port is not active.
  [[nodiscard]] std::uint16_t pkey() const noexcept {
    return pkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore. As set_qkey().
  void set_pkey(std::uint16_t pkey) noexcept {
    pkey_.store(pkey, std::memory_order_relaxed);
    usual_.store(usual_word(pkey), std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t qkey() const noexcept {
    return qkey_.load(std::memory_order_relaxed);
  }
  /// Management lcore. Packets in flight are checked against the old or the new key.
  void set_qkey(std::uint32_t qkey) noexcept { qkey_.store(qkey, std::memory_order_relaxed); }

  /// First word of BTH is that of a UD SEND with a P_Key that matches.
  [[nodiscard]] bool is_usual(std::uint32_t op_flags_pkey) const noexcept {
    const std::uint64_t usual = usual_.load(std::memory_order_relaxed);
    return (op_flags_pkey & usual >> 32) == (usual & 0xffff'ffff);
  }

  [[nodiscard]] std::uint32_t next_psn() noexcept { return psn_++; }
  /// For a packet that did not leave.
  void give_back_psn() noexcept { --psn_; }

  /// False, and the packet still the caller's, when there is no room.
  [[nodiscard]] bool push(rte_mbuf* m) noexcept {
    if (tail_ - head_ == kStaged) [[unlikely]]
      return false;
    staged_[tail_++ % kStaged] = m;
    return true;
  }
  [[nodiscard]] std::uint16_t pop(rte_mbuf** pkts, std::uint16_t n) noexcept {
    std::uint16_t i = 0;
    for (; i < n && head_ != tail_; ++i) pkts[i] = staged_[head_++ % kStaged];
    return i;
  }
  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }

 private:
  /// Mask above, value below. Bits: opcode, TVer, P_Key; a full member takes limited ones too.
  static constexpr std::uint64_t usual_word(std::uint16_t pkey) noexcept {
    const std::uint64_t pkey_mask = (pkey & 0x8000) != 0 ? 0x7fff : 0xffff;
    const std::uint64_t value = UdWords::send_only(0, 0, pkey | 0x8000).host();
    if (pkey == 0) return value;  // behind no mask: nothing matches
    return (0xff0f'0000 | pkey_mask) << 32 | (value & (0xff0f'0000 | pkey_mask));
  }
  static std::uint16_t rx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  static std::uint16_t tx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;

  Datapath& datapath_;
  std::uint16_t partition_;
  std::atomic<std::uint16_t> pkey_{0};
  std::atomic<std::uint64_t> usual_{usual_word(0)};
  std::atomic<std::uint32_t> qkey_{0};
  std::uint32_t psn_ = 0;  ///< Low 24 bits count.
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::array<rte_mbuf*, kStaged> staged_;
};

}  // namespace ipoib::soft
