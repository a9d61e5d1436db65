#include "drivers/verbs/receive_ring.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ipoib::verbs {
namespace {

constexpr std::uint32_t kChain = 32;
constexpr std::uint32_t kChainOfLong = 4;  ///< Buffers of several mbufs.

}  // namespace

ReceiveRing::ReceiveRing(ibv_qp* qp, ibv_srq* srq, const ReceiveRingConfig& config)
    : qp_{qp},
      srq_{srq},
      config_{config},
      chain_{std::clamp(config.depth / 4, 1U, config.segments == 1 ? kChain : kChainOfLong)},
      room_{static_cast<std::uint16_t>(rte_pktmbuf_data_room_size(config.pool) -
                                       RTE_PKTMBUF_HEADROOM)},
      free_(config.depth),
      mbufs_(std::size_t{config.depth} * config.segments, nullptr),
      requests_(chain_),
      sges_(std::size_t{chain_} * config.segments) {
  std::iota(free_.rbegin(), free_.rend(), 0U);
  for (std::uint32_t i = 0; i < chain_; ++i) {
    requests_[i].sg_list = &sges_[std::size_t{i} * config.segments];
    requests_[i].num_sge = static_cast<int>(config.segments);
  }
}

ReceiveRing::~ReceiveRing() {
  rte_pktmbuf_free_bulk(mbufs_.data(), static_cast<unsigned>(mbufs_.size()));
}

/// Gives the last `n` free places the mbufs they lack. Returns how many of them, from the end, have
/// all of theirs.
std::uint32_t ReceiveRing::supply(std::uint32_t n) noexcept {
  std::array<rte_mbuf**, kChain> lacking;
  std::array<rte_mbuf*, kChain> fresh;
  unsigned wanted = 0;
  std::uint32_t whole = 0;  // Places before those that `lacking` has begun with.
  const auto get = [&] {
    if (rte_pktmbuf_alloc_bulk(config_.pool, fresh.data(), wanted) != 0) return false;
    for (unsigned i = 0; i < wanted; ++i) *lacking[i] = fresh[i];
    wanted = 0;
    return true;
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    if (wanted == 0) whole = i;
    for (rte_mbuf*& m : slot(free_[free_.size() - 1 - i])) {
      if (m != nullptr) continue;
      lacking[wanted++] = &m;
      if (wanted == kChain && !get()) return whole;
    }
  }
  return wanted == 0 || get() ? n : whole;
}

/// Work request `i` of the chain is for this place.
bool ReceiveRing::describe(std::uint32_t place, std::uint32_t i, const MemoryMap& map) noexcept {
  ibv_recv_wr& request = requests_[i];
  request.wr_id = place;
  request.next = &request + 1;
  ibv_sge* sge = request.sg_list;
  std::uint32_t head = config_.head;
  for (const rte_mbuf* m : slot(place)) {
    const auto* const data = rte_pktmbuf_mtod(m, const std::byte*) - head;
    if (!lkeys_.find(map, data, sge->lkey)) [[unlikely]]
      return false;
    sge->addr = reinterpret_cast<std::uintptr_t>(data);
    sge->length = room_ + head;
    head = 0;
    ++sge;
  }
  return true;
}

/// The chain's first `n`, which are for the last places of free_.
bool ReceiveRing::post(std::uint32_t n) noexcept {
  requests_[n - 1].next = nullptr;
  ibv_recv_wr* bad = nullptr;
  const int error = srq_ != nullptr ? ibv_post_srq_recv(srq_, requests_.data(), &bad)
                                    : ibv_post_recv(qp_, requests_.data(), &bad);
  const auto taken = error == 0 ? n : static_cast<std::uint32_t>(bad - requests_.data());
  free_.resize(free_.size() - taken);
  return error == 0;
}

ReceiveRing::Fill ReceiveRing::fill(const MemoryMap& map, bool all) noexcept {
  while (free_.size() >= (all ? 1 : chain_)) {
    const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(free_.size(), chain_));
    const std::uint32_t supplied = supply(n);
    for (std::uint32_t i = 0; i < supplied; ++i)
      if (!describe(free_[free_.size() - 1 - i], i, map)) return Fill::kUnregistered;
    if (supplied != 0 && !post(supplied)) return Fill::kRefused;
    if (supplied != n) return Fill::kNoMbufs;
  }
  return Fill::kDone;
}

rte_mbuf* ReceiveRing::take(std::uint64_t wr_id, std::uint32_t octets) noexcept {
  const auto mbufs = slot(wr_id);
  rte_mbuf* const first = mbufs[0];
  first->pkt_len = octets;
  std::uint32_t n = 0;
  for (rte_mbuf* last = nullptr; n == 0 || octets != 0; ++n) {
    rte_mbuf* const m = std::exchange(mbufs[n], nullptr);
    m->data_len = static_cast<std::uint16_t>(std::min<std::uint32_t>(octets, room_));
    octets -= m->data_len;
    if (last != nullptr) last->next = m;
    last = m;
  }
  first->nb_segs = static_cast<std::uint16_t>(n);
  free_.push_back(static_cast<std::uint32_t>(wr_id));
  return first;
}

void ReceiveRing::forget() noexcept {
  free_.resize(config_.depth);
  std::iota(free_.rbegin(), free_.rend(), 0U);
}

}  // namespace ipoib::verbs
