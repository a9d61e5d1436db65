// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/send_queue.h"

#include <algorithm>
#include <bit>

#include "lib/base/contract.h"

namespace ipoib::verbs {
namespace {

constexpr std::uint64_t kOffload = RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK;

}  // namespace

SendQueue::SendQueue(ibv_qp* qp, ibv_qp_ex* extended, const SendLimits& limits, std::uint32_t tag)
    : qp_{qp},
      extended_{extended},
      limits_{limits},
      tag_{std::uint64_t{tag} << 32},
      offload_{limits.checksum ? kOffload : 0},
      under_way_{std::make_unique<rte_mbuf*[]>(limits.depth)} {
  expects(std::has_single_bit(limits.depth), "the depth is a power of two");
  for (unsigned i = 0; i < kChain; ++i) {
    requests_[i].opcode = IBV_WR_SEND;
    requests_[i].next = i + 1 < kChain ? &requests_[i + 1] : nullptr;
  }
}

/// Returns the number of packets that the device took, from the front.
unsigned SendQueue::post_chain() noexcept {
  ibv_send_wr& last = requests_[chained_ - 1];
  ibv_send_wr* const next = last.next;
  last.next = nullptr;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, requests_.data(), &bad);
  last.next = next;
  return error == 0 ? chained_ : static_cast<unsigned>(bad - requests_.data());
}

unsigned SendQueue::post_extended() noexcept {
  ibv_qp_ex* const qp = extended_;
  ibv_wr_start(qp);
  for (unsigned i = 0; i < chained_; ++i) {
    const ibv_send_wr& request = requests_[i];
    qp->wr_id = request.wr_id;
    // The kernel's software device also needs the flag for inline data.
    qp->wr_flags = request.send_flags;
    ibv_wr_send(qp);
    if (request.wr.ud.ah != nullptr)
      ibv_wr_set_ud_addr(qp, request.wr.ud.ah, request.wr.ud.remote_qpn, request.wr.ud.remote_qkey);
    if ((request.send_flags & IBV_SEND_INLINE) != 0)
      ibv_wr_set_inline_data(qp, rte_pktmbuf_mtod(chain_[i], void*), request.sg_list->length);
    else
      ibv_wr_set_sge(qp, request.sg_list->lkey, request.sg_list->addr, request.sg_list->length);
  }
  return ibv_wr_complete(qp) == 0 ? chained_ : 0;
}

bool SendQueue::post(DropCounters& drops, fabric::TxLost& lost) noexcept {
  expects_worker();
  expects(chained_ <= room(), "the queue pair takes the chain");
  if (chained_ == 0) return true;
  requests_[chained_ - 1].send_flags |= IBV_SEND_SIGNALED;
  // No lists: the provider of rxe gets their lengths wrong, up to rdma-core 44 at least.
  const bool single = sges_used_ == chained_;
  const unsigned taken = extended_ != nullptr && single ? post_extended() : post_chain();
  // Packets sent inline are kept too, because freeing many at once costs less.
  const std::uint64_t begin = get(posted_);
  for (unsigned i = 0; i < taken; ++i) under_way_[(begin + i) & (limits_.depth - 1)] = chain_[i];
  posted_.store(begin + taken, std::memory_order_relaxed);
  const unsigned refused = chained_ - taken;
  if (refused != 0) [[unlikely]] {
    for (unsigned i = taken; i < chained_; ++i) lost.add(chain_[i]->pkt_len);
    rte_pktmbuf_free_bulk(&chain_[taken], refused);
    drops.add(Drop::kIbTxFlushed, refused);
  }
  chained_ = 0;
  sges_used_ = 0;
  return refused == 0;
}

bool SendQueue::complete(std::uint64_t wr_id) noexcept {
  const std::uint64_t begin = get(done_);
  const auto behind = static_cast<std::uint32_t>(wr_id) - static_cast<std::uint32_t>(begin);
  if ((wr_id & ~std::uint64_t{0xffff'ffff}) != tag_ || behind >= used()) [[unlikely]]
    return false;
  const std::uint64_t end = begin + behind + 1;
  for (std::uint64_t at = begin; at != end;) {
    const std::uint64_t place = at & (limits_.depth - 1);
    const auto n = static_cast<unsigned>(std::min(end - at, limits_.depth - place));
    rte_pktmbuf_free_bulk(&under_way_[place], n);
    at += n;
  }
  done_.store(end, std::memory_order_relaxed);
  return true;
}

std::uint32_t SendQueue::flush() noexcept {
  const std::uint32_t n = used();
  if (n != 0) complete(tag_ | ((get(posted_) - 1) & 0xffff'ffff));
  return n;
}

}  // namespace ipoib::verbs
