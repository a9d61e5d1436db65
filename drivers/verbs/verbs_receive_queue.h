// SPDX-License-Identifier: BSD-3-Clause
// The shared receive queue of a real HCA, and the completion queues that all connected queues of a
// worker and link share.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "drivers/verbs/ud_hardware.h"
#include "lib/base/contract.h"
#include "lib/fabric/connected.h"
#include "lib/fabric/port_shares.h"

namespace ipoib::verbs {

class VerbsConnectedQueue;

/// Queue pairs by QPN. Management lcore, except find().
class QpnTable {
 public:
  [[nodiscard]] VerbsConnectedQueue* find(std::uint32_t qpn) const noexcept {
    const Page* const page = pages_[qpn >> kBits & kMask].load(std::memory_order_acquire);
    return page != nullptr ? (*page)[qpn & kMask].load(std::memory_order_acquire) : nullptr;
  }
  /// A null `queue` removes the entry.
  void set(std::uint32_t qpn, VerbsConnectedQueue* queue);

 private:
  static constexpr unsigned kBits = 12;
  static constexpr std::uint32_t kMask = (1U << kBits) - 1;
  using Page = std::array<std::atomic<VerbsConnectedQueue*>, kMask + 1>;
  std::array<std::atomic<Page*>, kMask + 1> pages_{};
  std::vector<std::unique_ptr<Page>> owned_;
};

/// A shared receive queue, and the completion queues of all queue pairs that use it.
struct ReceiveHardware {
  /// kRefused: the device has no shared receive queue; kInvalidArgument: one buffer would take more
  /// mbufs than the device can fill.
  [[nodiscard]] static Result<std::unique_ptr<ReceiveHardware>> create(
      Device& device, const PortShared& shared, const fabric::ReceiveQueueConfig& config);

  // The SRQ is destroyed first: until then the device may write into the ring's buffers.
  std::unique_ptr<ReceiveRing> receive;
  CqPtr send_cq;
  CqPtr receive_cq;
  SrqPtr srq;
  // The worker counts them.
  std::uint32_t send_room = 0;  ///< Free entries of `send_cq`.
  std::uint32_t mbuf_room = 0;  ///< Mbufs that messages to send may still take.
};

/// Worker lcore: rx_burst. Management lcore: the rest, except where stated.
class alignas(64) VerbsReceiveQueue final : public fabric::ReceiveQueue {
 public:
  VerbsReceiveQueue(PortShared& shared, const fabric::ReceiveQueueConfig& config);
  ~VerbsReceiveQueue();

  /// Publishes `hw` to the worker. The caller must wait a grace period before it destroys the old
  /// one.
  void publish(ReceiveHardware* hw) noexcept {
    expects_management();
    given_back_.store(0, std::memory_order_relaxed);
    published_.store(hw, std::memory_order_release);
  }
  /// Any lcore.
  [[nodiscard]] ReceiveHardware* published() const noexcept {
    return published_.load(std::memory_order_acquire);
  }
  /// True if one of its connected queues has failed since the last call.
  [[nodiscard]] bool take_failure() noexcept {
    expects_management();
    return failure_.load(std::memory_order_relaxed) &&
           failure_.exchange(false, std::memory_order_acquire);
  }
  [[nodiscard]] bool failure_pending() const noexcept {
    return failure_.load(std::memory_order_relaxed);
  }
  /// True once after a completion queue or the SRQ has failed: the whole queue is unusable.
  [[nodiscard]] bool take_broken() noexcept {
    expects_management();
    return broken_.load(std::memory_order_relaxed) &&
           broken_.exchange(false, std::memory_order_acquire);
  }
  /// Number of times that the worker has emptied the receive completion queue.
  [[nodiscard]] std::uint64_t emptied() const noexcept {
    return emptied_.load(std::memory_order_acquire);
  }
  /// Returns the entries of the send completion queue, and the mbufs, that a destroyed queue had in
  /// use.
  void give_back(std::uint32_t entries, std::uint32_t mbufs) noexcept {
    given_back_.fetch_add(std::uint64_t{mbufs} << 32 | entries, std::memory_order_relaxed);
  }

  /// Worker lcore. Takes the completions of sends, to make room for more.
  void reap(ReceiveHardware& hw) noexcept;
  /// Any lcore.
  void report_failure() noexcept;
  /// Worker lcore.
  void report_broken() noexcept;

  const fabric::ReceiveQueueConfig config;
  DropCounters drops;  ///< Also those of its connected queues. Writer: the worker.
  std::unique_ptr<ReceiveHardware> hardware;  ///< Null while the device is away.
  QpnTable queues;
  fabric::PortShares port_shares;
  /// A destroyed queue whose queue pair still exists. Its received messages hold buffers of the
  /// shared receive queue until their completions are polled, and providers discard these
  /// completions with the queue pair.
  struct Closing {
    std::unique_ptr<VerbsConnectedQueue> queue;
    std::uint64_t grace;
    std::optional<std::uint64_t> emptied;  ///< Value at the end of the grace period.
  };
  std::deque<Closing> closing;

 private:
  static std::uint16_t rx(fabric::ReceiveQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  std::uint16_t receive(ReceiveHardware& hw, rte_mbuf** pkts, std::uint16_t n) noexcept;
  rte_mbuf* take(ReceiveHardware& hw, const ibv_wc& wc, const CaptureView* view) noexcept;
  void fill(ReceiveHardware& hw) noexcept;
  void reclaim_destroyed(ReceiveHardware& hw) noexcept;

  PortShared& shared_;
  std::atomic<ReceiveHardware*> published_{nullptr};
  std::atomic<bool> failure_{false};
  std::atomic<bool> broken_{false};
  std::atomic<std::uint64_t> given_back_{0};  ///< Mbufs, and entries in the lower half.
  std::atomic<std::uint64_t> emptied_{0};
  bool starving_ = false;
};

}  // namespace ipoib::verbs
