// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/receive_ring.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::verbs {
namespace {

constexpr std::uint32_t kChain = 32;
constexpr std::uint32_t kChainOfLong = 4;  ///< For buffers of several mbufs.

}  // namespace

ReceiveRing::ReceiveRing(ibv_qp* qp, ibv_srq* srq, const ReceiveRingConfig& config)
    : qp_{qp},
      srq_{srq},
      config_{config},
      chain_{std::clamp(config.depth / 4, 1U, config.segments == 1 ? kChain : kChainOfLong)},
      room_{static_cast<std::uint16_t>(rte_pktmbuf_data_room_size(config.pool) -
                                       RTE_PKTMBUF_HEADROOM)},
      free_(config.depth),
      nb_free_{config.depth},
      mbufs_(std::size_t{config.depth} * config.segments, nullptr),
      requests_(chain_),
      sges_(std::size_t{chain_} * config.segments) {
  expects((qp == nullptr) != (srq == nullptr), "one of the two is null");
  expects(config.segments != 0 && config.segments <= kMaxSegments, "a buffer has a few mbufs");
  std::iota(free_.rbegin(), free_.rend(), 0U);
  for (std::uint32_t i = 0; i < chain_; ++i) {
    ibv_sge* const sges = &sges_[std::size_t{i} * config.segments];
    requests_[i].next = &requests_[i] + 1;
    requests_[i].sg_list = sges;
    requests_[i].num_sge = static_cast<int>(config.segments);
    for (std::uint32_t part = 0; part < config.segments; ++part)
      sges[part].length = room_ + (part == 0 ? config.head : 0);
  }
}

ReceiveRing::~ReceiveRing() {
  rte_pktmbuf_free_bulk(mbufs_.data(), static_cast<unsigned>(mbufs_.size()));
}

/// Allocates the missing mbufs of the last `n` free places. Returns the number of complete places,
/// counted from the end.
std::uint32_t ReceiveRing::supply(std::uint32_t n) noexcept {
  std::array<rte_mbuf**, kChain> lacking;
  std::array<rte_mbuf*, kChain> fresh;
  unsigned wanted = 0;
  std::uint32_t whole = 0;  // Complete places before the first one in `lacking`.
  const auto get = [&] {
    if (rte_pktmbuf_alloc_bulk(config_.pool, fresh.data(), wanted) != 0) return false;
    for (unsigned i = 0; i < wanted; ++i) *lacking[i] = fresh[i];
    wanted = 0;
    return true;
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    if (wanted == 0) whole = i;
    rte_mbuf** const mbufs = slot(last_free(i));
    for (std::uint32_t part = 0; part < config_.segments; ++part) {
      if (mbufs[part] != nullptr) continue;
      lacking[wanted++] = &mbufs[part];
      if (wanted == kChain && !get()) return whole;
    }
  }
  return wanted == 0 || get() ? n : whole;
}

/// Fills the chain's first `n` work requests from the last places of free_. False: an mbuf's memory
/// is not registered.
bool ReceiveRing::describe(std::uint32_t n, const MemoryMap& map) noexcept {
  const std::uint32_t segments = config_.segments;
  ibv_recv_wr* request = requests_.data();
  ibv_sge* sge = sges_.data();
  for (std::uint32_t i = 0; i < n; ++i, ++request) {
    const std::uint32_t place = last_free(i);
    request->wr_id = epoch_ << 32 | place;
    rte_mbuf* const* const mbufs = slot(place);
    std::uint32_t head = config_.head;
    for (std::uint32_t part = 0; part < segments; ++part, ++sge) {
      const auto* const data = rte_pktmbuf_mtod(mbufs[part], const std::byte*) - head;
      if (!lkeys_.find(map, data, sge->lkey)) [[unlikely]]
        return false;
      sge->addr = reinterpret_cast<std::uintptr_t>(data);
      head = 0;
    }
  }
  return true;
}

/// Posts the chain's first `n` work requests, which are for the last places of free_.
bool ReceiveRing::post(std::uint32_t n) noexcept {
  ibv_recv_wr*& end = requests_[n - 1].next;
  ibv_recv_wr* const next = std::exchange(end, nullptr);
  ibv_recv_wr* bad = nullptr;
  const int error = srq_ != nullptr ? ibv_post_srq_recv(srq_, requests_.data(), &bad)
                                    : ibv_post_recv(qp_, requests_.data(), &bad);
  end = next;
  nb_free_ -= error == 0 ? n : static_cast<std::uint32_t>(bad - requests_.data());
  return error == 0;
}

ReceiveRing::Fill ReceiveRing::fill(const MemoryMap& map, bool all) noexcept {
  while (nb_free_ >= (all ? 1 : chain_)) {
    const std::uint32_t n = std::min(nb_free_, chain_);
    const std::uint32_t supplied = supply(n);
    if (!describe(supplied, map)) return Fill::kUnregistered;
    if (supplied != 0 && !post(supplied)) return Fill::kRefused;
    if (supplied != n) return Fill::kNoMbufs;
  }
  return Fill::kDone;
}

/// Takes a buffer of several mbufs: those that the packet fills.
rte_mbuf* ReceiveRing::take_chain(rte_mbuf** mbufs, std::uint32_t octets) noexcept {
  rte_mbuf* const first = mbufs[0];
  first->pkt_len = octets;
  std::uint16_t n = 0;
  for (rte_mbuf* last = nullptr; octets != 0; ++n) {
    rte_mbuf* const m = std::exchange(mbufs[n], nullptr);
    m->data_len = static_cast<std::uint16_t>(std::min<std::uint32_t>(octets, room_));
    octets -= m->data_len;
    if (last != nullptr) last->next = m;
    last = m;
  }
  first->nb_segs = n;
  return first;
}

void ReceiveRing::forget() noexcept {
  expects_management();
  epoch_ = (epoch_ + 1) & 0xffff'ffff;
  nb_free_ = config_.depth;
  std::iota(free_.rbegin(), free_.rend(), 0U);
}

}  // namespace ipoib::verbs
