// SPDX-License-Identifier: BSD-3-Clause
// The send side of one queue pair. Packets are posted as a chain of work requests. Only the last
// one is signalled; its completion completes all before it. Source: ibv_post_send(3),
// ibv_wr_post(3).
#pragma once

#include <infiniband/verbs.h>
#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "drivers/verbs/memory.h"
#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/fabric/tx_lost.h"

namespace ipoib::verbs {

/// Limits that the queue pair was created with.
struct SendLimits {
  std::uint32_t depth = 0;  ///< Work requests, a power of two.
  std::uint32_t max_sge = 1;
  std::uint32_t max_inline = 0;  ///< Octets.
  bool checksum = false;         ///< IBV_SEND_IP_CSUM may be used.
};

/// Worker lcore, except the constructor and, while no worker uses the queue, complete() and flush()
/// (management lcore), and posted(), done(), used() and room() (any thread).
class SendQueue {
 public:
  /// Most packets in one chain.
  static constexpr unsigned kChain = 32;

  /// `extended`: the same queue pair, if its provider has ibv_wr_*; null: ibv_post_send is used.
  /// `tag`: upper half of all work request IDs.
  SendQueue(ibv_qp* qp, ibv_qp_ex* extended, const SendLimits& limits, std::uint32_t tag);
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  ~SendQueue() { flush(); }

  [[nodiscard]] std::uint32_t used() const noexcept {
    return static_cast<std::uint32_t>(get(posted_) - get(done_));
  }
  [[nodiscard]] std::uint32_t room() const noexcept { return limits_.depth - used(); }
  [[nodiscard]] const SendLimits& limits() const noexcept { return limits_; }

  /// Adds a packet to the chain, which must have room for it. False, with nothing changed, if
  /// memory of it is not registered. `ah` is null for a connected queue pair.
  [[nodiscard]] bool add(rte_mbuf* m, const MemoryMap& map, ibv_ah* ah, std::uint32_t qpn,
                         std::uint32_t qkey) noexcept {
    expects_worker();
    expects(!chain_full(m), "the chain has room");
    ibv_send_wr& request = requests_[chained_];
    ibv_sge* const sges = &sges_[sges_used_];
    unsigned n = 0;
    for (const rte_mbuf* segment = m; segment != nullptr; segment = segment->next, ++n) {
      const auto* const data = rte_pktmbuf_mtod(segment, const std::byte*);
      if (!lkeys_.find(map, data, sges[n].lkey)) [[unlikely]]
        return false;
      sges[n].addr = reinterpret_cast<std::uintptr_t>(data);
      sges[n].length = segment->data_len;
    }
    sges_used_ += n;
    request.wr_id = tag_ | static_cast<std::uint32_t>(get(posted_) + chained_);
    request.sg_list = sges;
    request.num_sge = static_cast<int>(n);
    request.send_flags = (m->pkt_len <= limits_.max_inline ? unsigned{IBV_SEND_INLINE} : 0U) |
                         ((m->ol_flags & offload_) != 0 ? unsigned{IBV_SEND_IP_CSUM} : 0U);
    request.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = qkey};
    chain_[chained_++] = m;
    return true;
  }
  [[nodiscard]] bool chain_full(const rte_mbuf* next) const noexcept {
    return chained_ == kChain || sges_used_ + next->nb_segs > sges_.size();
  }
  /// Posts the chain. False if the device did not take all of it; the rest is freed and counted.
  [[nodiscard]] bool post(DropCounters& drops, fabric::TxLost& lost) noexcept;

  /// Completes the work request with this ID and all before it, and frees their packets. False if
  /// it is not pending.
  bool complete(std::uint64_t wr_id) noexcept;
  /// Returns a packet that was posted and is not complete. `position`: done() to posted() - 1.
  [[nodiscard]] rte_mbuf* under_way(std::uint64_t position) const noexcept {
    expects_worker();
    return under_way_[position & (limits_.depth - 1)];
  }
  /// Frees all pending packets and returns their number.
  std::uint32_t flush() noexcept;

  // Any thread.
  [[nodiscard]] std::uint64_t posted() const noexcept { return get(posted_); }
  [[nodiscard]] std::uint64_t done() const noexcept { return get(done_); }

 private:
  [[nodiscard]] static std::uint64_t get(const std::atomic<std::uint64_t>& value) noexcept {
    return value.load(std::memory_order_relaxed);
  }
  [[nodiscard]] unsigned post_chain() noexcept;
  [[nodiscard]] unsigned post_extended() noexcept;

  ibv_qp* qp_;
  ibv_qp_ex* extended_;
  SendLimits limits_;
  std::uint64_t tag_;
  LkeyCache lkeys_;
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> done_{0};
  unsigned chained_ = 0;
  unsigned sges_used_ = 0;
  std::uint64_t offload_;                   ///< Mbuf flags that request a checksum.
  std::unique_ptr<rte_mbuf*[]> under_way_;  ///< Index: place.
  std::array<rte_mbuf*, kChain> chain_;
  std::array<ibv_send_wr, kChain> requests_{};
  std::array<ibv_sge, 4 * kChain> sges_{};
};

/// True if the work request has failed.
[[nodiscard]] inline bool failed(const ibv_wc& wc) noexcept {
  return wc.status != IBV_WC_SUCCESS;
}

}  // namespace ipoib::verbs
