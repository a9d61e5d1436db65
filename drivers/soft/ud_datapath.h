// SPDX-License-Identifier: BSD-3-Clause
// Worker side of a software HCA, one for each worker with queue pairs. It reads the cable if its
// worker is one of those that do, passes frames for the queue pairs of other workers to these, and
// checks the others and sorts them to queue pairs (ud_rx.cc). It turns packets of its worker's queue
// pairs into frames, and sends them by a transmit queue of its own (ud_tx.cc).
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "drivers/soft/ah_table.h"
#include "drivers/soft/capture_copy.h"
#include "drivers/soft/mad_share.h"
#include "drivers/soft/rx_table.h"
#include "drivers/soft/soft_ud_queue.h"
#include "drivers/soft/worker_rings.h"
#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/base/doorbell.h"

namespace ipoib::soft {

class ConnectedPort;
struct RxFrame;  // ud_rx.cc
struct UdFastRun;
struct TxExceptions;  // ud_tx.cc
struct TxPath;        // ud_tx.cc

/// Results of an ethdev's receive offloads, which do not hold for the packet inside the frame.
inline constexpr std::uint64_t kRxOffloadFlags =
    RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_RX_RSS_HASH;

struct UdDatapathConfig {
  std::uint16_t port_id = 0;  ///< Ethdev.
  /// Number of the worker among those with queue pairs, and of its transmit queue. Number 0 has QP1.
  std::uint16_t worker = 0;
  std::vector<std::uint16_t> rx_queues;  ///< Receive queues that this worker reads.
  bool icrc = true;                      ///< False: sent as zero, not checked.
  std::uint32_t mtu = 0;                 ///< Largest UD payload, octets.
  rte_mempool* pool = nullptr;           ///< For copies of packets and frames of connected queues.
  rte_mempool* control_pool = nullptr;   ///< For frames without payload when `pool` is empty.
  rte_mempool* share_pool = nullptr;     ///< See SoftHcaConfig; null: none.
  const AhTable* ahs = nullptr;
  std::uint64_t (*tsc)() noexcept = nullptr;  ///< Clock of path rates and connected queues.
  std::uint64_t rate_burst_tsc = 0;           ///< RateBucket::kBurstMs on that clock.
  /// Whole frames to send; the worker is the only consumer. Null: this is not worker 0.
  rte_ring* mads_out = nullptr;
  /// Checked frames for QP0 and QP1; the worker is the only producer. Null: they are not on this
  /// datapath.
  rte_ring* mads_in = nullptr;
  MadShare* mad_share = nullptr;  ///< The places of mads_in; not null if that is not.
  Doorbell* doorbell = nullptr;   ///< Rung for MADs and queue events; null: management polls.
  WorkerRings* rings = nullptr;   ///< To and from the other workers; null: there are none.
};

/// Worker lcore only, the same one for its lifetime, except publish(), set_tap() and stop_ethdev()
/// (management lcore), config(), table() and the counters. The management lcore may also call
/// count_drop() for a queue that no worker uses any more.
///
/// Every frame read from the cable, and every packet that a queue pair sends to its own port, is
/// passed to a queue pair, to another worker or to mads_in, or freed and counted under one Drop.
class alignas(64) UdDatapath {
 public:
  static constexpr std::uint16_t kBurst = 64;

  explicit UdDatapath(UdDatapathConfig config);
  ~UdDatapath();
  UdDatapath(const UdDatapath&) = delete;
  UdDatapath& operator=(const UdDatapath&) = delete;

  /// Sends waiting MADs, sorts up to kBurst frames that other workers have passed on and up to `burst`
  /// frames from the cable, and polls the worker's connected queue pairs. Returns the number of frames.
  std::uint32_t poll(std::uint16_t burst) noexcept;

  std::uint16_t rx_burst(SoftUdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_own_worker();
    const std::uint16_t nb_rx = queue.pop(pkts, n);
    if (!queue.empty()) hold_reads();
    return nb_rx;
  }
  std::uint16_t tx_burst(SoftUdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  // fabric::UdFrames.
  [[nodiscard]] bool frame_keys(SoftUdQueue& queue, fabric::FrameKeys& keys) const noexcept;
  [[nodiscard]] bool frame_head(fabric::AhIndex ah, fabric::FrameHead& head) const noexcept;
  std::uint16_t tx_frames(std::span<rte_mbuf*> frames) noexcept;

  /// Drops the packets delivered to a queue pair of this worker that is being destroyed.
  void drain(SoftUdQueue& queue) noexcept;

  /// Management lcore: the worker uses this table from now on, and copies frames to this tap (null:
  /// no capture). It may use the old ones until the grace period is over.
  void publish(const RxTable* table) noexcept {
    expects_management();
    table_.store(table, std::memory_order_release);
  }
  void set_tap(const CaptureTap* tap) noexcept {
    expects_management();
    tap_.store(tap, std::memory_order_release);
  }
  /// Management lcore: the worker stops using the ethdev, at the latest after a grace period.
  void stop_ethdev() noexcept {
    expects_management();
    ethdev_removed_.store(true, std::memory_order_relaxed);
  }
  /// Management lcore. Called once; `connected` must live as long as the worker runs.
  void publish(ConnectedPort* connected) noexcept {
    expects_management();
    connected_.store(connected, std::memory_order_release);
  }

  [[nodiscard]] const UdDatapathConfig& config() const noexcept { return config_; }

  // For connected queue pairs.
  [[nodiscard]] const RxTable& table() const noexcept {
    return *table_.load(std::memory_order_acquire);
  }
  void count_drop(Drop reason, std::uint64_t n = 1) noexcept { drops_.add(reason, n); }
  void count_copy() noexcept { tx_copies_.add(1); }
  [[nodiscard]] bool ethdev_removed() const noexcept {
    return ethdev_removed_.load(std::memory_order_relaxed);
  }
  /// Skips the next read of the cable and of the rings, so that frames wait there while a queue still
  /// has packets.
  void hold_reads() noexcept {
    expects_own_worker();
    hold_reads_ = true;
  }
  /// Sends whole frames and returns how many the ethdev accepted, from the front.
  std::uint16_t transmit(std::span<rte_mbuf*> frames) noexcept;
  /// Receives whole frames that queues of this port sent to it, and takes their ownership.
  void receive_own(std::span<rte_mbuf* const> frames) noexcept;

  [[nodiscard]] const DropCounters& drops() const noexcept { return drops_; }
  /// Frames that a capture missed because its ring was full or its mempool empty.
  [[nodiscard]] const Counter& capture_lost() const noexcept { return capture_lost_; }
  /// Packets copied to be sent: shared, segmented, or without room for the headers. Those of
  /// connections count if the frame could share their buffer otherwise.
  [[nodiscard]] const Counter& tx_copies() const noexcept { return tx_copies_; }

 private:
  [[gnu::always_inline]] void expects_own_worker() const noexcept {
    expects_worker();
    worker_.expects_owner();
  }

  static constexpr std::size_t kRxPrefetchAhead = 4;
  struct Batch {
    std::size_t n = 0;
    /// sort() prefetches headers, and also reads the elements behind the last frame for that.
    std::array<rte_mbuf*, kBurst + kRxPrefetchAhead> frames;

    void push(rte_mbuf* frame) noexcept {
      expects(n < kBurst, "the frame fits");
      frames[n++] = frame;
    }
    [[nodiscard]] std::span<rte_mbuf* const> span() const noexcept { return {frames.data(), n}; }
  };

  /// Waiting MADs are dropped after this many consecutive polls in which the ethdev accepts none.
  static constexpr unsigned kMadPatience = 1024;

  std::uint32_t read_cable(std::uint16_t burst, const RxTable& table) noexcept;
  std::uint32_t take_passed(const RxTable& table) noexcept;
  enum class Origin : std::uint8_t {
    kThisWorker,  ///< It has read the frame from the cable, or sent it to its own port.
    kPassedOn,    ///< Another worker. A multicast frame names its queue pair.
  };
  void sort(Batch& rx, const RxTable& table, Origin origin,
            const SoftUdQueue* sender = nullptr) noexcept;
  void sort_one(rte_mbuf* m, RxFrame& f, const RxTable& table, Origin origin,
                const SoftUdQueue* sender) noexcept;
  void end_run(UdFastRun& run, rte_mbuf** end) noexcept;
  void deliver(UdFastRun& run) noexcept;
  void verify(UdFastRun& run) noexcept;
  void deliver(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts) noexcept;
  void deliver(SoftUdQueue& queue, rte_mbuf* m, const RxFrame& f) noexcept;
  void deliver_to_group(rte_mbuf* m, const RxFrame& f) noexcept;
  void deliver_mad(rte_mbuf* m, const RxFrame& f) noexcept;
  void receive_connected(rte_mbuf* m, const RxFrame& f, const RxTable& table) noexcept;
  [[nodiscard]] unsigned worker_of(const UdWords& ud, const RxTable& table) const noexcept;
  void pass_on(rte_mbuf* frame, unsigned worker) noexcept;
  void pass_on_to(const SoftUdQueue& member, rte_mbuf* frame) noexcept;
  void pass_batch(unsigned worker) noexcept;
  void pass_batches() noexcept;

  std::uint16_t tx_chunk(SoftUdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  rte_mbuf* make_frame_slow(SoftUdQueue& queue, const TxPath& path, rte_mbuf* m, std::size_t index,
                            std::uint64_t& now_tsc, TxExceptions& exceptions) noexcept;
  rte_mbuf* copy_with_room(const rte_mbuf* m, std::uint32_t head_len, std::uint32_t tail_len,
                           Drop& reason) noexcept;
  rte_mbuf* group_copy(const SoftUdQueue& sender, const rte_mbuf* frame) noexcept;
  std::uint16_t complete_burst(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts,
                               std::uint16_t nb_sent, const TxExceptions& exceptions) noexcept;
  std::uint16_t refuse(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts) noexcept;
  [[nodiscard]] bool take_rate(fabric::AhIndex ah, std::uint32_t octets,
                               std::uint64_t& now_tsc) noexcept;
  void send_mads() noexcept;

  rte_mbuf* copy_frame(const rte_mbuf* frame) noexcept;
  rte_mbuf* own_copy(rte_mbuf* m) noexcept;
  rte_mbuf* copy_for(const CaptureTap& tap, const rte_mbuf* frame,
                     CaptureDirection direction) noexcept;
  void hand_to(const CaptureTap& tap, rte_mbuf* copy) noexcept;
  void drop(rte_mbuf* m, Drop reason) noexcept {
    drops_.add(reason);
    rte_pktmbuf_free(m);
  }
  /// Drops a packet that the queue has accepted.
  void lose(SoftUdQueue& queue, rte_mbuf* m, Drop reason) noexcept {
    queue.count_lost(m->pkt_len);
    drop(m, reason);
  }

  UdDatapathConfig config_;
  // The management lcore writes these, the worker reads them.
  std::atomic<const RxTable*> table_{nullptr};
  std::atomic<const CaptureTap*> tap_{nullptr};
  std::atomic<ConnectedPort*> connected_{nullptr};  ///< Null: no connected mode yet.
  std::atomic<bool> ethdev_removed_{false};
  // Written by the worker.
  bool hold_reads_ = false;
  bool skips_cable_ = false;   ///< The cable was not read, because many frames were passed.
  std::size_t next_rx_ = 0;    ///< Index in UdDatapathConfig::rx_queues: the one that is read next.
  bool mads_came_ = false;     ///< mads_in got frames since the doorbell was last rung.
  std::uint16_t nb_mads_ = 0;  ///< MADs in mads_: dequeued from mads_out, not sent yet.
  unsigned mad_waits_ = 0;
  std::array<rte_mbuf*, kBurst> mads_;
  /// Frames for other workers that are not in their rings yet, by worker; empty: there is one worker.
  std::vector<Batch> batches_;
  std::uint64_t batches_of_ = 0;  ///< Bits of the workers whose batch is not empty.
  DropCounters drops_;
  Counter capture_lost_;
  Counter tx_copies_;
  [[no_unique_address]] OneLcore worker_;
};

}  // namespace ipoib::soft
