// SPDX-License-Identifier: BSD-3-Clause
// Receive buffers of a queue pair or a shared receive queue: mbufs that the device writes into.
#pragma once

#include <infiniband/verbs.h>
#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "drivers/verbs/memory.h"
#include "lib/base/contract.h"

namespace ipoib::verbs {

struct ReceiveRingConfig {
  rte_mempool* pool = nullptr;
  std::uint32_t depth = 0;
  std::uint32_t segments = 1;  ///< Mbufs per buffer.
  /// Octets that the device writes before the packet, into the headroom.
  std::uint32_t head = 0;
};

/// Worker lcore, except the constructor, the destructor, forget() and, while no worker uses the
/// ring, fill() (management lcore).
class ReceiveRing {
 public:
  static constexpr std::uint32_t kMaxSegments = 32;

  /// Exactly one of `qp` and `srq` is null.
  ReceiveRing(ibv_qp* qp, ibv_srq* srq, const ReceiveRingConfig& config);
  ~ReceiveRing();
  ReceiveRing(const ReceiveRing&) = delete;
  ReceiveRing& operator=(const ReceiveRing&) = delete;

  enum class Fill { kDone, kNoMbufs, kUnregistered, kRefused };
  /// Posts buffers in full chains; with `all`, also the last ones.
  Fill fill(const MemoryMap& map, bool all = false) noexcept;

  /// False: the completion is of a buffer from before forget(), which must not be taken.
  [[nodiscard]] bool is_current(std::uint64_t wr_id) const noexcept {
    return wr_id >> 32 == epoch_;
  }
  /// Takes a completed buffer with `octets` (without head), which the caller then owns.
  [[nodiscard]] rte_mbuf* take(std::uint64_t wr_id, std::uint32_t octets) noexcept {
    expects(is_current(wr_id), "the buffer is not from before forget()");
    recycle(wr_id);
    rte_mbuf** const mbufs = slot(wr_id);
    if (octets > room_) [[unlikely]]
      return take_chain(mbufs, octets);
    // The mbuf is as the mempool gave it: one segment.
    rte_mbuf* const m = std::exchange(mbufs[0], nullptr);
    m->pkt_len = octets;
    m->data_len = static_cast<std::uint16_t>(octets);
    return m;
  }
  /// Frees the place of a completed buffer, which is posted again with its mbufs.
  void recycle(std::uint64_t wr_id) noexcept {
    expects_worker();
    expects(static_cast<std::uint32_t>(wr_id) < depth() && nb_free_ < depth(),
            "the buffer was posted");
    free_[nb_free_++] = static_cast<std::uint32_t>(wr_id);
  }
  /// Frees all places, because the device has forgotten the posted buffers.
  void forget() noexcept;

  [[nodiscard]] std::uint32_t posted() const noexcept { return config_.depth - nb_free_; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return config_.depth; }

 private:
  [[nodiscard]] rte_mbuf** slot(std::uint64_t wr_id) noexcept {
    return &mbufs_[std::size_t{static_cast<std::uint32_t>(wr_id)} * config_.segments];
  }
  /// Returns free place number `i` from the end.
  [[nodiscard]] std::uint32_t last_free(std::uint32_t i) const noexcept {
    return free_[nb_free_ - 1 - i];
  }
  [[nodiscard]] rte_mbuf* take_chain(rte_mbuf** mbufs, std::uint32_t octets) noexcept;
  [[nodiscard]] std::uint32_t supply(std::uint32_t n) noexcept;
  [[nodiscard]] bool describe(std::uint32_t n, const MemoryMap& map) noexcept;
  [[nodiscard]] bool post(std::uint32_t n) noexcept;

  ibv_qp* qp_;
  ibv_srq* srq_;
  ReceiveRingConfig config_;
  std::uint32_t chain_;  ///< Buffers posted together.
  std::uint16_t room_;   ///< Octets of an mbuf after its headroom.
  LkeyCache lkeys_;
  std::uint64_t epoch_ = 0;          ///< Upper half of work request IDs.
  std::vector<std::uint32_t> free_;  ///< Places that are not posted; the last one is next.
  std::uint32_t nb_free_;            ///< Number of free places.
  std::vector<rte_mbuf*> mbufs_;     ///< Index: place and segment; null: to allocate.
  std::vector<ibv_recv_wr> requests_;
  std::vector<ibv_sge> sges_;
};

}  // namespace ipoib::verbs
