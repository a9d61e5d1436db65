// SPDX-License-Identifier: BSD-3-Clause
// A sample of the ports whose packets a UD queue pair receives. Management moves neighbours away
// from busy workers by it.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/counters.h"
#include "lib/fabric/packet_meta.h"

namespace ipoib::fabric {

/// A uniform sample of one packet in 256 on average, at random distances, of which each period keeps
/// kSize (Vitter's algorithm R). Writer: the worker that owns the queue pair. Reader: management.
class SenderSamples {
 public:
  static constexpr std::uint32_t kMeanGap = 256;
  static constexpr std::size_t kSize = 1024;

  /// Shape: PacketMeta::rx is filled.
  void count(std::span<rte_mbuf* const> pkts) noexcept {
    const auto n = static_cast<std::uint32_t>(pkts.size());
    packets_.add(n);
    if (n <= until_next_) [[likely]] {
      until_next_ -= n;
      return;
    }
    take(meta_of(pkts[until_next_]).rx);
    // No shorter than a burst, so that a burst has one sample.
    until_next_ += kMeanGap / 2 + random(kMeanGap) - n;
  }

  struct Period {
    std::uint64_t packets = 0;        ///< All, not only the sampled ones.
    std::vector<std::uint16_t> lids;  ///< Sources of the sampled packets; 0: multicast.
  };
  /// Management. Ends a period, and returns its packets.
  [[nodiscard]] Period end_period() {
    const std::uint64_t state = state_.load(std::memory_order_acquire);
    const std::uint64_t packets = packets_.get();
    Period period{packets - std::exchange(ended_at_, packets), {}};
    std::vector<std::uint16_t>& lids = period.lids;
    // The worker begins a period with its first sample.
    if (state >> 32 == period_.load(std::memory_order_relaxed)) {
      lids.resize(std::min<std::size_t>(state & UINT32_MAX, kSize));
      for (std::size_t i = 0; i < lids.size(); ++i)
        lids[i] = lids_[i].load(std::memory_order_relaxed);
    }
    period_.store(period_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return period;
  }

 private:
  /// A number below `n`, of a linear congruential generator.
  std::uint32_t random(std::uint32_t n) noexcept {
    random_ = random_ * 6'364'136'223'846'793'005 + 1;
    return static_cast<std::uint32_t>((random_ >> 32) * n >> 32);
  }
  [[gnu::noinline]] void take(const PacketMeta::Rx& rx) noexcept {
    const std::uint64_t state = state_.load(std::memory_order_relaxed);
    const std::uint64_t period = period_.load(std::memory_order_relaxed);
    const auto taken = state >> 32 == period ? static_cast<std::uint32_t>(state) : 0U;
    const std::uint32_t place = taken < kSize ? taken : random(taken + 1);
    if (place < kSize) lids_[place].store(rx.multicast ? 0 : rx.slid, std::memory_order_relaxed);
    state_.store(period << 32 | std::min(taken + 1, UINT32_MAX - 1), std::memory_order_release);
  }

  static_assert(kMeanGap / 2 >= 64, "no shorter than a burst");

  std::uint32_t until_next_ = 0;  ///< Packets before the next sample.
  std::uint64_t random_ = 1;
  Counter packets_;
  std::atomic<std::uint64_t> state_{0};  ///< The period, and its number of samples so far.
  std::atomic<std::uint32_t> period_{1};
  std::array<std::atomic<std::uint16_t>, kSize> lids_{};
  std::uint64_t ended_at_ = 0;  ///< `packets_` at the end of the previous period; management's.
};

}  // namespace ipoib::fabric
