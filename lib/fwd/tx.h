// SPDX-License-Identifier: BSD-3-Clause
// Stage tx: finished packets wait here, one queue per egress interface, until the burst is full or
// the loop ends.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/fabric/ud_frames.h"
#include "lib/fwd/tracer.h"
#include "lib/fwd/worker_config.h"

namespace ipoib::fwd {

class Tx {
  enum class Kind : std::uint8_t { kEthernet, kIpoib, kHandoff };

  static_assert(kMaxBurst == 64, "Queue::by_handle has a bit for each packet");

  /// Queue of an own interface, or of another worker.
  struct alignas(64) Queue {
    std::uint16_t n = 0;
    Kind kind = Kind::kHandoff;
    std::uint8_t header = 0;                         ///< Octets of the link header.
    std::uint16_t segments = 0;                      ///< Bound of those of any packet.
    std::uint16_t ethdev_queue = 0;                  ///< kEthernet only.
    table::InterfaceId iface = table::kNoInterface;  ///< Unset for kHandoff.
    std::uint8_t worker = 0;                         ///< kHandoff only.
    /// kIpoib: frames can be sent in this loop; none: not asked yet.
    std::optional<bool> frames;
    std::uint64_t octets = 0;  ///< Octets of the packets without link headers.
    /// kIpoib: bit i: packet i has PacketMeta::tx. The others are whole frames.
    std::uint64_t by_handle = 0;
    const InterfaceEntry* interface = nullptr;          ///< Null for kHandoff.
    rte_ring* ring = nullptr;                           ///< kHandoff only.
    fabric::UdQueue* ud = nullptr;                      ///< kIpoib only.
    fabric::FrameKeys keys;                             ///< Valid if `frames`.
    alignas(64) std::array<rte_mbuf*, kMaxBurst> pkts;  ///< Otherwise a packet costs 0.4 ns more.
  };

 public:
  /// `counters`: those of this worker, indexed by InterfaceId.
  Tx(const WorkerConfig& config, std::span<InterfaceCounters> counters, Tracer& trace);

  /// Takes a packet with its link header, and with PacketMeta::tx if the interface is IPoIB. A
  /// packet for an interface of another worker is handed over. Packets that the device or the other
  /// worker does not take are freed and counted on the egress interface (kEthTxFull, kIbTxFull,
  /// kHandoffRingFull; kLinkDown if the device is stopped). A chain longer than an ethdev sends is
  /// copied first; if it cannot be copied, it is counted as kNoMbuf or kTxSegments. A packet that
  /// an InfiniBand device takes and then loses is counted as tx_lost here; its drop reason is in
  /// the counters of that device only.
  void enqueue(table::InterfaceId iface, rte_mbuf* m) noexcept {
    expects_no_batch(iface);
    Queue& q = *queue_of_[iface];
    if (q.kind == Kind::kHandoff) [[unlikely]]
      name_interface(m, iface);
    push(q, m);
  }

  /// Enqueues consecutive packets for one interface, which is looked up once. Call end() before any
  /// other enqueue, except enqueue_connected() with has_connection().
  class Batch {
   public:
    explicit Batch(Tx& tx) noexcept : tx_{tx} {}
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    ~Batch() { end(); }

    void begin(table::InterfaceId iface) noexcept {
      end();
      tx_.expects_no_batch(iface);
      tx_.batch_.set(this);
      iface_ = iface;
      queue_ = tx_.queue_of_[iface];
      n_ = queue_->n;
      octets_ = queue_->octets;
      segments_ = queue_->segments;
      handoff_ = queue_->kind == Kind::kHandoff;
    }
    // Shape of the following functions: between begin() and end().

    /// Keys for whole frames; null: packets of the interface are sent by their handles.
    [[nodiscard]] const fabric::FrameKeys* frame_keys() noexcept {
      expects(queue_ != nullptr, "the batch is open");
      return queue_->kind == Kind::kIpoib && ask_for_keys(*queue_) ? &queue_->keys : nullptr;
    }
    /// Takes an IPoIB packet with its link header and PacketMeta::tx.
    void push_by_handle(rte_mbuf* m) noexcept {
      queue_->by_handle |= std::uint64_t{1} << n_;
      push(m);
    }
    /// Takes an Ethernet frame.
    void push(rte_mbuf* m) noexcept {
      expects(queue_ != nullptr && n_ < kMaxBurst, "the batch is open");
      segments_ |= m->nb_segs;
      if (handoff_) [[unlikely]]
        name_interface(m, iface_);
      octets_ += std::uint64_t{m->pkt_len} - queue_->header;
      queue_->pkts[n_++] = m;
      if (n_ == kMaxBurst) [[unlikely]]
        flush();
    }
    /// The free places of the queue, for a run of packets that its caller writes there by itself.
    [[nodiscard]] std::span<rte_mbuf*> free_places() const noexcept {
      expects(queue_ != nullptr && !handoff_, "the batch of an own interface is open");
      return std::span{queue_->pkts}.subspan(n_);
    }
    /// Takes the first `n` of those places. `octets`: those of the IP packets. `by_handle`: false:
    /// they are Ethernet frames, or whole frames with frame_keys().
    void push_run(std::uint16_t n, std::uint32_t octets, std::uint16_t segments,
                  bool by_handle) noexcept {
      expects(n <= kMaxBurst - n_, "there is room for the run");
      if (n == 0) return;
      if (by_handle) queue_->by_handle |= ~std::uint64_t{0} >> (kMaxBurst - n) << n_;
      n_ = static_cast<std::uint16_t>(n_ + n);
      octets_ += octets;
      segments_ |= segments;
      if (n_ == kMaxBurst) [[unlikely]]
        flush();
    }
    /// True if the packets go to another worker.
    [[nodiscard]] bool is_handed_over() const noexcept { return handoff_; }
    void end() noexcept {
      if (queue_ != nullptr) {
        write_back();
        tx_.batch_.set(nullptr);
      }
      queue_ = nullptr;
    }

   private:
    void write_back() noexcept {
      queue_->n = n_;
      queue_->octets = octets_;
      queue_->segments = segments_;
    }
    void flush() noexcept {
      write_back();
      tx_.flush(*queue_);
      n_ = 0;
      octets_ = 0;
      segments_ = 0;
    }

    Tx& tx_;
    Queue* queue_ = nullptr;  ///< Null: between batches.
    // Copies of the queue's members that the compiler can keep in registers.
    std::uint16_t n_ = 0;
    std::uint16_t segments_ = 0;
    std::uint64_t octets_ = 0;
    bool handoff_ = false;
    table::InterfaceId iface_ = table::kNoInterface;
  };

  /// True if the connection of `to` belongs to this worker.
  [[nodiscard]] bool has_connection(const table::Neighbour& to) const noexcept {
    return to.worker == number_;
  }
  /// True if this worker can send over the connection of `to`, or hand packets to its worker.
  [[nodiscard]] bool can_reach(const table::Neighbour& to) const noexcept {
    return has_connection(to) ? connected_of_[to.iface] != nullptr
                              : to.worker < worker_of_.size() && worker_of_[to.worker] != nullptr;
  }
  /// Enqueues a packet for the connection of `to`, whose number is `index`. A handoff to the
  /// connection's worker carries the number, because the queue may be gone when that worker takes the
  /// packet. Shape: can_reach(to).
  void enqueue_connected(const table::Neighbour& to, table::NeighbourIndex index,
                         rte_mbuf* m) noexcept;

  /// Sends all waiting packets. Once a loop.
  void flush() noexcept {
    expects(batch_.is(nullptr), "no batch is open");
    for (Queue& q : queues_) {
      if (q.n != 0) flush(q);
      q.frames.reset();
    }
    for (Connected& q : connected_)
      if (q.n != 0) flush(q);
  }

 private:
  /// This worker's connections of a link: packets in order, each with its queue.
  struct alignas(64) Connected {
    std::uint16_t n = 0;
    table::InterfaceId iface = table::kNoInterface;
    std::array<rte_mbuf*, kMaxBurst> pkts;
    std::array<fabric::ConnectedQueue*, kMaxBurst> queues;
  };

  /// Shape of every enqueue outside a batch.
  [[gnu::always_inline]] void expects_no_batch(table::InterfaceId iface) const noexcept {
    expects(iface < queue_of_.size(), "the interface exists");
    expects(batch_.is(nullptr), "no batch is open");
  }
  void add_workers(const WorkerConfig& config);
  void push(Queue& q, rte_mbuf* m) noexcept {
    q.octets += std::uint64_t{m->pkt_len} - q.header;
    q.by_handle |= std::uint64_t{1} << q.n;
    q.segments |= m->nb_segs;
    q.pkts[q.n++] = m;
    if (q.n == kMaxBurst) [[unlikely]]
      flush(q);
  }
  /// Result of sending a burst.
  struct Outcome {
    std::uint16_t taken = 0;
    fabric::TxLost lost{};  ///< Part of `taken`.
  };

  static void name_interface(rte_mbuf* m, table::InterfaceId iface) noexcept;
  template <class FabricQueue>
  static Outcome send(FabricQueue& queue, std::span<rte_mbuf*> pkts) noexcept;
  static Outcome send(Queue& q) noexcept;
  static Outcome send_ud(Queue& q) noexcept;
  [[nodiscard]] static bool ask_for_keys(Queue& q) noexcept {
    if (!q.frames) [[unlikely]]
      q.frames = read_keys(q);
    return *q.frames;
  }
  static bool read_keys(Queue& q) noexcept;
  static std::uint64_t octets_from(const Queue& q, std::uint16_t first) noexcept;
  void shorten_chains(Queue& q) noexcept;
  void flush(Queue& q) noexcept;
  void flush(Connected& q) noexcept;
  void count_sent(table::InterfaceId iface, std::uint32_t header, std::uint64_t octets,
                  const Outcome& outcome) noexcept;
  [[gnu::cold]] void trace_departure(const Queue& q, const Outcome& outcome) noexcept;
  static Drop unsent_reason(const Queue& q) noexcept;
  void count_unsent(const Queue& q, std::uint16_t sent) noexcept;

  std::vector<Queue> queues_;
  std::vector<Queue*> queue_of_;  ///< Indexed by InterfaceId; points into queues_.
  /// Indexed by worker number: queues to those that this worker hands packets to; null: none.
  std::vector<Queue*> worker_of_;
  std::vector<Connected> connected_;
  std::vector<Connected*> connected_of_;  ///< Indexed by InterfaceId; into connected_, or null.
  unsigned number_;                       ///< That of this worker.
  std::span<InterfaceCounters> counters_;
  rte_mempool* pool_;  ///< Pool for copies.
  Tracer& trace_;
  [[no_unique_address]] ForChecks<const Batch*> batch_;  ///< The open batch.
};

}  // namespace ipoib::fwd
