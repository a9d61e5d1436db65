// SPDX-License-Identifier: BSD-3-Clause
// RC and UC queue pairs of a real HCA.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "drivers/verbs/verbs_receive_queue.h"
#include "lib/base/contract.h"
#include "lib/fabric/connected.h"
#include "lib/fabric/grace.h"
#include "lib/fabric/port_shares.h"
#include "lib/fabric/retirement.h"

namespace ipoib::verbs {

/// Largest number of mbufs of a message that connected queues of the device send without a copy.
[[nodiscard]] std::uint16_t max_send_segments(const Device& device);

/// Worker lcore: tx_burst. Management lcore: the rest, except where stated.
class alignas(64) VerbsConnectedQueue final : public fabric::ConnectedQueue {
 public:
  /// Creates a queue pair in INIT and adds it to `receive_queue`, which must have hardware.
  [[nodiscard]] static Result<std::unique_ptr<VerbsConnectedQueue>> create(
      Device& device, PortShared& shared, std::uint8_t port, std::uint16_t pkey_index,
      const fabric::ConnectedQueueConfig& config);
  /// No worker may refer to it. Pending packets are freed and counted.
  ~VerbsConnectedQueue();

  Status set_ready_to_receive(const PortTables& tables, const fabric::ReadyToReceive& attr);
  Status set_ready_to_send(const fabric::ReadyToSend& attr);
  /// The device must have automatic path migration.
  Status load_alternate(const PortTables& tables, const fabric::AlternatePath& alternate);
  /// The device has migrated the queue pair. Returns the path that it uses now; empty: no alternate
  /// path was loaded.
  std::optional<fabric::AhAttr> migrated(const fabric::Grace& grace);
  /// True if the queue pair would exceed the rate of its path through a port with this rate code.
  [[nodiscard]] bool exceeds(std::uint8_t port_rate) const;
  /// Ends sending, on request of this side (kClosed) or after an error of the device. Only the
  /// first call has an effect. Any lcore.
  void set_error(fabric::QueueError error) noexcept;
  /// set_error() by this side, which also ends receiving, even if the queue had failed before.
  void end(fabric::QueueError error) noexcept;
  /// Destroys the queue pair of a lost device; no worker may use it.
  void forget_device();
  [[nodiscard]] fabric::ConnectedQueueInfo info() const;
  [[nodiscard]] fabric::QueueError error() const noexcept {
    return error_.load(std::memory_order_relaxed);
  }

  /// Worker lcore. Handles the completion of a send; false if it is not this queue's.
  bool complete(const ibv_wc& wc, ReceiveHardware& hw, DropCounters& drops) noexcept;
  /// Worker lcore. Copies a received message to a capture.
  void show_received(const CaptureView& view, const ibv_wc& wc, const rte_mbuf* m) noexcept;
  /// Worker lcore.
  void count_received(std::uint32_t octets) noexcept {
    expects_worker();
    counters_.rx_messages.add(1);
    counters_.rx_octets.add(octets);
  }

  VerbsReceiveQueue& receive_queue;
  const std::uint16_t pkey;
  const std::uint16_t pkey_index;  ///< Index of `pkey` in the port's table at the creation.
  bool reported = false;           ///< The failure has been reported.

 private:
  VerbsConnectedQueue(QueuePair pair, PortShared& shared, std::uint32_t tag, std::uint16_t index,
                      const fabric::ConnectedQueueConfig& config);
  static std::uint16_t tx(fabric::ConnectedQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  std::uint16_t send(ReceiveHardware& hw, rte_mbuf** pkts, std::uint16_t n) noexcept;
  rte_mbuf* sendable(rte_mbuf* m, std::uint32_t room, std::uint32_t added) noexcept;
  std::uint32_t count_held(std::uint64_t from) noexcept;
  std::uint32_t count_released() noexcept;
  [[nodiscard]] bool add(const MemoryMap& map, rte_mbuf* m) noexcept;
  void lose(rte_mbuf* m, Drop reason) noexcept;
  void show_sent(const CaptureView& view, std::uint64_t from) noexcept;
  /// A path as the queue pair has it.
  struct KnownPath {
    fabric::AhAttr attr;
    std::uint8_t static_rate;
  };
  using KnownPathPtr = std::unique_ptr<const KnownPath>;
  [[nodiscard]] std::size_t find_migrated() const;

  PortShared& shared_;
  QpPtr qp_;
  SendQueue send_;
  fabric::ConnectedCounters counters_;
  std::atomic<fabric::QueueState> state_{fabric::QueueState::kInit};
  std::atomic<fabric::QueueError> error_{fabric::QueueError::kNone};
  std::atomic<std::uint32_t> max_message_{0};
  std::uint32_t peer_qpn_ = 0;
  // Set before the queue pair can receive.
  /// Path in use. Captures show it.
  std::atomic<const fabric::AhAttr*> path_{nullptr};
  KnownPathPtr in_use_;  ///< The owner of path_.
  /// Alternate paths, the one loaded last at the end. The device may have migrated to the one before
  /// it, and the event is still to be read.
  std::vector<KnownPathPtr> loaded_;
  fabric::Retired<KnownPathPtr> old_paths_;
  std::uint32_t mtu_ = 0;  ///< MTU of the path, octets.
  // Worker lcore only: mbufs of posted messages. Totals count modulo 2^32.
  std::uint32_t posted_mbufs_ = 0;
  std::uint32_t released_mbufs_ = 0;
  std::unique_ptr<std::uint32_t[]> mbufs_;         ///< `posted_mbufs_` after the message, by place.
  std::shared_ptr<fabric::PortShare> port_share_;  ///< Set before the queue pair can send.
  // Worker lcore only: numbers of captured packets, in place of their PSNs.
  std::uint32_t captured_tx_ = 0;
  std::uint32_t captured_rx_ = 0;
};

}  // namespace ipoib::verbs
