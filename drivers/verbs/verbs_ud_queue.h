// SPDX-License-Identifier: BSD-3-Clause
// A UD queue of a real HCA. The queue outlives its hardware: the queue pair is destroyed when the
// device goes away, and another one is created when it comes back.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "drivers/verbs/memory.h"
#include "drivers/verbs/ud_hardware.h"
#include "lib/base/clock.h"
#include "lib/base/contract.h"
#include "lib/fabric/hca.h"

namespace ipoib::verbs {

/// Worker lcore: bursts. Management lcore: the rest, except where stated.
class alignas(64) VerbsUdQueue final : public fabric::UdQueue {
 public:
  VerbsUdQueue(PortShared& shared, const fabric::UdQueueConfig& config);

  /// Publishes `hardware` to the worker. The caller must wait a grace period before it destroys the
  /// old one. With null, packets to send are dropped with reason `absent`.
  void publish(UdHardware* hardware, Drop absent = Drop::kIbPortDown) noexcept;
  /// Returns the cause of a failure of the hardware, once.
  [[nodiscard]] std::optional<ibv_wc_status> take_failure() noexcept {
    expects_management();
    if (failure_.load(std::memory_order_relaxed) == IBV_WC_SUCCESS) return std::nullopt;
    return failure_.exchange(IBV_WC_SUCCESS, std::memory_order_acquire);
  }
  /// Any lcore. Flush errors are secondary: another cause replaces them.
  void fail(ibv_wc_status why) noexcept {
    auto expected = IBV_WC_SUCCESS;
    if (!failure_.compare_exchange_strong(expected, why, std::memory_order_release) &&
        expected == IBV_WC_WR_FLUSH_ERR)
      failure_.store(why, std::memory_order_release);
  }
  /// True once after a completion queue has failed, which a restart cannot repair.
  [[nodiscard]] bool take_broken() noexcept {
    expects_management();
    return broken_.load(std::memory_order_relaxed) &&
           broken_.exchange(false, std::memory_order_acquire);
  }
  /// Destroys the hardware, which no worker may use any more.
  void end_hardware();
  void set_qkey(std::uint32_t qkey) noexcept {
    expects_management();
    qkey_.store(qkey, std::memory_order_relaxed);
  }
  /// Any lcore.
  [[nodiscard]] std::uint32_t qkey() const noexcept {
    return qkey_.load(std::memory_order_relaxed);
  }
  /// Any lcore.
  [[nodiscard]] const DropCounters& drops() const noexcept { return drops_; }

  struct Attachment {
    wire::Gid mgid;
    std::uint16_t mlid;
    friend bool operator==(const Attachment&, const Attachment&) = default;
  };

  // Management lcore only.
  const std::uint16_t pkey;
  const unsigned worker;
  std::unique_ptr<UdHardware> hardware;  ///< Null while the device is away.
  std::vector<Attachment> attachments;
  std::uint16_t pkey_index = 0;
  TimePoint next_restart{};  ///< Earliest time of the next restart.
  using UdQueue::set_qpn;

 private:
  static std::uint16_t rx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  static std::uint16_t tx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  std::uint16_t receive(UdHardware& hw, rte_mbuf** pkts, std::uint16_t n) noexcept;
  void idle(UdHardware& hw) noexcept;
  void fill(UdHardware& hw) noexcept;
  std::uint16_t send(UdHardware& hw, rte_mbuf** pkts, std::uint16_t n) noexcept;
  void add(UdHardware& hw, const MemoryMap& map, rte_mbuf* m) noexcept;
  void show_sent(const CaptureView& view, const SendQueue& sends,
                 std::uint64_t from) const noexcept;
  void show_received(const CaptureView& view, const ibv_wc& wc, const rte_mbuf* m) const noexcept;
  void reap(UdHardware& hw) noexcept;
  void report_failure(ibv_wc_status why) noexcept;
  void report_broken() noexcept;
  rte_mbuf* sendable(const UdHardware& hw, rte_mbuf* m) noexcept;
  void lose(rte_mbuf* m, Drop reason) noexcept;

  PortShared& shared_;
  std::atomic<UdHardware*> published_{nullptr};
  std::atomic<Drop> absent_{Drop::kIbPortDown};
  std::atomic<ibv_wc_status> failure_{IBV_WC_SUCCESS};
  std::atomic<bool> broken_{false};
  std::atomic<std::uint32_t> qkey_{0};
  // Worker lcore only.
  DropCounters drops_;
  bool starving_ = false;  ///< No mbufs: received packets are dropped to reuse theirs.
};

}  // namespace ipoib::verbs
