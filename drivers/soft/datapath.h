// SPDX-License-Identifier: BSD-3-Clause
// What the worker lcore runs of a software HCA: frames from the cable are checked and sorted to
// queue pairs (soft_rx.cc), packets of queue pairs become frames (soft_tx.cc).
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "drivers/soft/ah_table.h"
#include "drivers/soft/capture.h"
#include "drivers/soft/rx_table.h"
#include "drivers/soft/ud_queue.h"
#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/base/doorbell.h"

namespace ipoib::soft {

class ConnectedPort;
struct RxFrame;  // soft_rx.cc
struct UsualBurst;
struct Detours;  // soft_tx.cc
struct TxWay;    // soft_tx.cc

/// What an ethdev may have claimed of a frame does not hold for the packet inside.
inline constexpr std::uint64_t kRxOffloadFlags =
    RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_RX_RSS_HASH;

struct DatapathConfig {
  std::uint16_t port_id = 0;            ///< Ethdev; its queues 0 belong to the worker.
  bool icrc = true;                     ///< False: sent as zero, not checked.
  std::uint32_t mtu = 0;                ///< Largest UD payload, octets.
  rte_mempool* pool = nullptr;          ///< For copies of packets that cannot be changed in place.
  rte_mempool* control_pool = nullptr;  ///< For frames without payload when `pool` is empty.
  const AhTable* ahs = nullptr;
  std::uint64_t (*tsc)() noexcept = nullptr;  ///< Clock of path rates.
  std::uint64_t rate_burst_tsc = 0;           ///< RateBucket::kBurstMs on that clock.
  rte_ring* mads_out = nullptr;  ///< Whole frames to send; the worker is the one consumer.
  /// Frames for QP1, checked; the worker is the one producer. Null: QP1 is elsewhere.
  rte_ring* mads_in = nullptr;
  Doorbell* doorbell = nullptr;  ///< Rung when MADs came; null: management looks by itself.
};

/// Worker lcore only, one for as long as it lives; but publish(), set_tap(), lose_cable(),
/// config(), table() and the counters. drain() and count_drop(), of what no worker uses any more:
/// management lcore too.
///
/// Every frame read from the cable, and every packet a queue pair sends to its own port, is
/// handed to a queue pair or to mads_in, or freed and counted under one Drop.
class alignas(64) Datapath {
 public:
  static constexpr std::uint16_t kBurst = 64;

  explicit Datapath(const DatapathConfig& config) : config_{config} {}
  ~Datapath();
  Datapath(const Datapath&) = delete;
  Datapath& operator=(const Datapath&) = delete;

  /// Sends waiting MADs, reads up to `burst` frames from the cable and sorts them, then does what
  /// connected queue pairs have to do.
  void poll(std::uint16_t burst) noexcept;

  std::uint16_t rx_burst(SoftUdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    expects_own_worker();
    const std::uint16_t nb_rx = queue.pop(pkts, n);
    if (!queue.empty()) hold_reads();
    return nb_rx;
  }
  std::uint16_t tx_burst(SoftUdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;

  /// Frees and counts what is staged for a queue pair that goes away.
  void drain(SoftUdQueue& queue) noexcept;

  /// Management lcore: from now on the worker reads this table, and copies frames to this tap
  /// (null: to none). It may use the old ones until the grace period is over.
  void publish(const RxTable* table) noexcept {
    expects_management();
    table_.store(table, std::memory_order_release);
  }
  void set_tap(const CaptureTap* tap) noexcept {
    expects_management();
    tap_.store(tap, std::memory_order_release);
  }
  /// Management lcore: the worker leaves the ethdev alone, at the latest from the end of a grace
  /// period on.
  void lose_cable() noexcept {
    expects_management();
    cable_lost_.store(true, std::memory_order_relaxed);
  }
  /// Once, and for as long as the worker runs.
  void publish(ConnectedPort* connected) noexcept {
    expects_management();
    connected_.store(connected, std::memory_order_release);
  }

  [[nodiscard]] const DatapathConfig& config() const noexcept { return config_; }

  // For connected queue pairs.
  [[nodiscard]] const RxTable& table() const noexcept {
    return *table_.load(std::memory_order_acquire);
  }
  void count_drop(Drop reason, std::uint64_t n = 1) noexcept { drops_.add(reason, n); }
  /// What is left with a queue would pile up: the next frames wait in the ethdev's ring instead.
  void hold_reads() noexcept {
    expects_own_worker();
    hold_reads_ = true;
  }
  /// Puts whole frames on the wire and returns how many it took, from the front.
  std::uint16_t transmit(std::span<rte_mbuf*> frames) noexcept;
  /// Takes whole frames that queues of this port sent to it.
  void receive_own(std::span<rte_mbuf* const> frames) noexcept;

  [[nodiscard]] const DropCounters& drops() const noexcept { return drops_; }
  /// Frames that a capture missed because its ring or its mempool had no room.
  [[nodiscard]] const Counter& capture_lost() const noexcept { return capture_lost_; }
  /// Sent packets that had to be copied: shared, segmented, or without room for the headers.
  [[nodiscard]] const Counter& tx_copies() const noexcept { return tx_copies_; }

 private:
  [[gnu::always_inline]] void expects_own_worker() const noexcept {
    expects_worker();
    worker_.expects_owner();
  }

  /// Polls in a row in which the wire took no MAD, after which those waiting are lost.
  static constexpr unsigned kMadPatience = 1024;

  void read_cable(std::uint16_t burst) noexcept;
  void sort(std::span<rte_mbuf* const> frames, const RxTable& table,
            const SoftUdQueue* sender) noexcept;
  void stage(UsualBurst& usuals) noexcept;
  void verify(UsualBurst& usuals) noexcept;
  void stage(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts) noexcept;
  void stage(SoftUdQueue& queue, rte_mbuf* m, const RxFrame& f) noexcept;
  void stage_group(rte_mbuf* m, const RxFrame& f) noexcept;
  void receive_connected(rte_mbuf* m, const RxFrame& f, const RxTable& table) noexcept;

  std::uint16_t tx_chunk(SoftUdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept;
  rte_mbuf* make_unusual(SoftUdQueue& queue, const TxWay& way, rte_mbuf* m, std::size_t index,
                         std::uint64_t& now_tsc, Detours& detours) noexcept;
  rte_mbuf* copy_with_room(const rte_mbuf* m, std::uint32_t head_len, std::uint32_t tail_len,
                           Drop& reason) noexcept;
  rte_mbuf* group_copy(const SoftUdQueue& sender, const rte_mbuf* frame) noexcept;
  std::uint16_t settle(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts, std::uint16_t nb_sent,
                       const Detours& detours) noexcept;
  std::uint16_t refuse(SoftUdQueue& queue, std::span<rte_mbuf* const> pkts) noexcept;
  [[nodiscard]] bool take_rate(fabric::AhIndex ah, std::uint32_t octets,
                               std::uint64_t& now_tsc) noexcept;
  void send_mads() noexcept;

  rte_mbuf* copy_frame(const rte_mbuf* frame) noexcept;
  rte_mbuf* copy_for(const CaptureTap& tap, const rte_mbuf* frame,
                     CaptureDirection direction) noexcept;
  void hand_to(const CaptureTap& tap, rte_mbuf* copy) noexcept;
  void drop(rte_mbuf* m, Drop reason) noexcept {
    drops_.add(reason);
    rte_pktmbuf_free(m);
  }
  /// drop() of a packet that the queue has taken.
  void lose(SoftUdQueue& queue, rte_mbuf* m, Drop reason) noexcept {
    queue.count_lost(m->pkt_len);
    drop(m, reason);
  }

  DatapathConfig config_;
  // Management lcore writes, worker reads.
  std::atomic<const RxTable*> table_{nullptr};
  std::atomic<const CaptureTap*> tap_{nullptr};
  std::atomic<ConnectedPort*> connected_{nullptr};  ///< Null: there is no connected mode yet.
  std::atomic<bool> cable_lost_{false};
  // Worker.
  bool hold_reads_ = false;
  bool mads_came_ = false;     ///< Into mads_in, since the doorbell was last rung.
  std::uint16_t nb_mads_ = 0;  ///< In mads_: taken from mads_out, not yet on the wire.
  unsigned mad_waits_ = 0;
  std::array<rte_mbuf*, kBurst> mads_;
  DropCounters drops_;
  Counter capture_lost_;
  Counter tx_copies_;
  [[no_unique_address]] OneLcore worker_;
};

}  // namespace ipoib::soft
